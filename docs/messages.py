"""Lists every error message of the package: `python docs/messages.py` prints the table.

In: the source code. Out: the exception class, the text and the file of each message. The site has
the table on the page of errors, and tests/test_messages.py checks each row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NOT_OURS = ("tests", "bench", "examples", "docs", "build", "dist")
RESULTS = ("testing",)  # what this package raises are results of tests, which have no remedy


class Message(NamedTuple):
    """One message: `error` names the exception class; values in `text` are `…`."""

    error: str
    text: str
    file: str
    line: int


@cache
def messages() -> list[Message]:
    """Return the messages of all `raise` statements and returned exceptions, by file and line."""
    folders = [
        path
        for path in ROOT.iterdir()
        if path.is_dir() and path.name not in NOT_OURS + RESULTS and path.name[0] != "."
    ]
    found = []
    for path in sorted(chain(ROOT.glob("*.py"), *(folder.rglob("*.py") for folder in folders))):
        file = path.relative_to(ROOT).as_posix()
        found += [Message(*each, file, line) for line, *each in _of(path.read_text())]
    return found


def _of(source: str) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(ast.parse(source)):
        made = (
            node.exc
            if isinstance(node, ast.Raise)
            else node.value
            if isinstance(node, ast.Return)
            else None
        )
        if not isinstance(made, ast.Call) or not made.args:
            continue
        name = ast.unparse(made.func)
        is_text = isinstance(made.args[0], ast.JoinedStr) or isinstance(
            getattr(made.args[0], "value", None), str
        )
        if is_text and (isinstance(node, ast.Raise) or name.endswith("Error")):
            yield node.lineno, name, _text(made.args[0])


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr), "a message is text"
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
    )


def table() -> str:
    """Return the messages as a Markdown table, sorted by class and text."""
    rows = sorted(
        {(each.error, each.text.replace("|", "\\|")) for each in messages() if not is_part(each)}
    )
    return (
        "| error | message |\n|---|---|\n"
        + "\n".join(f"| `{error}` | {text} |" for error, text in rows)
        + "\n"
    )


def is_part(message: Message) -> bool:
    """Return True if users see a message only inside another one: it is not a sentence."""
    return (
        not message.text.rstrip("…").rstrip().endswith((".", "?"))
        and "pip install" not in message.text
    )


if __name__ == "__main__":
    print(table())
