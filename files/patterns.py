"""Shell patterns. In: a pattern. Out: whether the path of a store matches it, or which files of this machine do."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

MACOS_FOLDER = "__MACOSX"
"""The folder of an archive in which macOS keeps a file of its own for each file. Those files have the same extensions."""


def matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """True if the parts of a path match those of a pattern; `**` stands for any number of parts.

    As in a shell, `*` and `**` match no name that begins with a dot.

    >>> matches(["**", "*.rec"], ["a", "b", "c.rec"]), matches(["**", "*.rec"], ["a", ".b", "c.rec"])
    (True, False)
    """
    if not pattern or not parts:
        return not parts and set(pattern) <= {"**"}
    if pattern[0] == "**":
        return matches(pattern[1:], parts) or (not parts[0].startswith(".") and matches(pattern, parts[1:]))
    hidden = parts[0].startswith(".") and not pattern[0].startswith(".")
    return not hidden and fnmatch.fnmatchcase(parts[0], pattern[0]) and matches(pattern[1:], parts[1:])


def is_hidden(name: str) -> bool:
    """True for a name that no search finds: it begins with a dot, or is the folder that macOS adds to archives.

    >>> is_hidden(".ipynb_checkpoints"), is_hidden("__MACOSX"), is_hidden("_a")
    (True, True, False)
    """
    return name.startswith(".") or name == MACOS_FOLDER


def found_locally(pattern: str) -> list[str]:
    """The files that match a pattern, as `glob.glob(pattern, recursive=True)` finds them, but each path once.

    Where `**` follows links, it enters no folder that it is inside of already: a link in a circle leads nowhere new, and
    several of them lead to more paths than can be listed.
    """
    parts = pattern.split("/")
    fixed = parts.index("**") if "**" in parts else len(parts)
    if fixed == len(parts):
        return list(filter(os.path.isfile, glob.glob(pattern)))
    above = "/".join(parts[:fixed]) + ("/" if fixed else "")
    folders = glob.glob(above) if fixed else [""]
    found = dict.fromkeys(path for folder in folders for path in _matching(folder, parts[fixed:], frozenset()))
    return list(filter(os.path.isfile, found))


def _matching(folder: str, parts: Sequence[str], inside: frozenset[tuple[int, int]]) -> Iterator[str]:
    """Paths below a folder; `inside`: the folders that a `**` went through on the way."""
    part, rest = parts[0], parts[1:]
    if part == "**":
        here = _identity(folder)
        if here is None or here in inside:
            return
        yield from _matching(folder, rest or ["*"], frozenset())
        for name in _names(folder):
            yield from _matching(os.path.join(folder, name), parts, inside | {here})
        return
    names = _names(folder, hidden=part.startswith(".")) if glob.has_magic(part) else [part]
    for path in (os.path.join(folder, name) for name in names if name == part or fnmatch.fnmatchcase(name, part)):
        if not rest:
            yield path
        elif os.path.isdir(path):
            yield from _matching(path, rest, inside)


def _identity(folder: str) -> tuple[int, int] | None:
    """Device and inode of a folder; None for what is none."""
    with suppress(OSError, ValueError):
        found = os.stat(folder or ".")
        return (found.st_dev, found.st_ino) if os.path.isdir(folder or ".") else None
    return None


def _names(folder: str, hidden: bool = False) -> list[str]:
    """The names in a folder, as far as one may look; those that begin with a dot only on request."""
    with suppress(OSError):
        return [name for name in os.listdir(folder or ".") if hidden or not name.startswith(".")]
    return []
