"""Source of the samples of MDS shards, the format of MosaicML Streaming."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...common.costs import length_of_value
from ...common.lazy_exports import optional_library
from ...common.messages import first_few, short_repr, shorten
from ...common.validation import whole_number
from ...errors import LengthsError, MissingExtraError, NoRecordsError, SourceError
from ...files.mmap_files import map_readable
from ...files.paths import PathLike, text_of
from ...files.streams import zstd_library
from ...formats.mds import MdsShard, decoder_of, sample_of, shards_of
from ..arrow.block_cache import BlockCache
from ..facts import SourceFacts
from ..file_source import hex_digest
from ..keys import Keys, check_key, check_keys
from ..parts import Int64s, read_by_part
from ..provenance import FilePlace, FileRun


class MdsSource:
    """Samples of MDS shards, which MosaicML's `streaming.MDSWriter` has written. Thread-safe, picklable, safe to fork.

    A record is a dict of column name to value. Images of the encodings "jpeg" and "png" are `bytes`, for
    `DecodeImage`; "pil" is an array `uint8[height, width, channels]`, without the last axis for a single channel;
    "ndarray" is a read-only array; numbers are NumPy scalars, but "int" is an `int`. Files are mapped into memory. A
    compressed shard is decompressed as a whole when a sample of it is read; some decompressed shards are kept.

    Args:
        folder: local folder with an `index.json` and all shards that it names.
        columns: names of the columns to read, in this order. None (default): all.
        allow_pickle: True reads columns of pickled objects, which can run code. False (default): such a column is an error.
        cache_bytes: maximum size of the decompressed shards that a process keeps, in bytes (default 256 MiB). The shard that
            was read last is always kept.

    Raises:
        SourceNotFoundError: there is no `index.json`, or a shard is missing.
        SourceError: the index is not one of MDS, version 2; a shard has another size than the index says; a column has an
            unknown encoding, or has pickled objects without `allow_pickle`; or, when it is read, a shard is damaged.
        MissingExtraError: when a compressed shard is read, if the library for its compression is not installed.
        NoRecordsError: there are no samples.
        ValueError: a name in `columns` is not a column, `columns` is empty, or `cache_bytes` is less than 1.
        TypeError: `folder` is not a path.

    Example (needs shards):
        `MdsSource("train", columns=["image", "class"])[0]` is a dict with these two keys.
    """

    def __init__(
        self,
        folder: PathLike,
        columns: Sequence[str] | None = None,
        *,
        allow_pickle: bool = False,
        cache_bytes: int = 256 << 20,
    ) -> None:
        self._folder, self._allow_pickle = text_of(folder), bool(allow_pickle)
        self._cache_bytes = whole_number("cache_bytes", cache_bytes, 1, None, "a number of bytes")
        self._shards = shards_of(self._folder)
        if not self._shards:
            raise NoRecordsError(f"{shorten(self._folder)} has no samples. Pass a folder with at least one.")
        self._ends = np.cumsum([shard.samples for shard in self._shards], dtype=np.int64)
        self._columns = _chosen(columns, self._shards, self._folder)
        told = [(os.path.basename(shard.path), *shard[1:5], shard.bytes) for shard in self._shards]
        self._identity = hex_digest(repr((self._columns, told)))
        self._prepare()

    def _prepare(self) -> None:
        self._mapped: dict[int, npt.NDArray[np.uint8]] = {}
        self._cache = BlockCache(partial(_bytes_of, self._shards), self._cache_bytes)
        self._decoders = [
            {
                name: decoder_of(name, encoding, self._allow_pickle)
                for name, encoding in zip(shard.names, shard.encodings)
                if name in self._columns
            }
            for shard in self._shards
        ]

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        return self.__getitems__(np.array([check_key(key, len(self), "MdsSource")], np.int64))[0]

    def __getitems__(self, keys: Keys) -> list[dict[str, Any]]:
        """Return the samples of `keys`, in order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a shard cannot be read, or is damaged. The message names its file.
        """
        return read_by_part(check_keys(keys, len(self), "MdsSource"), self._ends, self._read_shard)

    def _read_shard(self, number: int, keys: Int64s) -> list[dict[str, Any]]:
        shard, decoders = self._shards[number], self._decoders[number]
        first = int(self._ends[number]) - shard.samples
        key = -1
        try:
            data, found = self._data(number), []
            for key in keys.tolist():
                sample = sample_of(data, key - first, shard, decoders)
                found.append({name: sample[name] for name in self._columns})
            return found
        except (MissingExtraError, MemoryError):
            raise
        except Exception as error:  # damaged bytes make decoders, and pickle, raise anything
            at_key = f" at record key {key}" if key >= 0 else ""
            remedy = "Check the file and its permissions, or write it again"
            if isinstance(error, (ImportError, AttributeError)):  # of a pickle
                remedy = "Make the classes of its pickled objects importable, or name only other columns in columns="
            reason = error if type(error) is ValueError else f"{type(error).__name__}: {error}"
            raise SourceError(f"{shorten(shard.path)} cannot be read{at_key}: {shorten(reason)}. {remedy}.") from error

    def _data(self, number: int) -> npt.NDArray[np.uint8]:
        """Return the bytes of a shard: mapped, or decompressed."""
        if self._shards[number].compression:
            return self._cache.get(number)
        if number not in self._mapped:
            self._mapped[number] = _bytes_of(self._shards, number)
        return self._mapped[number]

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            lengths_by=self.lengths_by,
            file_place=self.file_place,
            file_runs=self.file_runs,
            file_count=lambda: len(self._shards),
            records_together=self._records_together,
        )

    def _records_together(self) -> int:
        return max((shard.samples for shard in self._shards if shard.compression), default=1)

    def file_place(self, key: int) -> FilePlace:
        number = int(self._ends.searchsorted(check_key(key, len(self), "MdsSource"), side="right"))
        shard = self._shards[number]
        return FilePlace(shard.path, int(key) - int(self._ends[number]) + shard.samples)

    def file_runs(self) -> Iterator[FileRun]:
        for shard, end in zip(self._shards, self._ends.tolist()):
            yield FileRun(shard.path, 0, end - shard.samples, shard.samples)

    def lengths_by(self, name: str) -> Int64s:
        """Return the length of each value of a column, `int64[records]`. All samples are read.

        A value that is an integer is a length itself. A text has its number of bytes in UTF-8.

        Args:
            name: name of the column.

        Raises:
            LengthsError: there is no such column, or its values have no length.
        """
        if name not in self._columns:
            raise LengthsError(
                f"{shorten(self._folder)} has no column {short_repr(name)} among those that are read. Name one of "
                f"{first_few(self._columns, 8)}."
            )
        values = (self[key][name] for key in range(len(self)))
        try:
            return np.fromiter(map(length_of_value, values, range(len(self))), np.int64, len(self))
        except LengthsError:
            raise LengthsError(
                f"{shorten(self._folder)}: not all values of column {short_repr(name)} have a length. Name a column of whole "
                "numbers of at least 0, texts, bytes or arrays."
            ) from None

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Number of records, and a digest of the index and the columns. It does not depend on the folder."""
        return {"kind": "MdsSource", "records": len(self), "files": self._identity}

    def close(self) -> None:
        """Release the mapped and decompressed shards. The source stays usable: the next read maps them again."""
        self._mapped.clear()
        self._cache.forget()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_mapped", "_cache", "_decoders")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __repr__(self) -> str:
        return f"MdsSource({len(self)} samples in {shorten(self._folder)})"


