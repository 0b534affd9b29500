"""How Sphinx makes a site of these pages: `sphinx-build -W docs docs/_site`."""

import argparse
import importlib
import inspect
import os
import re
import sys
from pathlib import Path

from sphinx.ext.napoleon import Config, GoogleDocstring

sys.path.insert(0, str(Path(__file__).parent))

import headrace
from headrace.tools.command_line import _parser
from messages import table

os.environ["COLUMNS"] = "100"  # the width of the help of commands
os.environ["KERAS_BACKEND"] = "jax"  # whose callback is documented

project = "headrace"
author = copyright = "the authors of headrace"
release = version = headrace.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_site"]

html_theme = "furo"
html_title = "headrace"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_extra_path = ["llms.txt"]
html_show_copyright = False
html_show_sphinx = False

myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]
copybutton_prompt_text = ">>> |\\.\\.\\. |\\$ "
copybutton_prompt_is_regexp = True

# docstrings write `names` as Markdown does: these become links where they are names of ours
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
maximum_signature_line_length = 100


def _contents(text: str, folder: Path) -> str:
    """The hidden tables of contents that Sphinx needs: one for each heading of a list of pages.

    The how-tos are in the table of the whole site, by their headings, and not below one entry of
    it.
    """
    tables = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        entries = re.findall(r"^\* \[(.*?)\]\((?!\.\./)([^)#]+)\.md\)", section, re.MULTILINE)
        caption = section.partition("\n")[0].removeprefix("# ")
        lines = "\n".join(f"{title} <{page}>" for title, page in entries)
        tables += [f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"] * bool(
            entries
        )
        if "how-to/index" in lines:
            how_tos = (folder / "how-to" / "index.md").read_text()
            tables.append(
                _contents(
                    re.sub(r"^(\* \[.*?\]\()", r"\1how-to/", how_tos, flags=re.MULTILINE), folder
                )
            )
    return "\n".join(tables)


def _with_contents(app: object, page: str, source: list[str]) -> None:
    """Pages named `index` are lists of links, so that they read well without a site, too.

    On the site, the lists of the first page are in the sidebar. The page ends before them.
    """
    if page == "index":
        contents = _contents(source[0], Path(__file__).parent)
        source[0] = source[0].partition("## Start")[0] + contents
    elif Path(page).name == "index" and page != "how-to/index":
        source[0] += "\n" + _contents(source[0], Path(__file__).parent)


def _with_summary(app: object, page: str, source: list[str]) -> None:
    """A page of the reference begins with a table of names and first lines of docstrings."""
    if not page.startswith("api/"):
        return
    named = re.findall(
        r"^\.\. auto(?:class|function|exception):: (headrace\.[\w.]+)", source[0], re.MULTILINE
    )
    rows = [f"| {{py:obj}}`~{name}` | {_first_line(name)} |" for name in named]
    if len(rows) > 1:
        table = "\n".join(["| name | use |", "|---|---|", *rows, "", ""])
        source[0] = source[0].replace("```{eval-rst}", f"{table}\n```{{eval-rst}}", 1)


def _first_line(name: str) -> str:
    thing: object = headrace
    for part in name.split(".")[1:]:
        found = getattr(thing, part, None)
        thing = importlib.import_module(f"{thing.__name__}.{part}") if found is None else found
    line = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    return re.sub(r"(?<=[.!?]) .*", "", line)


def _commands() -> str:
    """What `--help` prints of each command."""
    (commands,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    helps = ((name, command.format_help()) for name, command in commands.choices.items())
    return "\n".join(f"## `headrace {name}`\n\n```text\n{text}```\n" for name, text in helps)


def _with_commands(app: object, page: str, source: list[str]) -> None:
    """The page of the command line ends with all arguments."""
    if page == "api/command-line":
        source[0] += "\n" + _commands()


def _with_messages(app: object, page: str, source: list[str]) -> None:
    """The page of errors ends with all messages."""
    if page == "api/errors":
        source[0] += f"\n## Messages\n\nValues are written as `…`.\n\n{table()}"


def _with_sections(
    app: object, kind: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """`Args:` and `Raises:` become lists.

    Properties are taken for methods, as a colon is no type in them.
    """
    config = Config(napoleon_use_rtype=False, napoleon_use_ivar=True)
    kind = "method" if kind == "property" else kind
    lines[:] = GoogleDocstring(lines, config, app, kind, name, thing, options).lines()


def setup(app: object) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _with_contents)
    app.connect("source-read", _with_summary)
    app.connect("source-read", _with_commands)
    app.connect("source-read", _with_messages)
    app.connect("autodoc-process-docstring", _with_sections)
