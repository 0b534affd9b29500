"""Every example in README, docs and docstrings runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support import write_rlds

import headrace
from headrace.tools import command_line

ROOT = Path(__file__).parent.parent
BESIDE = ("tests", "examples", "bench", "docs", "build")
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_site" not in page.parts),
]
MODULES = sorted(
    ".".join(
        [
            "headrace",
            *(part for part in path.relative_to(ROOT).with_suffix("").parts if part != "__init__"),
        ]
    )
    for folder in [ROOT, *ROOT.iterdir()]
    if folder.name not in BESIDE and folder.name[0] != "." and folder.is_dir()
    for path in (folder.glob("*.py") if folder == ROOT else folder.rglob("*.py"))
    if path.name != "setup.py" and ">>>" in path.read_text()
)
"""The modules that have examples."""
WITH_KERAS = (
    "headrace.compat.keras.adapter",
    "headrace.compat.keras.callback",
    "docs/how-to/keras.md-0",
)
"""Long, as its import alone takes seconds."""
DEAR = ("headrace.reporting.report", "headrace.loader.device.remote.description")
"""Slow: one draws pictures, the other starts processes."""


def _marked(name: str, *more: str) -> object:
    """The parameters of a test, which is long if Keras is needed."""
    marks = [pytest.mark.long] * (name in WITH_KERAS) + [pytest.mark.slow] * (name in DEAR)
    return pytest.param(name, *more, marks=marks, id=name)


def _blocks() -> list[tuple[str, str]]:
    """Name and text of each block of Python in the pages. Recipes have a test of their own,
    `test_recipes.py`.
    """
    found = []
    for page in PAGES:
        if page.parent.name == "recipes":
            continue
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        found += [
            (f"{page.relative_to(ROOT)}-{number}", block) for number, block in enumerate(blocks)
        ]
    return found


class Unwrapped(doctest.DocTestFinder):
    """Finds the examples of decorated methods, too: the decorator is of another module."""

    def _from_module(self, module, object):
        return super()._from_module(
            module, inspect.unwrap(object) if inspect.isfunction(object) else object
        )


@pytest.mark.parametrize("module", [_marked(name) for name in MODULES])
def test_examples_in_docstrings_print_what_they_say(module):
    """Doctests of the whole library."""
    loaded = importlib.import_module(module)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for example in Unwrapped().find(loaded, loaded.__name__):
        runner.run(example)
    assert runner.summarize().failed == 0


def test_examples_of_decorated_methods_are_found():
    """Those of chains, whose methods say what to write for arguments of other libraries, are as
    many as they were.
    """
    found = {
        example.name
        for example in Unwrapped().find(headrace.chains.map_methods)
        if example.examples
    }
    assert {"shuffle", "slice", "pack"} <= {name.rpartition(".")[2] for name in found}


def _run(block: str, tmp_path: Path) -> None:
    """Run a block as a program of its own."""
    program = tmp_path / "block.py"
    program.write_text(block)
    if '"pusht"' in block:
        shutil.copytree(
            ROOT / "tests" / "sources" / "lerobot" / "several_files", tmp_path / "pusht"
        )
    if '"kitchen/' in block:
        write_rlds.write(tmp_path / "kitchen")
    if 'TfdsDataSource("kitchen"' in block:
        write_rlds.prepare(tmp_path / "data")
    # compiling takes most of their time
    quick = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment = {**os.environ, **quick, "TMPDIR": str(tmp_path)}  # which goes when the test ends
    result = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("name", "block"), [_marked(*named) for named in _blocks() if named[0].startswith("README")]
)
def test_blocks_in_the_readme_run_as_programs_of_their_own(name, block, tmp_path):
    """A reader can paste any block into a file and run it."""
    _run(block, tmp_path)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("name", "block"), [_marked(*named) for named in _blocks() if named[0].startswith("docs")]
)
@pytest.mark.slow
def test_blocks_in_pages_run_as_programs_of_their_own(name, block, tmp_path):
    """Likewise of any page."""
    _run(block, tmp_path)


def _anchors(page: Path) -> set[str]:
    """The names that a page's headings have in links, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere():
    """Relative links in README and docs name files that exist, and headings that these have."""
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
            if "://" not in target:
                aim = page.parent / target if target else page
                assert aim.exists(), f"{page.name} → {target}"
                assert not anchor or anchor in _anchors(aim), f"{page.name} → {target}#{anchor}"


