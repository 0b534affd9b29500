"""Source of the samples of LitData chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from ...common.messages import short_repr, shorten
from ...common.validation import whole_number
from ...errors import NoRecordsError
from ...files.opened import open_file
from ...files.paths import PathLike, text_of
from ...files.remote.parallel import in_parallel
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ...files.streams import zstd_library
from ...files.urls import name_of
from ...formats.damage import damaged
from ...formats.sharded.encodings import Bytes, Sliced, place_of
from ...formats.sharded.litdata import LitDataChunk, chosen_fields, chunks_of, with_header
from ...formats.sharded.litdata_samples import (
    batch_of_row,
    frame_of,
    head_bytes,
    is_framed,
    is_table,
    leaves_of,
    place_in_frame,
    record_batch,
    samples_in,
    samples_in_frame,
    table_range,
)
from ...formats.sharded.litdata_values import litdata_decoder
from ..facts import SourceFacts
from ..file_source import hex_digest
from ..parts import Int64s
from .chosen_columns import check_columns
from .source import ShardSource
from .stored import Range, StoredShard


class LitDataSource(ShardSource[LitDataChunk]):
    """Samples of LitData chunks, which `litdata.optimize` has written.

    Thread-safe, picklable, safe to fork.

    A record has the structure of the sample: a dict, list, tuple or single value. Integers, floats,
    truth values, texts and `bytes` are Python values. NumPy arrays and PyTorch tensors are
    read-only NumPy arrays. JPEG images and other files are `bytes`, for `DecodeImage` or
    `DecodeVideo`; images of Pillow are arrays `uint8[height, width, channels]`, without the last
    axis for a single channel. Files are mapped into memory; of files in a store, only what is read
    is fetched. What is compressed together, such as a chunk or 256 samples, is fetched and
    decompressed when one of its samples is read; some of it is kept. `litdata` and PyTorch are not
    needed; chunks whose samples are dicts of plain values and lists need pyarrow, and compressed
    ones zstd.

    Args:
        folder: folder, here or in a store (`s3://…`), with an `index.json` and all chunks that it
            names.
        columns: names of the fields to read, in this order, if samples are dicts. None (default):
            whole samples.
        block_size: number of tokens in a record, if the samples are arrays of tokens that were
            written for LitData's `TokensLoader`. Then a record is an array of `block_size` tokens,
            as in LitData: the tokens of a chunk are joined, and what is left at its end is dropped.
            None (default): a record is a sample.
        allow_pickle: True reads pickled objects, which can run code. False (default): a column of
            them is an error.
        cache_bytes: maximum size of the decompressed data that a process keeps, in bytes (default
            256 MiB). What was read last is always kept.
        storage_options: how chunks in a store are reached and cached; see
            `docs/how-to/remote-files.md`.

    Raises:
        SourceNotFoundError: there is no `index.json`, or a chunk is missing.
        SourceError: the index is not one of LitData; chunks are encrypted, or have another size
            than the index says; a column has an unknown encoding, or has pickled objects without
            `allow_pickle`; or, when it is read, a chunk is damaged.
        MissingExtraError: when a chunk is read, if the library that it needs is not installed.
        NoRecordsError: there are no samples, or no chunk has `block_size` tokens.
        ValueError: `columns` is empty, has a name that is not a field, or is given for samples that
            are not dicts; `block_size` is given, and samples are not tokens; or `block_size` or
            `cache_bytes` is less than 1.
        TypeError: `folder` is not a path.

    Example (needs chunks):
        `LitDataSource("train", columns=["image", "class"])[0]` is a dict with these two keys.
    """

    _unpickled = ("_mapped", "_stored", "_plain", "_cache", "_decoders", "_build")

    def __init__(
        self,
        folder: PathLike,
        columns: Sequence[str] | None = None,
        *,
        block_size: int | None = None,
        allow_pickle: bool = False,
        cache_bytes: int = 256 << 20,
        storage_options: StorageOptionsLike = None,
    ) -> None:
        path, self._allow_pickle = text_of(folder), bool(allow_pickle)
        self._cache_bytes = whole_number("cache_bytes", cache_bytes, 1, None, "a number of bytes")
        self._storage = storage_options_of(storage_options)
        self._format, chunks = chunks_of(path, self._storage)
        self._block = _block_size(block_size, path, self._format.is_tokens)
        counts = [_records(chunk, self._block) for chunk in chunks]
        if chunks and self._block is not None and not any(counts):
            raise NoRecordsError(
                f"no file of {shorten(path)} has block_size={self._block} tokens. Pass a smaller "
                "block_size=."
            )
        self._open(path, chunks, counts)
        self._columns = self._chosen(columns)
        self._only_tables = self._is_table(chunks[0]) and all(
            in_parallel(self._is_table, chunks[1:])
        )
        described = [(name_of(chunk.path), *chunk[1:3], chunk.bytes) for chunk in chunks]
        self._identity = hex_digest(repr((self._columns, self._block, self._format, described)))
        self._prepare()

    def _chosen(self, columns: Sequence[str] | None) -> tuple[str, ...] | None:
        if columns is None:
            return None
        tree, chosen = self._format.tree, (columns,) if isinstance(columns, str) else tuple(columns)
        if tree.kind != "dict":
            raise ValueError(
                f"columns={short_repr(columns)} is given, but the samples of "
                f"{shorten(self._folder)} are not dicts. Leave columns out, and choose values with "
                "a map."
            )
        check_columns(chosen, [*tree.names, *self._format.more_names], self._folder, self._folder)
        return chosen

    def _is_table(self, chunk: LitDataChunk) -> bool:
        if self._format.is_tokens or chunk.compression:
            return False
        with closing(open_file(chunk.path, self._storage, chunk.stamp)) as file:
            return is_table(StoredShard(file))

    def _prepare_decoders(self) -> None:
        tree, encodings = self._format.tree, self._format.encodings
        numbers = list(range(len(encodings)))
        if self._columns is not None:
            tree, numbers = chosen_fields(
                tree, [name for name in self._columns if name in tree.names]
            )
        self._build = tree.build()
        names = self._format.tree.leaf_names()
        self._decoders = [
            (
                number,
                litdata_decoder(
                    f"{shorten(self._folder)}: {names[number]}",
                    encodings[number],
                    self._allow_pickle,
                ),
            )
            for number in ([] if self._only_tables else numbers)
        ]

    def _read_shard(self, number: int, data: Sliced, places: list[int]) -> Iterator[Any]:
        if not self._format.is_tokens and is_table(data):
            return (self._row(number, place) for place in places)
        if self._block is not None:
            return (self._tokens(data, place) for place in places)
        return (self._value(self._sample(number, data, place)) for place in places)

    def _ranges(self, number: int, data: StoredShard, places: Int64s) -> list[Range]:
        if is_framed(data):
            rows = samples_in_frame(data)
            frames = [
                frame_of(data, first * rows)[1] for first in np.unique(places // rows).tolist()
            ]
            return [(frame.start, frame.start + frame.packed_bytes) for frame in frames]
        if self._block is None:
            return (
                []
                if self._reads_parts(data)
                else data.ranges_of(places, self._shards[number].samples)
            )
        first, size = place_of(data, 0)[0], self._block_bytes
        return [(first + place * size, first + (place + 1) * size) for place in places.tolist()]

    def _reads_parts(self, data: StoredShard) -> bool:
        return is_framed(data) or (not self._format.is_tokens and is_table(data))

    @classmethod
    def _head_bytes(cls, shard: LitDataChunk, data: StoredShard) -> int:
        return head_bytes(data, shard.samples)

    def _sample(self, number: int, data: Sliced, place: int) -> Bytes:
        """Return the bytes of a sample."""
        if is_framed(data):
            index, frame = frame_of(data, place)
            begin, end = place_in_frame(data, place, frame)
            unpacked: Bytes = self._part(number, index)
            return unpacked[begin:end]
        begin, end = place_of(data, place)
        if self._format.unit == "sample":
            return np.frombuffer(_unpacked(data[begin:end]), np.uint8)
        return data[begin:end]

    def _value(self, sample: Bytes) -> Any:
        if self._format.is_tokens:
            return self._decoders[0][1](sample.tobytes())
        places = leaves_of(sample, len(self._format.encodings))
        view = sample.data
        leaves = (decode(bytes(view[slice(*places[number])])) for number, decode in self._decoders)
        return self._build(leaves)

    def _row(self, number: int, place: int) -> Any:
        index, row = batch_of_row(place)
        batch = self._part(number, index)
        names = batch.schema.names if self._columns is None else self._columns
        return {
            name: batch.column(name)[row].as_py() if name in batch.schema.names else None
            for name in names
        }

    @property
    def _block_bytes(self) -> int:
        assert self._block is not None
        return self._block * int(self._decoders[0][1](b"").dtype.itemsize)

    def _tokens(self, data: Sliced, place: int) -> Any:
        begin, size = place_of(data, 0)[0], self._block_bytes
        dtype = self._decoders[0][1](b"").dtype
        found = data[begin + place * size : begin + (place + 1) * size].tobytes()
        if len(found) < size:
            damaged(f"the chunk ends before the tokens of block {place}")
        return np.frombuffer(found, dtype)

    @classmethod
    def _unpack(cls, shard: LitDataChunk, data: Bytes) -> bytes:
        return _unpacked(data)

    @classmethod
    def _samples_in(cls, data: Sliced) -> int:
        return samples_in(data)

    @classmethod
    def _has_size(cls, shard: LitDataChunk, size: int) -> bool:
        return size in (shard.bytes, with_header(shard.bytes, shard.samples))

    @classmethod
    def _part_of(cls, shard: LitDataChunk, data: Sliced, part: int) -> Any:
        """Return the bytes of a frame, or a record batch."""
        if not is_framed(data):
            start, stop = table_range(data)
            table = data.opened(start, stop) if isinstance(data, StoredShard) else data[start:stop]
            return record_batch(table, part, shard.samples)
        frame = frame_of(data, part * samples_in_frame(data))[1]
        found = np.frombuffer(
            _unpacked(data[frame.start : frame.start + frame.packed_bytes]), np.uint8
        )
        if len(found) != frame.bytes:
            damaged(f"frame {part} of the chunk has {len(found)} bytes, not {frame.bytes}")
        return found

    def _field_names(self) -> Sequence[str]:
        tree = self._format.tree
        return (
            self._columns
            if self._columns is not None
            else tree.names
            if tree.kind == "dict"
            else ()
        )

    @property
    def facts(self) -> SourceFacts:
        known = super().facts
        return known._replace(lengths=self._lengths) if self._format.is_tokens else known

    def _lengths(self) -> Int64s:
        """Return the number of tokens of each record, `int64[records]`."""
        if self._block is not None:
            return np.full(len(self), self._block, np.int64)
        width = self._decoders[0][1](b"").dtype.itemsize
        counts = in_parallel(
            lambda number: self._tokens_in(number, width), range(len(self._shards))
        )
        return np.concatenate(counts)

    def _tokens_in(self, number: int, width: int) -> Int64s:
        offsets = self._data(number)[4 : 8 + 4 * self._shards[number].samples].view("<u4")
        places = offsets.astype(np.int64)
        return (places[1:] - places[:-1]) // width

    def _unpacked_with(self, shard: LitDataChunk) -> int:
        if self._format.unit == "batch":
            return min(shard.samples, self._format.together)
        return shard.samples if shard.compression else 1


def _block_size(block_size: int | None, folder: str, is_tokens: bool) -> int | None:
    if block_size is None:
        return None
    if not is_tokens:
        raise ValueError(
            f"block_size={short_repr(block_size)} is given, but the samples of {shorten(folder)} "
            "were not written for LitData's TokensLoader. Leave block_size out."
        )
    return whole_number("block_size", block_size, 1, None, "a number of tokens, such as 2049")


def _records(chunk: LitDataChunk, block: int | None) -> int:
    return chunk.samples if block is None else (chunk.tokens or 0) // block


def _unpacked(data: Bytes) -> bytes:
    return bytes(zstd_library().decompress(data.tobytes()))
