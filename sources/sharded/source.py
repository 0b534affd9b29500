"""The shared part of sources of shards.

It finds the shard of a key, maps files, keeps decompressed parts, and makes errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, SupportsIndex, TypeVar

import numpy as np

from ...common.costs import length_of_value
from ...common.messages import first_few, short_repr, shorten
from ...errors import LengthsError, MissingExtraError, NoRecordsError, SourceError
from ...files.mmap_files import map_readable
from ...files.opened import open_file
from ...files.remote.parallel import in_background, in_parallel
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from ...formats.damage import damaged
from ...formats.sharded.encodings import Bytes, Sliced
from ...formats.sharded.index import IndexedShard
from ..arrow.block_cache import BlockCache
from ..facts import SourceFacts
from ..keys import Keys, check_key, check_keys
from ..parts import Int64s, by_part, read_by_part
from ..provenance import FilePlace, FileRun
from .stored import Range, StoredShard

ShardT = TypeVar("ShardT", bound=IndexedShard)


_AT_A_TIME = 64
"""Number of records that are read at a time where all are read."""

BLOCKS = 1 << 33
"""Number of keys of each shard in the cache.

The first one is for the whole shard, the others are for its parts.
"""


class ShardSource(ABC, Generic[ShardT]):
    """Base class of sources of shards, which an `index.json` lists.

    A subclass sets its own attributes, calls `_open` and `_prepare`, and defines the abstract
    methods.
    """

    _folder: str
    _shards: Sequence[ShardT]
    _ends: Int64s
    """`int64[shards]`: first key after each shard."""
    _cache_bytes: int
    _storage: StorageOptions
    """How shards in a store are reached."""
    _identity: str
    """Digest of the index and the columns, for the fingerprint."""
    _unpickled: tuple[str, ...] = ("_mapped", "_stored", "_plain", "_cache")

    def _open(self, folder: str, shards: Sequence[ShardT], counts: Sequence[int]) -> None:
        """Set the shards.

        Args:
            folder: folder of the shards.
            shards: the shards.
            counts: number of records of each shard.

        Raises:
            NoRecordsError: there are no records.
        """
        if not sum(counts):
            raise NoRecordsError(
                f"{shorten(folder)} has no samples. Pass a folder with at least one."
            )
        self._folder, self._shards = folder, shards
        self._ends = np.cumsum(counts, dtype=np.int64)

    def _prepare(self) -> None:
        """Create the attributes that are not pickled.

        Called by the constructor and after unpickling.
        """
        self._mapped: dict[int, Sliced] = {}
        # functions of the class, not of the source
        opened = partial(self._opened, self._shards, self._storage)
        self._stored: BlockCache[Any] = BlockCache(opened, self._cache_bytes)
        self._plain = (
            self._stored.get if is_remote(self._folder) else partial(_kept, self._mapped, opened)
        )
        block_of = partial(self._block_of, self._shards, self._plain, opened)
        self._cache: BlockCache[Any] = BlockCache(block_of, self._cache_bytes)
        self._prepare_decoders()

    @abstractmethod
    def _prepare_decoders(self) -> None:
        """Create the functions that decode records."""

    @abstractmethod
    def _read_shard(self, number: int, data: Sliced, places: list[int]) -> Iterator[Any]:
        """Yield the records of a shard.

        Args:
            number: number of the shard.
            data: bytes of the shard, `uint8[bytes]`.
            places: indices of the records in the shard.
        """

    def _ranges(self, number: int, data: StoredShard, places: Int64s) -> list[Range]:
        """Return the ranges of a shard in a store that records lie in.

        Arguments as for `_read_shard`.
        """
        return data.ranges_of(places, self._shards[number].samples)

    def _reads_parts(self, data: StoredShard) -> bool:
        """Return True if records are read by `_part`, which fetches bytes missing in its cache."""
        return False

    @classmethod
    def _head_bytes(cls, shard: ShardT, data: StoredShard) -> int:
        """Return the number of bytes before the first sample of a shard.

        `data` has the bytes of the offsets in memory.
        """
        return 4 * (shard.samples + 2)

    @abstractmethod
    def _field_names(self) -> Sequence[str]:
        """Return the names of the fields of a record; none if it is not a dict."""

    @classmethod
    @abstractmethod
    def _unpack(cls, shard: ShardT, data: Bytes) -> bytes:
        """Return the bytes of a shard whose file has the compressed bytes `data`."""

    @classmethod
    def _samples_in(cls, data: Sliced) -> int:
        """Return the number of samples that a shard of the bytes `data` says it has."""
        return int.from_bytes(data[:4].tobytes(), "little")

    @classmethod
    def _has_size(cls, shard: ShardT, size: int) -> bool:
        """Return True if the index says that a shard has `size` bytes."""
        return size == shard.bytes

    @classmethod
    def _part_of(cls, shard: ShardT, data: Sliced, part: int) -> Any:
        """Return a part of a shard that is decompressed or decoded on its own, for the cache.

        Args:
            shard: the shard.
            data: its bytes.
            part: number of the part.
        """
        raise NotImplementedError

    @classmethod
    def _block_of(
        cls,
        shards: Sequence[ShardT],
        plain: Callable[[int], Sliced],
        opened: Callable[[int], Sliced],
        block: int,
    ) -> Any:
        number, part = divmod(block, BLOCKS)
        return cls._part_of(shards[number], plain(number), part - 1) if part else opened(number)

    @classmethod
    def _opened(cls, shards: Sequence[ShardT], storage: StorageOptions, number: int) -> Sliced:
        """Return the bytes of a shard.

        They are decompressed, mapped into memory, or read from a store when they are needed.

        Raises:
            ValueError: it does not have the size, or the number of samples, that the index says.
            OSError: the file cannot be mapped.
            SourceError: the file cannot be read from a store.
        """
        shard = shards[number]
        data: Sliced = (
            cls._stored_shard(shard, storage) if is_remote(shard.path) else map_readable(shard.path)
        )
        if shard.compression:
            data = np.frombuffer(cls._unpack(shard, data[:]), np.uint8)
        if not cls._has_size(shard, len(data)):
            damaged(f"the shard has {len(data):,} bytes, but the index says {shard.bytes:,}")
        if (samples := cls._samples_in(data)) != shard.samples:
            damaged(f"the shard has {samples:,} samples, but the index says {shard.samples:,}")
        return data

    @classmethod
    def _stored_shard(cls, shard: ShardT, storage: StorageOptions) -> StoredShard:
        data = StoredShard(open_file(shard.path, storage, shard.stamp))
        if shard.compression:
            return data
        data = data.with_head(4 * (shard.samples + 2))
        needed = cls._head_bytes(shard, data)
        return data if needed <= data.nbytes else data.with_head(needed)

    def _data(self, number: int) -> Sliced:
        """Return the bytes of a shard: decompressed, mapped, or in a store."""
        found: Sliced = (
            self._cache.get(number * BLOCKS)
            if self._shards[number].compression
            else self._plain(number)
        )
        return found

    def _part(self, number: int, part: int) -> Any:
        """Return a part of a shard from the cache.

        The arguments are the numbers of the shard and of the part.
        """
        return self._cache.get(number * BLOCKS + 1 + part)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, key: SupportsIndex) -> Any:
        return self.__getitems__(
            np.array([check_key(key, len(self), type(self).__name__)], np.int64)
        )[0]

    def __getitems__(self, keys: Keys) -> list[Any]:
        """Return the samples of `keys`, in order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a shard cannot be read, or is damaged. The message names its file.
        """
        return read_by_part(
            check_keys(keys, len(self), type(self).__name__), self._ends, self._read_part
        )

    def _first(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _read_part(self, number: int, keys: Int64s) -> list[Any]:
        found: list[Any] = []
        key = -1
        try:
            data, places = self._data(number), keys - self._first(number)
            if isinstance(data, StoredShard):
                data = self._fetched(number, data, places)
            records = self._read_shard(number, data, places.tolist())
            for key in keys.tolist():  # noqa: B007 - the error names it
                found.append(next(records))
            return found
        except (
            MissingExtraError,
            MemoryError,
            SourceError,
        ):  # a SourceError of a store names the file and a remedy
            raise
        except Exception as error:  # damaged bytes make decoders, and pickle, raise anything
            at_key = f" at record key {key}" if key >= 0 else ""
            remedy = "Check the file and its permissions, or write it again"
            if isinstance(error, (ImportError, AttributeError)):  # of a pickle
                remedy = (
                    "Make the classes of its pickled objects importable; or, if samples are dicts, "
                    "name only other columns in columns="
                )
            reason = error if type(error) is ValueError else f"{type(error).__name__}: {error}"
            path = shorten(self._shards[number].path)
            raise SourceError(
                f"{path} cannot be read{at_key}: {shorten(reason)}. {remedy}."
            ) from error

    def _fetched(self, number: int, data: StoredShard, places: Int64s) -> StoredShard:
        """Return a shard with the bytes of some records in memory.

        They may be on their way if `_part` reads them.
        """
        ranges = self._ranges(number, data, places)
        if not self._reads_parts(data):
            return data.with_ranges(ranges)
        data.prefetch(ranges)
        return data

    def _announce(self, keys: Int64s) -> None:
        parts = [(number, some - self._first(number)) for number, some in by_part(keys, self._ends)]
        in_background([partial(in_parallel, self._prefetch, parts)])

    def _prefetch(self, part: tuple[int, Int64s]) -> None:
        """Start to fetch records of a shard.

        Args:
            part: number of the shard, and indices of the records in it.
        """
        number, places = part
        shard = self._shards[number]
        with suppress(Exception):  # the later read raises it
            if shard.compression:
                packed = self._stored_shard(shard, self._storage)
                packed.prefetch([(0, len(packed))])
            elif isinstance(data := self._plain(number), StoredShard):
                data.prefetch(self._ranges(number, data, places))

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            announce=self._announce if is_remote(self._folder) else None,
            lengths_by=self.lengths_by,
            file_place=self.file_place,
            file_runs=self.file_runs,
            file_count=lambda: len(self._shards),
            records_together=lambda: max(map(self._unpacked_with, self._shards)),
        )

    def _unpacked_with(self, shard: ShardT) -> int:
        """Return the number of records of a shard that are decompressed to read one."""
        return shard.samples if shard.compression else 1

    def file_place(self, key: int) -> FilePlace:
        number = int(
            self._ends.searchsorted(check_key(key, len(self), type(self).__name__), side="right")
        )
        return FilePlace(self._shards[number].path, int(key) - self._first(number))

    def file_runs(self) -> Iterator[FileRun]:
        for number, (shard, end) in enumerate(zip(self._shards, self._ends.tolist())):
            if (first := self._first(number)) < end:
                yield FileRun(shard.path, 0, first, end - first)

    def lengths_by(self, name: str) -> Int64s:
        """Return the length of each value of a column, `int64[records]`. All samples are read.

        A value that is an integer is a length itself. A text has its number of bytes in UTF-8.

        Args:
            name: name of the column.

        Raises:
            LengthsError: there is no such column, or its values have no length.
        """
        names = self._field_names()
        if name not in names:
            of_names = f"Name one of {first_few(names, 8)}"
            raise LengthsError(
                f"{shorten(self._folder)} has no column {short_repr(name)} among those that are "
                f"read. {of_names if names else 'Pass lengths= as a function of a record'}."
            )
        starts = range(0, len(self), _AT_A_TIME)
        values = (
            each[name]
            for start in starts
            for each in self.__getitems__(range(len(self))[start:][:_AT_A_TIME])
        )
        try:
            return np.fromiter(map(length_of_value, values, range(len(self))), np.int64, len(self))
        except LengthsError:
            raise LengthsError(
                f"{shorten(self._folder)}: not all values of column {short_repr(name)} have a "
                "length. Name a column of whole numbers of at least 0, texts, bytes or arrays."
            ) from None

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Number of records, and a digest of the index and the columns.

        It does not depend on the folder.
        """
        return {"kind": type(self).__name__, "records": len(self), "files": self._identity}

    def close(self) -> None:
        """Release the mapped and decompressed shards.

        The source stays usable: the next read maps them again.
        """
        self._mapped.clear()
        self._stored.forget()
        self._cache.forget()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._unpickled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples in {shorten(self._folder)})"


def _kept(mapped: dict[int, Sliced], opened: Callable[[int], Sliced], number: int) -> Sliced:
    """Return a mapped shard, which is mapped if it is missing in `mapped`."""
    if number not in mapped:
        mapped[number] = opened(number)
    return mapped[number]
