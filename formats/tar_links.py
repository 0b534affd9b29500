"""Resolve hard and symbolic links in tar files: replace each link by the member to which it leads.

A hard link names an earlier member. A symbolic link names the path of any member, relative to its
own folder.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..common.messages import short_repr, shorten
from ..errors import SourceError

_MOST_LINKS = 40
"""Maximum number of links through which one link may lead, as on Linux."""


class Member(NamedTuple):
    """Regular file in a tar file."""

    name: str
    offset: int
    """Offset of its content in the tar file."""
    size: int
    content: bytes
    """Content; empty if contents are not read."""


class Link(NamedTuple):
    """Link in a tar file: its name, the path that it states, and whether it is a hard link."""

    name: str
    target: str
    hard: bool

    @property
    def path(self) -> str:
        """Path in the archive to which the link leads.

        If it is outside of the archive, it begins with `/` or `..`.
        """
        folder = "" if self.hard else posixpath.dirname(self.name)
        return posixpath.normpath(posixpath.join(folder, self.target))


Entry = Member | Link


def followed(found: Iterable[Entry | SourceError], name: str) -> Iterator[Member | SourceError]:
    """Yield members and errors unchanged, and for each link the member to which it leads.

    That member has the name of the link.

    A link to a folder of the archive is skipped, as folders are. A link that leads nowhere gives an
    error.

    Args:
        found: all entries of the file, in order.
        name: name of the file, for messages.
    """
    every = list(found)
    targets = targets_of(every, name)
    for one in every:
        result = next(targets) if isinstance(one, Link) else one
        if result is not None:
            yield result


def targets_of(
    every: Sequence[Entry | SourceError], name: str
) -> Iterator[Member | SourceError | None]:
    """Yield, for each link, the member to which it leads, under the name of the link.

    It is None for a link to a folder.

    A link that leads nowhere gives an error.

    Args:
        every: all entries of the file, in order.
        name: name of the file, for messages.
    """
    if not any(isinstance(one, Link) for one in every):
        return
    entries = {
        posixpath.normpath(one.name): one for one in every if not isinstance(one, SourceError)
    }
    folders = {folder for path in entries for folder in _folders_of(path)}
    before: dict[str, Entry] = {}  # the last of each name so far
    for one in every:
        if isinstance(one, SourceError):
            continue
        if isinstance(one, Link):
            target = _target(one, before, entries)
            if isinstance(target, Member):
                yield target._replace(name=one.name)
            else:
                yield None if target in folders else wrong_link(name, one, _why(target))
        before[posixpath.normpath(one.name)] = one


def _target(link: Link, before: Mapping[str, Entry], entries: Mapping[str, Entry]) -> Member | str:
    """Return the member to which a link leads.

    If there is none, return the last path; after 40 links, "".

    Args:
        link: the link.
        before: entries before the link, by path; targets of hard links.
        entries: all entries, by path; targets of symbolic links.
    """
    for _ in range(_MOST_LINKS):
        found = (before if link.hard else entries).get(link.path)
        if not isinstance(found, Link):
            return link.path if found is None else found
        link = found
    return ""


def _why(path: str) -> str:
    if not path:
        return "leads in a circle"
    outside = path.startswith("/") or path.split("/")[0] == ".."
    return f"leads {'out of the archive' if outside else 'to nothing'}, to {short_repr(path)}"


def wrong_link(name: str, link: Link, why: str) -> SourceError:
    """Return the error for a link that cannot be resolved.

    Args:
        name: name of the tar file.
        link: the link.
        why: end of the sentence that names the link, such as "leads in a circle".
    """
    return SourceError(
        f"{shorten(name)}: {short_repr(link.name)} is a link to {short_repr(link.target)}, which "
        f"{why}. Write the archive with files instead of links: tar --dereference "
        "--hard-dereference."
    )


def _folders_of(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        if path == "/":
            return
        yield path
