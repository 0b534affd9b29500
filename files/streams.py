"""Read files from beginning to end, with decompression if requested."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from typing import Any, BinaryIO, Literal, TypeAlias, cast

from ..common.messages import shorten
from ..common.validation import one_of
from ..errors import CutOffError, ExpansionError, MissingExtraError, SourceError
from .opened import OpenFile, open_file
from .storage_options import StorageOptionsLike
from .urls import name_of

Decompress: TypeAlias = Literal["auto", "gzip", "zstd"] | None

# Text reaches about 20.
MAX_EXPANSION = 200
"""Default maximum ratio of unpacked to compressed size."""

EXPECTED_BYTES = 1 << 30
"""Unpacked size in bytes that is allowed whatever the compressed size."""

_BUFFER_BYTES = 1 << 20
_SUFFIXES = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def open_stream(
    path: str,
    decompress: Decompress = None,
    storage_options: StorageOptionsLike = None,
    max_expansion: int = MAX_EXPANSION,
) -> io.BufferedReader[Any]:
    r"""Open a file to read it from beginning to end.

    Args:
        path: path or URL of the file.
        decompress: "gzip" or "zstd"; "auto": chosen by the suffix, `.gz` or `.gzip`, `.zst` or
            `.zstd`. None (default): the bytes are unchanged.
        storage_options: how a remote file is reached and cached.
        max_expansion: maximum ratio of unpacked to compressed size, if the file unpacks to more
            than 1 GiB. Default 200.

    Raises:
        SourceNotFoundError: the file does not exist.
        ExpansionError: when reading: the file unpacks to more than is allowed.
        SourceError: the file cannot be opened; or, when reading, it is damaged.
        CutOffError: when reading: a compressed file is cut off, or damaged after its beginning.
            `read1` and lines first return everything before the damage.
        MissingExtraError: "zstd" needs a package that is not installed.
        ValueError: `decompress` has another value.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".gz") as file:
    ...     with open(file.name, "wb") as out:
    ...         _ = out.write(gzip.compress(b"one\ntwo\n"))
    ...     with open_stream(file.name, "auto") as stream:
    ...         list(stream)
    [b'one\n', b'two\n']
    """
    kind = (
        one_of("decompress", decompress, "auto", "gzip", "zstd") if decompress is not None else None
    )
    if kind == "auto":
        kind = compression_of(path)
    file = open_file(path, storage_options)
    packed = io.BufferedReader(RawFile(file, owned=True), _BUFFER_BYTES)
    if kind is None:
        return packed
    return io.BufferedReader(_Unpacked(packed, kind, path, file.size, max_expansion), _BUFFER_BYTES)


def stream_of(file: OpenFile) -> BinaryIO:
    """Return an open file as a stream from its beginning.

    Closing the stream does not close the file.
    """
    return io.BufferedReader(RawFile(file), _BUFFER_BYTES)


def compression_of(path: str) -> str | None:
    """Return the compression by the suffix of a file name: "gzip", "zstd" or None.

    >>> compression_of("train.jsonl.zst")
    'zstd'
    """
    return _SUFFIXES.get(os.path.splitext(name_of(path))[1].lower())


def zstd_library() -> Any:
    """Return the zstd module of Python 3.14, or its backport.

    Raises:
        MissingExtraError: neither is available.
    """
    try:
        from compression import zstd
    except ImportError:
        try:
            from backports import zstd
        except ImportError as error:
            raise MissingExtraError(
                "files that are compressed with zstd need the package backports.zstd: pip install "
                '"headrace[zstd]"'
            ) from error
    return zstd


class RawFile(io.RawIOBase):
    """Open file with a position, as an `io.RawIOBase`.

    Args:
        file: the open file.
        owned: True: closing this object also closes the file. Default False.
    """

    def __init__(self, file: OpenFile, owned: bool = False) -> None:
        self._file, self._owned, self._place = file, owned, 0

    def read_at(self, length: int, offset: int) -> bytes:
        return self._file.read(offset, length)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = (
            offset
            + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._file.size}[whence]
        )
        return self._place

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), max(self._file.size - self._place, 0))
        buffer[:length] = self.read_at(length, self._place)
        self._place += length
        return length

    def close(self) -> None:
        if self._owned:
            self._file.close()
        super().close()


class _Unpacked(io.RawIOBase):
    """Stream that decompresses.

    Its errors name the file, and are raised after all bytes that can be unpacked.
    """

    _begun = False
    _failure: SourceError | None = None

    def __init__(
        self, packed: BinaryIO, kind: str, path: str, size: int, max_expansion: int
    ) -> None:
        self._packed, self._path, self._kind = packed, path, kind
        self._size, self._max_expansion = size, max_expansion
        self._left = max(EXPECTED_BYTES, size * max_expansion)
        zstd = zstd_library() if kind == "zstd" else None
        self._inner = (
            zstd.ZstdFile(packed, mode="rb") if zstd else gzip.GzipFile(fileobj=packed, mode="rb")
        )
        self._errors = (OSError, EOFError, zstd.ZstdError if zstd else zlib.error)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room, filled = memoryview(buffer), 0
        while (
            filled < len(room) and self._failure is None and (found := self._unpack(room[filled:]))
        ):
            filled += found
            self._begun = True
            self._left -= found
            if self._left < 0:
                self._failure = ExpansionError(
                    f"{shorten(self._path)} has {self._size} bytes, but unpacks to more than "
                    f"max_expansion={self._max_expansion} times as many, and more than "
                    f"{EXPECTED_BYTES}. Some files do so to attack programs. If you trust the "
                    "file, unpack it first, or pass headrace.convert a larger max_expansion "
                    "(--max-expansion)."
                )
        if self._failure is not None and not filled:
            raise self._failure
        return filled

    def _unpack(self, room: memoryview) -> int:
        """Unpack bytes into `room`, and return their number.

        A failure is kept, and is raised by a later read.
        """
        try:
            return cast(int, self._inner.readinto1(room))
        except SourceError as error:
            self._failure = error
        except self._errors as error:
            self._failure = self._cut_off(error)
            self._failure.__cause__ = error
        return 0

    def _cut_off(self, error: Exception) -> SourceError:
        where = (
            f"{shorten(self._path)} cannot be unpacked, near byte {self._packed.tell()} of the "
            f"file: {shorten(error)}"
        )
        # the bytes that are there are such as they should be
        if self._begun or isinstance(error, EOFError):
            return CutOffError(
                f"{where}. The file is cut off or damaged, and the records after this place are "
                "lost. Write the file again."
            )
        return SourceError(
            f"{where}. The file is cut off or damaged, or is not compressed with {self._kind} "
            "although its name says so. Write the file again, or rename it."
        )

    def close(self) -> None:
        self._inner.close()
        self._packed.close()
        super().close()
