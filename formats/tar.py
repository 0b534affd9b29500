"""Tar files in the layout of webdataset: consecutive members with one key are one sample.

    a/1.jpg, a/1.cls, a/2.jpg  →  {"__key__": "a/1", "jpg": …, "cls": …}, {"__key__": "a/2", "jpg":
    …}

The key is the path up to the first dot in its last component. The text after the dot is the name of
the member in its sample. Long names of the formats ustar, pax and GNU are supported.
Formats: https://www.gnu.org/software/tar/manual/html_node/Standard.html,
https://github.com/webdataset/webdataset.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from ..common.messages import short_repr, shorten
from ..errors import SourceError
from .damage import OnDamage, leave_out
from .tar_blocks import BLOCK, Extended, TarBlocks, after_the_end, damaged, has_content, no_tar
from .tar_links import Link, Member, followed, targets_of, wrong_link

_END = bytes(BLOCK)


class SamplePart(NamedTuple):
    """Member of a tar file as part of a sample: the sample's key, the part's name, the member."""

    key: str
    extension: str
    member: Member


def sample_name(name: str) -> tuple[str, str] | None:
    """Return `(key, extension)` of a member.

    It is None for a member that is not part of a sample: its name has no dot, or begins with one.

    >>> sample_name("./train/n01.v2.JPG"), sample_name("README"), sample_name("a/.hidden")
    (('train/n01', 'v2.jpg'), None, None)
    """
    folder, slash, last = name.removeprefix("./").rpartition("/")
    stem, dot, extension = last.partition(".")
    return (folder + slash + stem, extension.lower()) if stem and dot else None


def read_records(
    stream: BinaryIO, name: str, on_damage: OnDamage | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each sample `{"__key__": key, extension: bytes, …}` with its first offset.

    The offset is that of the sample's first content.

    Args:
        stream: stream at its beginning; of a compressed file, the unpacked bytes.
        name: name of the file, for messages.
        on_damage: function that is called with the error for each damaged place, and for each
            sample that is skipped because a part of it may be lost. None (default): the error is
            raised.

    Raises:
        SourceError: the file is cut off or damaged, a link cannot be resolved, or a sample has two
            members of one name.
    """
    for parts in read_samples(read_members(stream, name, on_damage=on_damage), name, on_damage):
        sample: dict[str, Any] = {"__key__": parts[0].key}
        sample.update((part.extension, part.member.content) for part in parts)
        yield parts[0].member.offset, sample


def read_samples(
    members: Iterable[Member | None], name: str, on_damage: OnDamage | None = None
) -> Iterator[list[SamplePart]]:
    """Group consecutive members with one key into samples, and yield each as a list of parts.

    Args:
        members: members of the file, in order. None means that something was lost there: the
            samples before and after it may lack a part, and are skipped.
        name: name of the file, for messages.
        on_damage: function that is called with the error for each sample that is skipped. None
            (default): the error is raised.

    Raises:
        SourceError: a part of a sample may be lost, or a sample has two members of one name.
    """
    for torn, parts in _groups(members):
        if torn:
            key = short_repr(parts[0].key)
            leave_out(
                SourceError(
                    f"{shorten(name)}: a part of sample {key} may be lost; it is left out."
                ),
                on_damage,
            )
        elif len({part.extension for part in parts}) < len(parts):
            leave_out(_twice(name, parts), on_damage)
        else:
            yield parts


def _groups(members: Iterable[Member | None]) -> Iterator[tuple[bool, list[SamplePart]]]:
    """Yield `(torn, parts)` for each sample (consecutive members of one key).

    `torn`: True if it may have lost a part.
    """
    parts: list[SamplePart] = []
    torn = lost = False
    for member in members:
        if member is None:
            torn = lost = True
        elif (names := sample_name(member.name)) is not None:
            part = SamplePart(*names, member)
            if parts and parts[0].key != part.key:
                yield torn, parts
                parts, torn = [], lost
            parts.append(part)
            lost = False
    if parts:
        yield torn, parts


