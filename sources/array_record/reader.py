"""Reads ArrayRecord files by the library. In: paths, positions in a file. Out: numbers of records, readers, records."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

from ...common.messages import TEXT, short_repr, shorten
from ...errors import MissingExtraError, SourceError, SourceNotFoundError
from ...files.opened import OpenFile, check_open_file, local_copy, open_file
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote

# Threads and workers are the loader's: with parallelism of its own, each reader would compete with them.
RANDOM_ACCESS = {"readahead_buffer_size": "0", "max_parallelism": "0"}
# Below a page nothing is gained; 32 KiB and more cost up to 10 % with records of 1 KB.
_BUFFER_BYTES = 4096
# `read([p, …])` shares its work out to the library's threads: it costs 100 µs a call and overlaps waits for the disk.
# `read(p, p + 1)` takes 4 µs on the calling thread. So a few keys are read one by one, more in one call.
_FEW = 16
# Files end in blocks of 64 KiB: the last one says where the index is, and the index is before it.
_INDEX_BYTES = 2 * 65536
_HEAD_BYTES, _END_BYTES = 1 << 16, 4 << 20
"""Bytes at the two ends of a remote file, in which its header and mostly its index are."""


class Content(NamedTuple):
    """Facts about one file after it was opened."""

    records: int
    stamp: Stamp
    end: str
    """A digest of the file's end, where the index is."""


def array_record_library() -> Any:
    """The library's module, or a MissingExtraError."""
    try:
        from array_record.python import array_record_module
    except ImportError as error:
        raise MissingExtraError(
            'ArrayRecordDataSource needs the package array_record: pip install "headrace[array-record]"'
        ) from error
    return array_record_module


def inspected(path: str, options: str, storage: StorageOptions) -> Content:
    """Open a file once, and count its records; a SourceError where it is empty, truncated or something else."""
    with closing(open_file(path, storage)) as file:
        if not file.size:
            raise SourceError(f"{shorten(path)}: the file is empty (0 bytes)")
        length = min(_INDEX_BYTES, file.size)
        digest = hashlib.sha256(file.read(file.size - length, length)).hexdigest()[:16]
        return Content(_count(file, options, storage), file.stamp, digest)


def _count(file: OpenFile, options: str, storage: StorageOptions) -> int:
    """Count the records. Of a remote file, its ends are enough for the library, as a rule."""
    if is_remote(file.path):
        with suppress(SourceError), _ends_of(file, _END_BYTES) as path:
            return _count_at(path, file.path, options)
    with local_copy(file.path, storage, file.stamp) as path:
        return _count_at(path, file.path, options)


@contextmanager
def _ends_of(file: OpenFile, length: int) -> Iterator[str]:
    """The path of a file of the same size that has so many bytes of the end, a first block, and zeros between them."""
    tail = max(file.size - length, 0)
    head = min(tail, _HEAD_BYTES)
    with tempfile.NamedTemporaryFile(prefix="headrace-") as copy:
        for place, part in zip((0, tail), file.read_many([0, tail], [head, file.size - tail])):
            os.pwrite(copy.fileno(), part, place)
        yield copy.name


def _count_at(path: str, name: str, options: str) -> int:
    with closing(_open(path, name, options)) as reader, _foreign(name):
        return int(reader.num_records())


def open_number(files: tuple[tuple[str, Stamp], ...], options: str, storage: StorageOptions, number: int) -> Any:
    """A reader of one of the files, or a SourceError where it is missing, was changed or cannot be read."""
    name, stamp = files[number]
    with local_copy(name, storage, stamp) as path:
        reader = _open(path, name, options)
    try:
        check_open_file(name, stamp)
    except BaseException:
        reader.close()
        raise
    return reader


def _open(path: str, name: str, options: str) -> Any:
    """Opens a file; the library reports a bad one only when it is used or closed, so it is asked at once."""
    if not os.path.exists(path):
        raise SourceNotFoundError(f"no file {short_repr(name, TEXT)}")
    if not os.path.getsize(path):
        raise SourceError(f"{shorten(name)}: the file is empty (0 bytes)")
    reader = array_record_library().ArrayRecordReader(path, options=options, file_reader_buffer_size=_BUFFER_BYTES)
    if reader.ok():
        return reader
    with _foreign(name):
        reader.close()
    raise SourceError(f"{shorten(name)}: not an ArrayRecord file, or truncated")


@contextmanager
def _foreign(name: str) -> Iterator[None]:
    """What the library raises becomes an error that names the file."""
    try:
        yield
    except RuntimeError as error:
        raise SourceError(f"{shorten(name)}: not an ArrayRecord file, or truncated: {shorten(error)}") from error


def read_positions(reader: Any, positions: list[int]) -> list[bytes]:
    """The records at these positions of a reader's file; raises RuntimeError, as the library does."""
    if len(positions) <= _FEW:
        return [reader.read(position, position + 1)[0] for position in positions]
    records: list[bytes] = reader.read(positions)
    return records
