"""Match shell patterns against paths in a store, and find the local files that match."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

MACOS_FOLDER = "__MACOSX"
"""Folder that macOS adds to archives. It has a companion of each file, with the same extension."""


def matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return True if the parts of a path match the parts of a pattern.

    `**` matches any number of parts.

    As in a shell, `*` and `**` do not match names that begin with a dot.

    Args:
        pattern: parts of the pattern, split at `/`.
        parts: parts of the path, split at `/`.

    >>> matches(["**", "*.rec"], ["a", "b", "c.rec"])
    True
    >>> matches(["**", "*.rec"], ["a", ".b", "c.rec"])
    False
    """
    if not pattern or not parts:
        return not parts and set(pattern) <= {"**"}
    if pattern[0] == "**":
        return matches(pattern[1:], parts) or (
            not parts[0].startswith(".") and matches(pattern, parts[1:])
        )
    hidden = parts[0].startswith(".") and not pattern[0].startswith(".")
    return (
        not hidden and fnmatch.fnmatchcase(parts[0], pattern[0]) and matches(pattern[1:], parts[1:])
    )


def is_hidden(name: str) -> bool:
    """Return True if a search for images skips this name: it begins with a dot.

    The folder that macOS adds to archives is skipped, too.

    >>> is_hidden(".ipynb_checkpoints"), is_hidden("__MACOSX"), is_hidden("_a")
    (True, True, False)
    """
    return name.startswith(".") or name == MACOS_FOLDER


def is_left_out(name: str) -> bool:
    """Return True if a search of a folder skips this name: it begins with a dot or `_`.

    By custom, such names in folders of data belong to temporary files, markers and logs.

    >>> is_left_out("_SUCCESS"), is_left_out(".part-0.crc"), is_left_out("part-0")
    (True, True, False)
    """
    return name.startswith((".", "_"))


def names_below(
    folder: str, before: str = "", inside: frozenset[tuple[int, int]] = frozenset()
) -> Iterator[str]:
    """Yield the local files in a folder and its folders, as paths relative to it.

    Files and folders that `is_left_out` names are skipped.

    Symbolic links are followed, except a link to a folder that contains the link.

    Args:
        folder: path of the folder.
        before: prefix of all results: path of `folder` relative to the first folder, with `/` at
            its end; or "".
        inside: device and inode of each folder that the search has entered on its way to `folder`.

    Raises:
        OSError: a folder cannot be listed.
    """
    found = os.stat(folder)
    here = found.st_dev, found.st_ino
    if here in inside:
        return
    for entry in os.scandir(folder):
        if is_left_out(entry.name):
            continue
        if entry.is_dir():
            yield from names_below(entry.path, f"{before}{entry.name}/", inside | {here})
        elif entry.is_file():
            yield before + entry.name


def found_locally(pattern: str) -> list[str]:
    """Return the files that match a pattern, like `glob.glob(pattern, recursive=True)`.

    Each path is returned once.

    `**` follows links, but does not enter a folder inside itself. So circular links do not lead to
    endless paths.
    """
    parts = pattern.split("/")
    fixed = parts.index("**") if "**" in parts else len(parts)
    if fixed == len(parts):
        return list(filter(os.path.isfile, glob.glob(pattern)))
    above = "/".join(parts[:fixed]) + ("/" if fixed else "")
    folders = glob.glob(above) if fixed else [""]
    found = dict.fromkeys(
        path for folder in folders for path in _matching(folder, parts[fixed:], frozenset())
    )
    return list(filter(os.path.isfile, found))


def _matching(
    folder: str, parts: Sequence[str], inside: frozenset[tuple[int, int]]
) -> Iterator[str]:
    """Yield the matching paths below a folder.

    Args:
        folder: path of the folder.
        parts: parts of the pattern that are still to be matched.
        inside: device and inode of the folders that `**` has entered on the way.
    """
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
    for path in (
        os.path.join(folder, name)
        for name in names
        if name == part or fnmatch.fnmatchcase(name, part)
    ):
        if not rest:
            yield path
        elif os.path.isdir(path):
            yield from _matching(path, rest, inside)


def _identity(folder: str) -> tuple[int, int] | None:
    """Return device and inode of a folder, or None if the path is not a folder."""
    with suppress(OSError, ValueError):
        found = os.stat(folder or ".")
        return (found.st_dev, found.st_ino) if os.path.isdir(folder or ".") else None
    return None


def _names(folder: str, hidden: bool = False) -> list[str]:
    """Return the names in a folder, without hidden ones unless `hidden` is True.

    Return [] if the folder cannot be listed.
    """
    with suppress(OSError):
        return [name for name in os.listdir(folder or ".") if hidden or not name.startswith(".")]
    return []
