"""Writes `llms.txt`, and the list of names in `for-assistants.md`: `python docs/assistants.py`.

In: the lists of pages, and the docstrings of what the reference names. Out: two files, which a test
holds against these.
"""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from headrace.samplers.protocol import VectorSampler

os.environ.setdefault("KERAS_BACKEND", "jax")  # whose callback is in the reference

DOCS = Path(__file__).parent
PAGE = DOCS / "for-assistants.md"
LISTS = ("index.md", "how-to/index.md", "recipes/index.md", "api/index.md")
BEGIN = "<!-- by docs/assistants.py -->\n"
SHORT = 130


def llms() -> str:
    """The text of llms.txt: what headrace is, and its pages, in the form of https://llmstxt.org."""
    about = (DOCS / "index.md").read_text().split("\n\n")[1].replace("\n", " ")
    lines = ["# headrace", "", f"> {about}", ""]
    lines += [
        "A coding assistant needs one page: [for assistants](for-assistants.md), with all names.",
        "",
    ]
    for path in LISTS:
        page = DOCS / path
        lines += [f"## {page.read_text().partition(chr(10))[0].removeprefix('# ')}", ""]
        for name, target, line in re.findall(
            r"^\* \[(.*?)\]\(([^)#]+\.md)\S*\): (.*)$", page.read_text(), re.MULTILINE
        ):
            place = (page.parent / target).resolve().relative_to(DOCS.resolve()).as_posix()
            lines += [f"- [{name}]({place}): {line}"]
        lines += [""]
    return "\n".join(lines)


def names() -> str:
    """A line for each name of the reference, page by page.

    Names whose methods the page shows have lines for these, too.
    """
    order = re.findall(r"^\* \[(.*)\]\((.*)\): ", (DOCS / "api/index.md").read_text(), re.MULTILINE)
    told: set[str] = set()
    found = {title: _lines_of(DOCS / "api" / file, told) for title, file in order}
    return "".join(
        f"\n## {title}\n\n" + "\n".join(lines) + "\n" for title, lines in found.items() if lines
    )


def _lines_of(page: Path, told: set[str]) -> list[str]:
    """Of the names on a page of the reference.

    Methods that were told of another class are listed without their use.
    """
    lines = []
    directive = (
        r"^\.\. auto(?:class|function|exception):: (headrace\.[\w.]+)(\(\))?\n((?:   :.*\n)*)"
    )
    text = page.read_text()
    for module in re.findall(r"^\.\. automodule:: (.*)$", text, re.MULTILINE):
        errors = [
            thing
            for thing in vars(resolve_name(module)).values()
            if getattr(thing, "__module__", "") == module
        ]
        lines += [f"* `{module}.{error.__name__}`: {_first_line(error)}" for error in errors]
    for name, made_by_others, options in re.findall(directive, text, re.MULTILINE):
        thing = resolve_name(name)
        lines += [f"* `{name}{'' if made_by_others else _arguments(thing)}`: {_first_line(thing)}"]
        if ":members:" in options and inspect.isclass(thing):
            members = [(member, _line_of(member, it)) for member, it in _members(thing)]
            lines += [line for _, line in members if line not in told]
            if again := [f"`{member}`" for member, line in members if line in told]:
                lines += [f"  * as above: {', '.join(again)}"]
            told |= {line for _, line in members}
    return lines


def _line_of(member: str, it: Any) -> str:
    """The line of a method or a property."""
    arguments = "" if isinstance(it, property) else _arguments(it)
    return f"  * `.{member}{arguments}`: {_first_line(it)}"


def _members(kind: type) -> list[tuple[str, Any]]:
    """Its public methods and properties that have a docstring, without those for tools.

    Those that only the loader uses are left out, too.
    """
    named = (
        (name, inspect.getattr_static(kind, name)) for name in dir(kind) if not name.startswith("_")
    )
    of_loader = vars(VectorSampler)
    return [
        (name, thing if isinstance(thing, property) else getattr(kind, name))
        for name, thing in named
        if (callable(thing) or isinstance(thing, (property, staticmethod, classmethod)))
        and not re.search(r"^$|\btools?\b", _first_line(thing))
        and thing is not of_loader.get(name)
    ]


def _arguments(thing: Any) -> str:
    """The names of its arguments, and defaults; three dots where these are many."""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return ""
    try:
        parameters = [
            one
            for one in inspect.signature(thing).parameters.values()
            if one.name not in ("self", "unnamed")
        ]
    except (TypeError, ValueError):
        return ""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = [
        stars.get(one.kind, "") + one.name + ("" if one.default is one.empty else "=…")
        for one in parameters
        if not one.name.startswith("_")
    ]
    text = ", ".join(shown)
    return f"({text if len(text) <= SHORT else text[:SHORT].rpartition(', ')[0] + ', …'})"


def _first_line(thing: Any) -> str:
    text = inspect.getdoc(thing) or ""
    return " ".join(text.partition("\n\n")[0].split())


def page() -> str:
    """The page for assistants: what is written by hand, and the names."""
    return PAGE.read_text().partition(BEGIN)[0] + BEGIN + names()


if __name__ == "__main__":
    (DOCS / "llms.txt").write_text(llms())
    PAGE.write_text(page())
