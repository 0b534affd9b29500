"""A test that leaves something behind fails, and it alone."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LEAKY = """
import os, pytest, subprocess, sys, tempfile, threading, time

KEPT = []

def test_process():
    KEPT.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]))

def test_zombie():
    KEPT.append(subprocess.Popen([sys.executable, "-c", ""]))
    os.waitid(os.P_PID, KEPT[-1].pid, os.WEXITED | os.WNOWAIT)

def test_descriptor():
    KEPT.append(os.open(os.devnull, os.O_RDONLY))

def test_descriptor_in_place_of_another():
    other = os.open("/dev/zero", os.O_RDONLY)
    os.dup2(other, KEPT[-1])
    os.close(other)

def test_folder():
    tempfile.mkdtemp("left")

def test_thread():
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()

def test_nothing():
    threading.Thread(target=time.sleep, args=(0.1,)).start()
    subprocess.run([sys.executable, "-c", ""], check=True)

@pytest.mark.long
def test_long():
    raise AssertionError
"""


def _run(folder: Path, *options: str) -> str:
    """What pytest says of a file of tests that leave things behind, held to what our tests are held
    to.
    """
    here = Path(__file__).parent.parent.parent
    (folder / "support").mkdir(exist_ok=True)
    for name in ("conftest.py", "support/__init__.py", "support/leaks.py"):
        shutil.copy(here / name, folder / name)
    impatient, count = re.subn(
        r"(?m)^PATIENCE_SECONDS = .*",
        "PATIENCE_SECONDS = 0.5",
        (folder / "support" / "leaks.py").read_text(),
    )
    assert count == 1
    (folder / "support" / "leaks.py").write_text(impatient)
    (folder / "test_leaky.py").write_text(LEAKY)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: long\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(folder / "t"),
    ]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, cwd=folder, env={**os.environ}
    )
    return done.stdout + done.stderr


def _named(report: str, outcome: str) -> set[str]:
    return set(re.findall(rf"^(?:{outcome}) test_leaky.py::test_(\w+)", report, re.MULTILINE))


@pytest.mark.long
def test_each_test_that_leaves_something_fails_alone_and_names_it(tmp_path):
    """Processes, zombies, descriptors, folders and threads; none is blamed on the next test."""
    report = _run(tmp_path)
    assert _named(report, "ERROR") == {
        "process",
        "zombie",
        "descriptor",
        "descriptor_in_place_of_another",
        "folder",
        "thread",
    }, report
    for named in ("sleep(1000)", "zombie", "/dev/null", "/dev/zero", "left", "Thread"):
        assert re.search(rf"left behind: .*{re.escape(named)}", report), report


@pytest.mark.long
def test_long_tests_run_only_if_asked_for(tmp_path):
    """With the option --long they run too."""
    assert _named(_run(tmp_path, "-k", "nothing or long"), "PASSED|FAILED") == {"nothing"}
    assert _named(_run(tmp_path, "-k", "nothing or long", "--long"), "FAILED") == {"long"}