def _twice(name: str, parts: list[SamplePart]) -> SourceError:
    extensions = [part.extension for part in parts]
    twice = next(extension for extension in extensions if extensions.count(extension) > 1)
    return SourceError(
        f"{shorten(name)}: sample {short_repr(parts[0].key)} at byte {parts[0].member.offset} has "
        f"{short_repr(twice)} twice. Write the members of each sample one after the other, and "
        "give each sample a key of its own."
    )


def read_members(
    stream: BinaryIO, name: str, contents: bool = True, on_damage: OnDamage | None = None
) -> Iterator[Member | None]:
    """Yield each regular file of a stream in order, and None where something is lost.

    A link that is part of a sample is replaced by the file to which it leads. This needs a seekable
    stream, or `contents=False`.

    Args:
        stream: stream at its beginning; of a compressed file, the unpacked bytes.
        name: name of the file, for messages.
        contents: True: read the contents. False: skip them.
        on_damage: function that is called with the error for each damaged place; reading continues
            at the next intact header. None (default): the error is raised.

    Raises:
        SourceError: the file is cut off or damaged, or a link cannot be resolved.
    """
    walked = _walk(TarBlocks(stream), name, contents)
    for found in _with_contents(stream, walked, name) if contents else followed(walked, name):
        if isinstance(found, SourceError):
            leave_out(found, on_damage)
            yield None
        else:
            yield found


def _with_contents(
    stream: BinaryIO, walked: Iterable[Member | Link | SourceError], name: str
) -> Iterator[Member | SourceError]:
    """Yield members with their contents.

    The content of a link is read at its target, after another pass over all headers.
    """
    targets: Iterator[Member | SourceError | None] | None = None
    for found in walked:
        if not isinstance(found, Link):
            yield found
        elif not stream.seekable():
            yield wrong_link(
                name,
                found,
                "cannot be followed in a stream, such as a compressed file; unpack the file",
            )
        else:
            here = stream.tell()
            if targets is None:
                targets = targets_of(list(_walk(TarBlocks(stream), name, contents=False)), name)
            target = next(targets, None)
            if isinstance(target, Member):
                stream.seek(target.offset)
                target = target._replace(offset=here, content=stream.read(target.size))
            stream.seek(here)
            if target is not None:
                yield target


def _walk(blocks: TarBlocks, name: str, contents: bool) -> Iterator[Member | Link | SourceError]:
    extended = Extended(name)
    for header in _headers(blocks, name):
        if isinstance(header, SourceError):
            extended.forget()
            yield header
        elif header.type in _EXTENSIONS:
            extended.read(header, blocks)
        else:
            found = extended.described(header)
            if isinstance(found, SourceError):
                blocks.skip(max(header.size, 0))
                yield found
            elif isinstance(found, Link):
                if sample_name(found.name) is not None:
                    yield found
            elif has_content(header):
                (path, size), offset, wanted = found, blocks.offset, contents and header.isreg()
                content = blocks.take(size) if wanted else blocks.skip(size)
                # the next header tells of a file that ends here
                if header.isreg() and not (wanted and len(content) < size):
                    yield Member(path, offset, size, content)


def _headers(blocks: TarBlocks, name: str) -> Iterator[tarfile.TarInfo | SourceError]:
    """Yield the headers of a tar file, and an error where none is intact.

    The caller must read or skip each content.
    """
    lost = False
    end: int | None = None
    while True:
        offset, block = blocks.offset, blocks.read(BLOCK)
        if block == _END and not lost:  # while one looks for a header, zeros are content of a file
            end = offset if end is None else end
            continue
        if end is not None and len(block) < BLOCK and not any(block) and not blocks.failure:
            return
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            header = None
        if header is None and not offset:
            raise blocks.failure or no_tar(name, block)
        if end is not None:
            yield blocks.failure or after_the_end(name, end, offset)
            lost, end = True, None
        if header is not None or not lost:
            # Where GNU wrote a sparse file with many pieces, blocks that say where they belong come
            # before the content.
            more = (
                header is not None and header.type == tarfile.GNUTYPE_SPARSE and any(block[482:483])
            )
            while more:
                more = any(blocks.read(BLOCK)[504:505])
            yield header or blocks.failure or damaged(name, offset, len(block) < BLOCK)
        if len(block) < BLOCK:
            return
        lost = header is None


_EXTENSIONS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
