"""Tar files in the layout of webdataset: consecutive members with one key are one sample.

    a/1.jpg, a/1.cls, a/2.jpg  →  {"__key__": "a/1", "jpg": …, "cls": …}, {"__key__": "a/2", "jpg":
    …}

The key is the path up to the first dot in its last component. The text after the dot is the name of
the member in its sample. Long names of the formats ustar, pax and GNU are supported.
Formats: https://www.gnu.org/software/tar/manual/html_node/Standard.html,
https://github.com/webdataset/webdataset.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from ..common.messages import short_repr, shorten
from ..errors import CutOffError, SourceError
from .damage import OnDamage, leave_out
from .tar_links import Link, Member, followed, targets_of, wrong_link

BLOCK = 512
_END = bytes(BLOCK)
_AT_ONCE, _SKIPPED = 1 << 26, 1 << 20
"""Maximum bytes that are read, and that are skipped, at a time.

So a wrong size in a header takes no memory.
"""


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
    walked = _walk(_Blocks(stream), name, contents)
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
                targets = targets_of(list(_walk(_Blocks(stream), name, contents=False)), name)
            target = next(targets, None)
            if isinstance(target, Member):
                stream.seek(target.offset)
                target = target._replace(offset=here, content=stream.read(target.size))
            stream.seek(here)
            if target is not None:
                yield target


def _walk(blocks: _Blocks, name: str, contents: bool) -> Iterator[Member | Link | SourceError]:
    extended = _Extended(name)
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
            elif _has_content(header):
                (path, size), offset, wanted = found, blocks.offset, contents and header.isreg()
                content = blocks.take(size) if wanted else blocks.skip(size)
                if header.isreg() and not (
                    wanted and len(content) < size
                ):  # the next header tells of a file that ends here
                    yield Member(path, offset, size, content)


def _headers(blocks: _Blocks, name: str) -> Iterator[tarfile.TarInfo | SourceError]:
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
            raise blocks.failure or _no_tar(name, block)
        if end is not None:
            yield blocks.failure or _after_the_end(name, end, offset)
            lost, end = True, None
        if header is not None or not lost:
            # Where GNU wrote a sparse file with many pieces, blocks that say where they belong come
            # before the content.
            more = (
                header is not None and header.type == tarfile.GNUTYPE_SPARSE and any(block[482:483])
            )
            while more:
                more = any(blocks.read(BLOCK)[504:505])
            yield header or blocks.failure or _damaged(name, offset, len(block) < BLOCK)
        if len(block) < BLOCK:
            return
        lost = header is None


def _has_content(header: tarfile.TarInfo) -> bool:
    """Return True if a member has content.

    Links and folders have none, whatever their size field says; unknown types have.
    """
    return header.isreg() or header.type not in tarfile.SUPPORTED_TYPES


_EXTENSIONS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


_REST_OF_A_MEMBER = b"M"
"""Type of a member that continues one of another volume, in GNU's archives (`tar -M`)."""


_LARGEST_EXTENSION = 1 << 24
"""Maximum size of a metadata member, such as a long name, in bytes."""


_DIGITS = 40
"""Maximum number of digits of a size. No valid header has more."""


