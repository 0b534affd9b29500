"""What a release needs beside the code: one version, no address that is still unknown, workflows that name what is there."""

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


def placeholders() -> set[tuple[str, str]]:
    """Files, and addresses in them that stand for one which is not known yet."""
    listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True).stdout.split("\n")
    texts = [name for name in listed if name.endswith((".toml", ".cff", ".md", ".yml", ".py")) and "tests/" not in name]
    return {(name, text) for name in texts for text in re.findall(r"[\w.]+\.headrace\.invalid", read(name))}


def read(name: str) -> str:
    """A text of the tree."""
    return (CHECKOUT / name).read_text()


def test_no_placeholder_is_left_in_a_release(request):
    """Until there is a home, addresses end with `.invalid`: they lead nowhere. A release needs real ones."""
    if not request.config.getoption("--release"):
        pytest.skip("only for a release, with --release")
    assert not placeholders()


def test_placeholders_are_found():
    """The addresses of the project and the one for security reports. Remove this test with the last of them."""
    if not (CHECKOUT / ".git").exists():
        pytest.skip("not a clone")
    found = {name for name, _ in placeholders()}
    assert {"pyproject.toml", "CITATION.cff", ".github/ISSUE_TEMPLATE/config.yml"} <= found


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
