"""`headrace completion`: what a shell makes of its script."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from headrace.tools.command_line import main

ASK = """
source script.bash
COMP_WORDS=({words}) COMP_CWORD={last} COMP_LINE="{line}" COMP_POINT={point}
$(complete -p headrace | sed 's/.*-F \\([^ ]*\\).*/\\1/')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def _completed(folder, line):
    """The words that bash offers for the last word of a line."""
    words = line.split(" ")
    asked = ASK.format(
        words=" ".join(word or '""' for word in words),
        last=len(words) - 1,
        line=line,
        point=len(line),
    )
    done = subprocess.run(
        [shutil.which("bash"), "-c", asked], cwd=folder, capture_output=True, text=True
    )
    assert done.stderr == ""
    return sorted(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_options_choices_and_files(tmp_path, capsys):
    """Asked as bash asks when somebody presses the tab key."""
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script.bash").write_text(capsys.readouterr().out)
    (tmp_path / "train.py").touch()
    assert _completed(tmp_path, "headrace d") == ["demo", "diff"]
    assert _completed(tmp_path, "headrace checkpoint ") == ["diff", "inspect"]
    assert "--step-seconds" in _completed(tmp_path, "headrace bench --st")
    assert _completed(tmp_path, "headrace convert --to p") == ["parquet"]
    assert _completed(tmp_path, "headrace completion b") == ["bash"]
    assert _completed(tmp_path, "headrace bench tr") == ["train.py"]
    assert _completed(tmp_path, "headrace diff train.py tr") == ["train.py"]


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_scripts_for_other_shells_name_each_command(shell, capsys):
    """And are taken by the shell, if it is here."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in ("bench", "demo", "checkpoint", "completion"))
    if shutil.which(shell) is not None:
        subprocess.run([shutil.which(shell), "-n"], input=script, text=True, check=True)


def test_without_shtab_the_extra_is_named(monkeypatch, capsys):
    """In one line."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert (
        capsys.readouterr().err
        == 'headrace: headrace completion needs shtab: pip install "headrace[completion]"\n'
    )
