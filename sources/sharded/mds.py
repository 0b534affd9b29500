"""Source of the samples of MDS shards, the format of MosaicML Streaming."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator, Sequence
from typing import Any

from ...common.lazy_exports import optional_library
from ...common.messages import short_repr
from ...common.validation import whole_number
from ...files.paths import PathLike, text_of
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ...files.streams import zstd_library
from ...files.urls import name_of
from ...formats.sharded.encodings import Bytes, Sliced, place_of
from ...formats.sharded.mds import MdsShard, decoder_of, sample_of, shards_of
from ..file_source import hex_digest
from .chosen_columns import check_columns
from .source import ShardSource


class MdsSource(ShardSource[MdsShard]):
    """Samples of MDS shards, which MosaicML's `streaming.MDSWriter` has written.

    Thread-safe, picklable, safe to fork.

    A record is a dict of column name to value. Images of the encodings "jpeg" and "png" are
    `bytes`, for `DecodeImage`; "pil" is an array `uint8[height, width, channels]`, without the last
    axis for a single channel; "ndarray" is a read-only array; numbers are NumPy scalars, but "int"
    and numbers stored as text ("str_int", …) are Python numbers. Files are mapped into memory; of
    files in a store, only the samples that are read are fetched. A compressed shard is fetched and
    decompressed as a whole when a sample of it is read; some decompressed shards are kept.

    Args:
        folder: folder, here or in a store (`s3://…`), with an `index.json` and all shards that it
            names.
        columns: names of the columns to read, in this order. None (default): all.
        allow_pickle: True reads columns of pickled objects, which can run code. False (default):
            such a column is an error.
        cache_bytes: maximum size of the decompressed shards that a process keeps, in bytes (default
            256 MiB). The shard that was read last is always kept.
        storage_options: how shards in a store are reached and cached; see
            `docs/how-to/remote-files.md`.

    Raises:
        SourceNotFoundError: there is no `index.json`, or a shard is missing.
        SourceError: the index is not one of MDS, version 2; a shard has another size than the index
            says; a column has an unknown encoding, or has pickled objects without `allow_pickle`;
            or, when it is read, a shard is damaged.
        MissingExtraError: when a compressed shard is read, if the library for its compression is
            not installed.
        NoRecordsError: there are no samples.
        ValueError: a name in `columns` is not a column, `columns` is empty, or `cache_bytes` is
            less than 1.
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
        storage_options: StorageOptionsLike = None,
    ) -> None:
        path, self._allow_pickle = text_of(folder), bool(allow_pickle)
        self._cache_bytes = whole_number("cache_bytes", cache_bytes, 1, None, "a number of bytes")
        self._storage = storage_options_of(storage_options)
        shards = shards_of(path, self._storage)
        self._open(path, shards, [shard.samples for shard in shards])
        self._columns = _chosen(columns, shards, path)
        described = [(name_of(shard.path), *shard[1:5], shard.bytes) for shard in shards]
        self._identity = hex_digest(repr((self._columns, described)))
        self._prepare()

    _unpickled = ("_mapped", "_stored", "_plain", "_cache", "_decoders")

    def _prepare_decoders(self) -> None:
        self._decoders = [
            {
                name: decoder_of(name, encoding, self._allow_pickle)
                for name, encoding in zip(shard.names, shard.encodings)
                if name in self._columns
            }
            for shard in self._shards
        ]

    def _read_shard(self, number: int, data: Sliced, places: list[int]) -> Iterator[dict[str, Any]]:
        shard, decoders = self._shards[number], self._decoders[number]
        for place in places:
            begin, end = place_of(data, place)
            sample = sample_of(data[begin:end], shard, decoders)
            yield {name: sample[name] for name in self._columns}

    @classmethod
    def _unpack(cls, shard: MdsShard, data: Bytes) -> bytes:
        return _decompressed(shard, data)

    def _field_names(self) -> Sequence[str]:
        return self._columns


def _chosen(
    columns: Sequence[str] | None, shards: Sequence[MdsShard], folder: str
) -> tuple[str, ...]:
    """Return the names of the columns to read, after a check that each shard has them."""
    chosen = (
        shards[0].names
        if columns is None
        else (columns,)
        if isinstance(columns, str)
        else tuple(columns)
    )
    for shard in shards:
        check_columns(chosen, shard.names, folder, shard.path)
    return chosen


def _decompressed(shard: MdsShard, data: Bytes) -> bytes:
    packed = data.tobytes()
    if shard.compression == "zstd":
        return bytes(zstd_library().decompress(packed))
    if shard.compression == "gz":
        return gzip.decompress(packed)
    if shard.compression == "bz2":
        return bz2.decompress(packed)
    if shard.compression == "br":
        return bytes(
            optional_library(
                "brotli", "MDS shards that are compressed with Brotli need brotli", "mds"
            ).decompress(packed)
        )
    if shard.compression == "snappy":
        return bytes(
            optional_library(
                "snappy", "MDS shards that are compressed with Snappy need snappy", "mds"
            ).decompress(packed)
        )
    raise ValueError(
        f"the compression {short_repr(shard.compression)} is not one of zstd, gz, bz2, br and "
        "snappy"
    )
