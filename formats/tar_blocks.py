"""Blocks of a tar file, and the metadata that describes the next member."""

from __future__ import annotations

import os
import tarfile
from typing import BinaryIO

from ..common.messages import short_repr, shorten
from ..errors import CutOffError, SourceError
from .tar_links import Link

BLOCK = 512


_AT_ONCE, _SKIPPED = 1 << 26, 1 << 20
"""Maximum bytes that are read, and that are skipped, at a time.

So a wrong size in a header takes no memory.
"""


def has_content(header: tarfile.TarInfo) -> bool:
    """Return True if a member has content.

    Links and folders have none, whatever their size field says; unknown types have.
    """
    return header.isreg() or header.type not in tarfile.SUPPORTED_TYPES


_REST_OF_A_MEMBER = b"M"
"""Type of a member that continues one of another volume, in GNU's archives (`tar -M`)."""


_LARGEST_EXTENSION = 1 << 24
"""Maximum size of a metadata member, such as a long name, in bytes."""


_DIGITS = 40
"""Maximum number of digits of a size. No valid header has more."""


class Extended:
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

    def read(self, header: tarfile.TarInfo, blocks: TarBlocks) -> None:
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
        if not (has_content(header) or size.isdigit()):  # it stands for nothing
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


class TarBlocks:
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


def no_tar(name: str, block: bytes) -> SourceError:
    """Return the error for a file that does not begin as a tar file does."""
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


def after_the_end(name: str, end: int, offset: int) -> SourceError:
    """Return the error for data that follows the end mark of a file."""
    return SourceError(
        f"{shorten(name)}: data follows at byte {offset}, after the end mark (zeros) at byte "
        f"{end}. The file is damaged, or consists of several tar files: unpack it with tar "
        "--ignore-zeros, and write a new archive."
    )


def damaged(name: str, offset: int, cut_off: bool) -> SourceError:
    """Return the error for a damaged header, or for a file that is cut off."""
    if cut_off:
        return SourceError(
            f"{shorten(name)}: the file ends at byte {offset} without an end mark, so it is cut "
            "off. Write it again."
        )
    return SourceError(
        f"{shorten(name)}: the header at byte {offset} is damaged. Write the archive again."
    )
