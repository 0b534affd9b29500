"""Every example is run as a user runs it: as a program of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def run(example, out, *arguments):
    """Runs one example with all warnings turned on; gives exit code and what it printed."""
    command = [sys.executable, str(example), "--out", str(out), *arguments]
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=1200, env=environment, check=False
    )


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_verifies_what_it_claims(example, tmp_path):
    """An example ends with exit code 0, without a warning, and has said what it verified; a picture
    is a PNG file.
    """
    done = run(example, tmp_path)
    assert done.returncode == 0, done.stderr
    claims = [line for line in done.stdout.splitlines() if line.startswith("verified: ")]
    assert claims, done.stdout
    assert "FAILED" not in done.stdout + done.stderr
    for picture in tmp_path.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    if example.stem == "train_digits":
        digits_claims(claims, tmp_path)


def digits_claims(claims, out):
    """What the main example must have shown."""
    text = "\n".join(claims)
    assert "1,437 digits to train on, 360 to test; none is in both parts" in text
    assert re.search(r"^verified: 0 of \d+ losses differ in any bit", text, re.MULTILINE)
    assert "same to the last bit" in text
    assert float(re.search(r"test accuracy is ([\d.]+)%", text)[1]) >= 97
    assert (out / "loss.png").exists()