def _chosen(columns: Sequence[str] | None, shards: Sequence[MdsShard], folder: str) -> tuple[str, ...]:
    """Return the names of the columns to read, after a check that each shard has them."""
    chosen = shards[0].names if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
    for shard in shards:
        unknown = [short_repr(name) for name in chosen if name not in shard.names]
        if not chosen:
            raise ValueError(
                f"columns=[] is empty. Name at least one column of {shorten(folder)}: {first_few(shard.names, 8)}."
            )
        if unknown:
            raise ValueError(
                f"{shorten(shard.path)} has no column {first_few(unknown)}. Name some of its columns: "
                f"{first_few(shard.names, 8)}."
            )
    return chosen


def _bytes_of(shards: Sequence[MdsShard], number: int) -> npt.NDArray[np.uint8]:
    """Map a shard into memory and, if it is compressed, return its decompressed bytes.

    Raises:
        ValueError: it does not have the size, or the number of samples, that the index says.
    """
    shard = shards[number]
    data = map_readable(shard.path)
    if shard.compression:
        data = np.frombuffer(_decompressed(shard, data), np.uint8)
    if len(data) != shard.bytes:
        raise ValueError(f"the shard has {len(data):,} bytes, but the index says {shard.bytes:,}")
    samples = int.from_bytes(data[:4].tobytes(), "little")
    if samples != shard.samples:
        raise ValueError(f"the shard has {samples:,} samples, but the index says {shard.samples:,}")
    return data


def _decompressed(shard: MdsShard, data: npt.NDArray[np.uint8]) -> bytes:
    packed = data.tobytes()
    if shard.compression == "zstd":
        return bytes(zstd_library().decompress(packed))
    if shard.compression == "gz":
        return gzip.decompress(packed)
    if shard.compression == "bz2":
        return bz2.decompress(packed)
    if shard.compression == "br":
        return bytes(
            optional_library("brotli", "MDS shards that are compressed with Brotli need brotli", "mds").decompress(
                packed
            )
        )
    if shard.compression == "snappy":
        return bytes(
            optional_library("snappy", "MDS shards that are compressed with Snappy need snappy", "mds").decompress(
                packed
            )
        )
    raise ValueError(f"the compression {short_repr(shard.compression)} is not one of zstd, gz, bz2, br and snappy")