@pytest.mark.parametrize("folder", ["docs", "docs/how-to", "docs/api", "docs/recipes"])
def test_each_page_is_listed_once(folder):
    """Every page can be found from the list of its folder, and no how-to is longer than a reader
    wants to read.
    """
    pages = {page.name: page.read_text() for page in (ROOT / folder).glob("*.md")}
    listed = re.findall(r"^\* \[.*\]\(([^/)\s]*)\): ", pages.pop("index.md"), re.MULTILINE)
    assert sorted(listed) == sorted(pages)
    assert folder != "docs/how-to" or max(text.count("\n") for text in pages.values()) <= 150


def test_each_public_name_is_in_the_reference_once():
    """Nobody has to read code to find out what a name takes and raises."""
    reference = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    listed = re.findall(
        r"^\.\. auto(?:class|function):: headrace\.([\w.]+)(?:\(\))?$", reference, re.MULTILINE
    )
    packages = ("checkpoint", "metrics")
    public = {*headrace.__all__} - {*packages} | {
        f"{room}.{name}"
        for room in packages
        for name in {*getattr(headrace, room).__all__} - {*headrace.__all__}
    }
    assert len(listed) == len(set(listed))
    assert public <= set(listed)


@pytest.mark.slow
def test_pages_for_assistants_are_up_to_date():
    """They follow the docstrings and the lists of pages. Keras is imported, as its callback is on
    one.
    """
    script = runpy.run_path(str(ROOT / "docs" / "assistants.py"))
    for made, file in (("llms", "llms.txt"), ("page", "for-assistants.md")):
        assert script[made]() == (ROOT / "docs" / file).read_text(), (
            "write them anew: python docs/assistants.py"
        )


def test_each_public_name_is_on_the_page_for_assistants():
    """With its use."""
    told = dict(
        re.findall(
            r"^\* `headrace\.([\w.]+).*?`: (.*)$",
            (ROOT / "docs/for-assistants.md").read_text(),
            re.MULTILINE,
        )
    )
    errors = {
        f"errors.{name}" for name, thing in vars(headrace.errors).items() if isinstance(thing, type)
    }
    assert {*headrace.__all__, *errors} - {"checkpoint", "metrics"} <= {
        name for name, use in told.items() if len(use) > 10
    }