class _Extended:
    """Metadata in a tar file, which describes the next member or all following ones.

    These are pax headers, and GNU's long names.
    """

    def __init__(self, name: str) -> None:
        self._file = name
        self._always: dict[str, str] = {}
        self.forget()

    def forget(self) -> None:
        self._next: dict[str, str] = {}
        self._failure: SourceError | None = None

    def read(self, header: tarfile.TarInfo, blocks: _Blocks) -> None:
        """Read a metadata member. If it is damaged, the error is kept for the next member."""
        if not 0 <= header.size <= _LARGEST_EXTENSION:
            self._failure = self._damaged(f"has {header.size} bytes, not 0 to {_LARGEST_EXTENSION}")
            blocks.skip(max(header.size, 0))
            return
        content = blocks.take(header.size)
        if len(content) == header.size:  # a file that ends in it is told with the next header
            try:
                if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
                    said = "path" if header.type == tarfile.GNUTYPE_LONGNAME else "linkpath"
                    self._next[said] = content.rstrip(b"\0").decode("utf-8", "surrogateescape")
                else:
                    target = self._always if header.type == tarfile.XGLTYPE else self._next
                    target.update(self._pairs(content))
            except SourceError as error:
                self._failure = error

    def described(self, header: tarfile.TarInfo) -> tuple[str, int] | Link | SourceError:
        """Return `(name, size)`, link or error of a member, from its header and its metadata.

        Drop the metadata.
        """
        # Without a value it takes back what was said before.
        said = {name: value for name, value in {**self._always, **self._next}.items() if value}
        failure = self._failure
        self.forget()
        path, size = said.get("path", header.name), said.get("size", str(header.size))
        if failure is not None:
            return failure
        if header.type == tarfile.GNUTYPE_SPARSE or any(
            name.startswith("GNU.sparse") for name in said
        ):
            named = short_repr(said.get("GNU.sparse.name", path))
            return SourceError(
                f"{shorten(self._file)}: {named} is a sparse file. Write the archive without "
                "--sparse."
            )
        if header.type == _REST_OF_A_MEMBER:
            what = f"{short_repr(path)} continues a member of another volume"
            return SourceError(
                f"{shorten(self._file)}: {what}. Write a single archive instead of volumes."
            )
        if header.islnk() or header.issym():
            return Link(path, said.get("linkpath", header.linkname), header.islnk())
        if not (_has_content(header) or size.isdigit()):  # it stands for nothing
            return path, 0
        if not (size.isascii() and size.isdigit() and len(size) <= _DIGITS):
            what = (
                f"{short_repr(path)} has a size of {short_repr(size)} bytes, so its header is "
                "damaged"
            )
            return SourceError(f"{shorten(self._file)}: {what}. Write the archive again.")
        return path, int(size)

    def _damaged(self, why: str) -> SourceError:
        return SourceError(
            f"{shorten(self._file)}: an extended header (pax) is damaged, because it {why}. Write "
            "the archive again."
        )

    def _pairs(self, content: bytes) -> dict[str, str]:
        r"""Parse lines like `18 path=some name\n`: a length, a name, a value.

        The length includes itself. Raises SourceError.
        """
        found, at = {}, 0
        while at < len(content):
            digits, space, _ = content[at : at + 20].partition(b" ")
            length = int(digits) if digits.isdigit() else 0
            line = content[at : at + length]
            name, equals, value = line[len(digits) + 1 :].partition(b"=")
            if not (space and equals and line.endswith(b"\n") and len(line) == length):
                why = f"must be a list of names and values, but it is something else near byte {at}"
                raise self._damaged(why=why)
            found[name.decode(errors="replace")] = value[:-1].decode("utf-8", "surrogateescape")
            at += len(line)
        return found


class _Blocks:
    """Stream of a tar file, read from its beginning.

    After a `CutOffError` it behaves as if it had ended.
    """

    offset: int
    failure: CutOffError | None = None
    """Error because of which the stream can no longer be read; None without one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.offset = stream, 0
        self._size: int | None = None
        if stream.seekable():
            self._size = stream.seek(0, os.SEEK_END)
            stream.seek(0)

    def read(self, count: int) -> bytes:
        """Return `count` bytes, or fewer at the end of the stream. `count` may be any number."""
        pieces = []
        while count > 0 and (found := self._piece(min(count, self._left(), _AT_ONCE))):
            pieces.append(found)
            count -= len(found)
        return b"".join(pieces)  # the same object, if there is one

    def _left(self) -> int:
        return _AT_ONCE if self._size is None else max(self._size - self.offset, 0)

    def _piece(self, count: int) -> bytes:
        try:
            found = b"" if self.failure else self._stream.read(count)
        except CutOffError as error:  # a part of these bytes may be there, but no use
            found, self.failure = b"", error
        self.offset += len(found)
        return found

    def take(self, size: int) -> bytes:
        """Return a content of `size` bytes, and skip the padding of its last block.

        At the end of the stream, it has fewer bytes.
        """
        found = self.read(size)
        self._pass(-size % BLOCK)
        return found

    def skip(self, size: int) -> bytes:
        """Skip a content of `size` bytes, and the padding of its last block. Return b""."""
        self._pass(size + -size % BLOCK)
        return b""

    def _pass(self, count: int) -> None:
        if self._size is not None:
            self.offset = self._stream.seek(max(self.offset, min(self.offset + count, self._size)))
            return
        while count > 0 and (found := self._piece(min(count, _SKIPPED))):
            count -= len(found)


def _no_tar(name: str, block: bytes) -> SourceError:
    if not block:
        return SourceError(
            f"{shorten(name)}: the file is empty (0 bytes). Remove the file, or write it again."
        )
    if block.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return SourceError(
            f"{shorten(name)} is compressed, so headrace cannot read single samples of it. Unpack "
            "the archive (images and audio are usually compressed already), or convert it with "
            "`headrace convert`."
        )
    return SourceError(
        f"{shorten(name)} is not a tar file, or its start is damaged. Pass a tar file, or a new "
        "copy."
    )


def _after_the_end(name: str, end: int, offset: int) -> SourceError:
    return SourceError(
        f"{shorten(name)}: data follows at byte {offset}, after the end mark (zeros) at byte "
        f"{end}. The file is damaged, or consists of several tar files: unpack it with tar "
        "--ignore-zeros, and write a new archive."
    )


def _damaged(name: str, offset: int, cut_off: bool) -> SourceError:
    if cut_off:
        return SourceError(
            f"{shorten(name)}: the file ends at byte {offset} without an end mark, so it is cut "
            "off. Write it again."
        )
    return SourceError(
        f"{shorten(name)}: the header at byte {offset} is damaged. Write the archive again."
    )
