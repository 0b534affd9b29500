"""Every example in README, docs and docstrings runs."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import millrace

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = ["millrace", *(module.name for module in pkgutil.walk_packages(millrace.__path__, "millrace."))]
BESIDE = ("millrace.tests", "millrace.examples", "millrace.benchmarks", "millrace.docs", "millrace.build")


def _blocks() -> list[tuple[str, str]]:
    """Name and text of each block of Python in the pages."""
    found = []
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        found += [(f"{page.name}-{number}", block) for number, block in enumerate(blocks)]
    return found


@pytest.mark.parametrize("module", [name for name in MODULES if not name.startswith(BESIDE)])
def test_examples_in_docstrings_print_what_they_say(module):
    """Doctests of the whole library."""
    results = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


@pytest.mark.parametrize(("name", "block"), _blocks(), ids=[name for name, _ in _blocks()])
def test_blocks_in_pages_run_as_programs_of_their_own(name, block, tmp_path):
    """A reader can paste any block into a file and run it."""
    program = tmp_path / "block.py"
    program.write_text(block)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TMPDIR": str(tmp_path)}  # which goes when the test ends
    result = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=300,
    )
    assert result.returncode == 0, f"{name}:\n{result.stderr}"


def test_links_between_pages_lead_somewhere():
    """Relative links in README and docs name files that exist."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} → {target}"