def test_each_extra_is_on_the_first_page():
    """Whoever installs headrace sees what the extras are for."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    table = (ROOT / "docs" / "start.md").read_text().partition("| extra ")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([\w-]+)`", table)) == {*extras} - {"all"}


IMPORTS = {
    "array_record": "array-record",
    "cv2": "images",
    "datasets": "huggingface",
    "fsspec": "remote",
    "keras": "keras",
    "lance": "lance",
    "pyarrow": "parquet",
    "ray": "ray",
}
"""The extra that brings what the blocks of pages import."""
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_a_page_names_the_extra_before_the_code_that_imports_its_libraries():
    """Who types what the page says, from its top, never meets a module that is not there."""
    found = [(page, page.read_text()) for page in PAGES]
    for page, text, block in [
        (*each, block) for each in found for block in re.finditer(PYTHON, each[1])
    ]:
        for library in re.findall(r"^ *(?:import|from) (\w+)", block[1], re.MULTILINE):
            if extra := IMPORTS.get(library):
                said = re.search(
                    rf"`headrace\[[\w,-]*\b{extra}\b|\"headrace\[{extra}\]\"", text[: block.start()]
                )
                assert said, (
                    f"{page.name}: {library} is imported, and `headrace[{extra}]` was not named"
                )


def test_each_command_is_in_the_reference(capsys):
    """Whoever looks for a command finds it, and the page that tells how to use it."""
    with pytest.raises(SystemExit):
        command_line.main(["--help"])
    commands = re.search(r"\{([\w,-]+)\}", capsys.readouterr().out).group(1).split(",")
    page = (ROOT / "docs" / "api" / "command-line.md").read_text()
    assert {*commands} <= set(
        re.findall(
            r"^\| `headrace ([\w-]+)` \| .*\]\((?:\.\./how-to/|#completion)", page, re.MULTILINE
        )
    )


def test_who_searches_for_why_slow_finds_the_page_about_waits_first():
    """The site's search leaves "why" out, and words of headings count most: no other page has
    "slow" in one.
    """
    found = []
    for page in (ROOT / "docs").rglob("*.md"):
        headings = " ".join(re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)).lower()
        found += [page.name] * bool(re.search(r"\bslow(ly|ed|s)?\b", headings))
    assert found == ["why-waiting.md"]


def test_pictures_show_what_the_library_does_today(monkeypatch):
    """The script that draws the pictures gives those that are there; they are small,
    and whole XML.
    """
    folder = ROOT / "docs" / "pictures"
    monkeypatch.syspath_prepend(str(folder))
    pictures = runpy.run_path(str(folder / "draw.py"))["PICTURES"]
    assert sorted(pictures) == sorted(path.stem for path in folder.glob("*.svg"))
    for name, draw in pictures.items():
        kept = (folder / f"{name}.svg").read_text()
        assert draw().svg() == kept, "draw them anew: python docs/pictures/draw.py"
        assert ElementTree.fromstring(kept).tag.endswith("svg")
        assert len(kept) < 16_000


def test_the_picture_of_performance_reads_on_light_and_dark_pages():
    """It has no background of its own; bars and words stand out from white and from the site's dark
    ground.
    """
    image = pytest.importorskip("PIL.Image").open(ROOT / "docs" / "performance.png")
    assert image.mode == "RGBA"
    colours = sorted(image.getcolors(1 << 24), reverse=True)
    assert colours[0][1][3] == 0
    opaque = [colour[:3] for count, colour in colours if colour[3] == 255 and count > 2000]
    assert len(opaque) >= 5
    for colour in opaque:
        assert min(_contrast(colour, (255, 255, 255)), _contrast(colour, (19, 20, 22))) > 2.4


def _contrast(one, other):
    """As WCAG defines it."""

    def luminance(colour):
        linear = [
            (c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4) for c in colour
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _rows(page: Path) -> list[set[tuple[str, str]]]:
    """The rows of all tables of a page: each cell with the name of its column."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
        header, _, *rows = (
            [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()
        )
        found += [set(zip(header, row)) for row in rows]
    return found


def test_figures_of_the_readme_are_those_of_the_docs():
    """Each row of its tables is a part of a row of the league or of what was measured: nothing is
    rounded, nothing is old.
    """
    known = [
        row for name in ("league", "performance") for row in _rows(ROOT / "docs" / f"{name}.md")
    ]
    figures = _rows(ROOT / "README.md")
    assert len(figures) >= 8
    for row in figures:
        assert any(row <= other for other in known), row


def test_the_readme_is_short_and_begins_with_what_to_do():
    """Under 90 lines; one sentence, how to install, one program and the two tables come before the
    first heading.
    """
    text = (ROOT / "README.md").read_text()
    top = text.partition("\n## ")[0]
    assert text.count("\n") < 90
    assert (
        top.index("pip install")
        < top.index("headrace demo")
        < top.index("```python")
        < top.index("**Resume.**")
        < top.index("**Speed.**")
    )


def test_the_first_page_of_the_site_shows_how_to_begin():
    """An install line, code, and a picture, before the links."""
    top = (ROOT / "docs" / "index.md").read_text().partition("## Start")[0]
    assert "pip install" in top
    assert "```python" in top
    assert re.search(r"!\[.+\]\(pictures/\w+\.svg\)", top)


def test_the_table_of_sources_says_what_the_sources_take():
    """Each source of files has a row; "stores" and "grows" are its arguments, and its
    extra exists.
    """
    page = (ROOT / "docs" / "how-to" / "which-source.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = {}
    for _, source, extra, stores, grows, *_ in rows[1:]:
        assert set(re.findall(r"[\w-]+", extra.partition(" ")[0].replace("`", ""))) <= set(extras)
        if found := re.search(r"`(\w+Source)`", source):
            named[found[1]] = stores, grows
    for name, said in named.items():
        takes = inspect.signature(getattr(headrace, name)).parameters
        assert said == tuple(
            "yes" if word in takes else "no" for word in ("storage_options", "growing")
        ), name
    own = {"DataSource", "MixedSource", "RangeDataSource"}
    assert named.keys() == {name for name in headrace.__all__ if name.endswith("Source")} - own
