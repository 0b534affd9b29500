"""Source of the records of TFRecord files: `bytes`, or the features of a `tf.train.Example`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...common.messages import shorten
from ...errors import SourceError
from ...files.opened import OpenFile
from ...files.paths import PathLike, Paths
from ...files.storage_options import StorageOptionsLike
from ...formats.example import Decoder
from ...formats.index import FoundRecords, Index, IndexKind, ascends
from ...formats.tfrecord import (
    FRAME_BYTES,
    HEADER_BYTES,
    crc_function,
    first_damaged,
    record_table,
    wrong_checksum,
)
from .source import IndexedSource, Ranges


def _find(file: OpenFile) -> FoundRecords:
    table = record_table(file)
    return FoundRecords(
        len(table.checksums), {"offsets": table.offsets, "checksums": table.checksums}
    )


def _fits(found: FoundRecords, size: int) -> bool:
    offsets, checksums = found.arrays["offsets"], found.arrays["checksums"]
    return len(checksums) == found.count and ascends(offsets, found.count + 1, size, FRAME_BYTES)


class TFRecordDataSource(IndexedSource[Any]):
    """Records of uncompressed TFRecord files, with random access.

    Thread-safe, picklable, safe to fork.

    Each file is read once to find its records. Their places are stored beside the file, as
    `<file>.headrace-index`; or in the user's cache folder, if the file is in a store or its folder
    is read-only. The checksum of each record is checked when it is read.

    Args:
        paths: a path, a glob, a directory (its files `*.tfrec*`, at any depth), or a list of these.
            Files of a glob or directory are sorted by path; a list keeps its order. Names in a
            directory that begin with `.` or `_` are left out.
        decode: True: decode each record, a `tf.train.Example` or `tf.train.SequenceExample`, to a
            dict: numbers become arrays with one axis, `int64` or `float32`; one byte string becomes
            `bytes`, several a list. Default False: records are `bytes`.
        features: the features to return, each with its type; implies `decode=True`. Example:
            `{"image": bytes, "label": np.int64, "box": (np.float32, (4,)), "tags": list}`; see
            `headrace.decode_example`.
        sequences: likewise the feature lists of a `tf.train.SequenceExample` to return, each with
            the type of one step; implies `decode=True`. Example: `{"frames": bytes, "words":
            (np.int64, (None,))}`.
        index_dir: folder for the indices. Default: beside the files.
        max_open_files: maximum number of open files of this source. Default: all sources of a
            process together keep a quarter of the process's limit open (16 to 256).
        storage_options: how files in a store (`s3://…`) are reached and cached; see
            `docs/how-to/remote-files.md`.
        growing: False (default), True, or a folder. If not False, more files may be added later.
            Each list of files is a numbered generation, which is recorded in
            `.headrace-generations` beside the data, or in this folder if one is passed; see
            `docs/how-to/data-that-changes.md`.
        generation: number of the generation to read, from 0. The source then does not look for
            newer files.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: a file is cut off, compressed, or not TFRecord; or there are no records.
        ValueError: `paths` is an empty list, or `max_open_files` is less than 1.
        TypeError: a path is neither a string nor a `pathlib.Path`, `features` or `sequences` has an
            unknown type, or `max_open_files` is not an integer.
        MissingExtraError: the library google-crc32c is not installed.

    Example (needs a file):
        `TFRecordDataSource("train*.tfrecord", decode=True)[0]["label"]` is an array.
    """

    index_kind: ClassVar[IndexKind] = IndexKind(
        "tfrecord", _find, {"offsets": ("<i8", ()), "checksums": ("<u4", ())}, _fits
    )
    patterns: ClassVar[tuple[str, ...]] = ("*.tfrec*",)

    _decoder: Decoder | None

    def __init__(
        self,
        paths: Paths,
        *,
        decode: bool = False,
        features: Mapping[str, Any] | None = None,
        sequences: Mapping[str, Any] | None = None,
        index_dir: PathLike | None = None,
        max_open_files: int | None = None,
        storage_options: StorageOptionsLike = None,
        growing: bool | PathLike = False,
        generation: int | None = None,
    ) -> None:
        crc_function()  # raises where the library is missing
        wanted = decode or features is not None or sequences is not None
        self._decoder = Decoder(features, sequences) if wanted else None
        super().__init__(
            paths,
            index_dir=index_dir,
            max_open_files=max_open_files,
            storage_options=storage_options,
            growing=growing,
            generation=generation,
        )

    def _read(self, file: OpenFile, index: Index, places: npt.NDArray[np.int64]) -> list[Any]:
        starts, lengths = self._ranges(index, places)
        records = file.read_many(starts, lengths)
        damaged = first_damaged(records, index.arrays["checksums"].take(places).tolist())
        if damaged is not None:
            raise wrong_checksum(file.path, int(starts[damaged]) - HEADER_BYTES)
        return records if self._decoder is None else self._decoded(file, records)

    def _ranges(self, index: Index, places: npt.NDArray[np.int64]) -> Ranges:
        starts, stops = map(index.arrays["offsets"].take, (places, places + 1))
        return starts + HEADER_BYTES, stops - starts - FRAME_BYTES

    def _fields(self, record: Any) -> Any:
        return Decoder(None)(record) if self._decoder is None else record

    def _decoded(self, file: OpenFile, records: list[bytes]) -> list[Any]:
        assert self._decoder is not None
        try:
            return list(map(self._decoder, records))
        except SourceError as error:
            raise SourceError(f"{shorten(file.path)}: {error}") from error

    def _described(self) -> Any:
        return None if self._decoder is None else ["decoded", self._decoder.described]
