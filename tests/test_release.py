"""What a release needs beside the code: one version, no placeholder for an address, workflows that
name what is there.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
WORKFLOWS = sorted((CHECKOUT / ".github").rglob("*.yml"))


def read(name: str) -> str:
    """A text of the tree."""
    return (CHECKOUT / name).read_text()


def test_no_address_is_a_placeholder():
    """An address that is not known yet is left out."""
    if not (CHECKOUT / ".git").exists():
        pytest.skip("not a clone")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True
    ).stdout.split("\n")
    texts = [
        name
        for name in listed
        if name.endswith((".toml", ".cff", ".md", ".yml", ".py")) and "tests/" not in name
    ]
    assert not [name for name in texts if ".invalid/" in read(name)]


def test_there_is_one_version():
    """In pyproject.toml, in the citation, and as the first heading of the changes."""
    version = SETTINGS["project"]["version"]
    assert yaml.safe_load(read("CITATION.cff"))["version"] == version
    assert re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)[1] == version


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_workflows_and_forms_name_is_there(path):
    """Each is YAML; groups of dependencies, and files of tests, have these names."""
    text = path.read_text()
    assert yaml.safe_load(text)
    assert set(re.findall(r"--group (\S+)", text)) <= set(SETTINGS["dependency-groups"])
    for name in re.findall(r"(?<![\w/])(?:tests|docs|\.ci)/[\w/.]*\w", text):
        assert (CHECKOUT / name).exists() or name == "docs/_site", name
