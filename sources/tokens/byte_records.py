"""Source of records of bytes in mapped files, which `headrace.convert(…, to="bytes")` writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...common.messages import shorten
from ...errors import SourceError
from ...files.paths import PathLike, Paths
from ...files.storage_options import StorageOptionsLike
from ..facts import SourceFacts
from .bounds import OffsetsBeside
from .documents import DocumentSource
from .files import Array

_PATTERNS = ("*.npy",)


class BytesSource(DocumentSource):
    """Records of bytes, of any length, in files that are mapped into memory.

    Thread-safe, picklable, safe to fork.

    A record is a `bytes` object, which may be empty. Reading one takes less than a microsecond,
    because the file is neither compressed nor checked. For small records this is the fastest
    format; ArrayRecord takes less space.

    `headrace.convert(…, to="bytes")` writes such files: `<path>.npy` has the bytes of all records
    (`uint8`, one axis), and `<path>.npy.offsets` has n + 1 integers for n records. Do not change a
    file while a source uses it.

    Args:
        paths: `.npy` files: a path, a glob, a directory (its `*.npy` files, at any depth) or a list
            of these. Files of a glob or directory are sorted by path; a list keeps its order. Names
            in a directory that begin with `.` or `_` are left out. Records are numbered from the
            first file to the last.
        storage_options: how files in a store are reached and cached; see
            `docs/how-to/remote-files.md`. Records are read from the store when they are requested.
        growing: False (default), True, or a folder. If not False, more files may be added later.
            Each list of files is a numbered generation, which is recorded in
            `.headrace-generations` beside the data, or in this folder if one is passed; see
            `docs/how-to/data-that-changes.md`.
        generation: number of the generation (recorded list of files) to read, from 0. The source
            then does not look for newer files.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: a file is empty, cut off or of another kind; the offsets do not fit it; there
            are no records.
        ValueError: `paths` is an empty list.
        TypeError: a path is neither a string nor a `pathlib.Path`.

    >>> import tempfile, headrace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     records = [b"one", b"", b"three"]
    ...     made = headrace.convert(records, folder, to="bytes", workers=0, progress=False)
    ...     with headrace.BytesSource(folder) as source:
    ...         print(len(source), source[2])
    3 b'three'
    """

    _unit = "records"
    _beside = (".offsets", ".unfinished")
    _settles = False

    def __init__(
        self,
        paths: Paths,
        *,
        storage_options: StorageOptionsLike = None,
        growing: bool | PathLike = False,
        generation: int | None = None,
    ) -> None:
        self._read_from(
            paths, _PATTERNS, OffsetsBeside(None), None, storage_options, growing, generation, None
        )

    def _take(self, paths: Sequence[str]) -> None:
        super()._take(paths)
        if self._dtype != np.uint8:
            raise SourceError(
                f"{shorten(paths[0])} contains integers of dtype {self._dtype}, but records of "
                "bytes have dtype uint8. If it contains tokens, read it with headrace.TokenSource."
            )

    def _records_of(self, documents: list[Array]) -> list[Any]:
        return [document.tobytes() for document in documents]

    @property
    def facts(self) -> SourceFacts:
        return super().facts._replace(record_bytes=lambda: self._lengths)
