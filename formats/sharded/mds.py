"""MDS, the format of MosaicML Streaming: an `index.json`, and shards of samples.

A shard begins with the number of its samples and their offsets, all `uint32`. A sample has the
sizes of its columns of variable size, and then the bytes of each column, which an encoding
describes.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from ...common.messages import first_few, short_repr
from ...errors import SourceError
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptionsLike
from .encodings import Bytes, Decoder, list_decoder, pickle_decoder, pixels_of, unchanged
from .index import file_in, number_of, read_index, value_of


class MdsShard(NamedTuple):
    """One shard.

    Attributes:
        path: path of its file.
        samples: number of samples.
        names: names of the columns.
        encodings: for each column, how its bytes are to be read, such as "int64" or
            "ndarray:float32:2,3".
        sizes: for each column, its bytes in each sample; None if they differ.
        compression: "zstd", "gz", "bz2", "br" or "snappy"; "" if the file is not compressed.
        bytes: size of the shard when it is not compressed.
        file_bytes: size of its file.
        stamp: stamp of its file; None before the file is looked up.
    """

    path: str
    samples: int
    names: tuple[str, ...]
    encodings: tuple[str, ...]
    sizes: tuple[int | None, ...]
    compression: str
    bytes: int
    file_bytes: int
    stamp: Stamp | None = None

    def found(self, stamp: Stamp) -> MdsShard:
        """Return the shard with the stamp of its file."""
        return self._replace(stamp=stamp)


def shards_of(folder: str, storage: StorageOptionsLike = None) -> list[MdsShard]:
    """Read the index of a folder of MDS shards, and return the shards that have samples.

    Args:
        folder: path or URL of the folder.
        storage: how a folder in a store is reached.

    Raises:
        SourceNotFoundError: the folder has no `index.json`, or a shard is missing.
        SourceError: the index is not one of MDS, version 2; or a shard has another size than the
            index says.
    """

    def parse(values: Any) -> list[list[MdsShard]]:
        return [
            _shard(folder, values, number)
            for number in range(len(value_of(values, "shards", list)))
        ]

    return read_index(folder, "MDS shards, version 2", "streaming.MDSWriter", parse, storage)


def _shard(folder: str, values: Any, number: int) -> list[MdsShard]:
    """Return one shard of an index, as a compressed file and as a file that is not compressed.

    The compressed file is left out if the index names none.

    Args:
        folder: folder of the index.
        values: content of the index.
        number: number of the shard.

    Raises:
        ValueError: the index is not one of MDS, version 2.
    """
    told, where = values["shards"][number], f"shard {number}"
    version = (
        values.get("version")
        if not isinstance(told, dict)
        else told.get("version", values.get("version"))
    )
    if (value_of(told, "format", str, where), version) != ("mds", 2):
        raise ValueError(
            f"{where} has format {short_repr(told['format'])} and version {short_repr(version)}, "
            "but only format 'mds' with version 2 can be read"
        )
    plain = value_of(told, "raw_data", dict, where)
    files = [(plain, "")]
    if told.get("zip_data") is not None:
        packed = value_of(told, "compression", str, where)
        files.insert(0, (value_of(told, "zip_data", dict, where), packed.partition(":")[0]))
    names, encodings, sizes = (
        tuple(value_of(told, f"column_{each}", list, where))
        for each in ("names", "encodings", "sizes")
    )
    if not len(names) == len(encodings) == len(sizes) or not all(
        isinstance(each, str) for each in names + encodings
    ):
        raise ValueError(f"{where} must have a name, an encoding and a size for each column")
    for size in sizes:
        if size is not None and (type(size) is not int or size < 0):
            raise ValueError(
                f"{where} has a column of size {short_repr(size)}, but a size must be a whole "
                "number of at least 0, or null"
            )
    return [
        MdsShard(
            file_in(folder, value_of(file, "basename", str, where)),
            number_of(told, "samples", where),
            names,
            encodings,
            sizes,
            compression,
            number_of(plain, "bytes", where),
            number_of(file, "bytes", where),
        )
        for file, compression in files
    ]


def sample_of(data: Bytes, shard: MdsShard, decoders: dict[str, Decoder]) -> dict[str, Any]:
    """Return one sample of a shard.

    Args:
        data: bytes of the sample, `uint8[bytes]`.
        shard: the shard.
        decoders: for each column that is wanted, by name, the function that decodes its bytes.

    Raises:
        ValueError, IndexError, ArithmeticError: the shard is damaged.
        Exception: whatever a decoder raises.
    """
    varying = sum(size is None for size in shard.sizes)
    if 4 * varying > len(data):
        raise ValueError(
            f"the sample is cut off or damaged: it has {len(data)} bytes, but the sizes of its "
            f"columns alone need {4 * varying} bytes"
        )
    told = iter(data[: 4 * varying].view("<u4").tolist())
    at, found = 4 * varying, dict[str, Any]()
    for name, size in zip(shard.names, shard.sizes):
        stop = at + (next(told) if size is None else size)
        if stop > len(data):
            raise ValueError(
                f"the sample is cut off or damaged: it has {len(data)} bytes, but its column "
                f"{short_repr(name)} needs more"
            )
        if name in decoders:
            found[name] = decoders[name](data[at:stop].tobytes())
        at = stop
    return found


def decoder_of(name: str, encoding: str, allow_pickle: bool) -> Decoder:
    """Return the function that decodes the bytes of a column.

    Args:
        name: name of the column, for messages.
        encoding: its encoding.
        allow_pickle: True accepts columns of pickled objects.

    Raises:
        SourceError: the encoding is not known, or is "pkl" and `allow_pickle` is False.
    """
    kind = encoding.partition(":")[0]
    if array := _ARRAY.fullmatch(encoding):
        return _array_decoder(array[1] or "", array[2] or "")
    if kind == "pkl":
        return pickle_decoder(f"column {short_repr(name)}", allow_pickle)
    if kind in _SCALARS:
        dtype = np.dtype(kind).newbyteorder("<")
        return lambda data: np.frombuffer(data, dtype)[0]
    if kind not in _DECODERS:
        raise SourceError(
            f"column {short_repr(name)} has the encoding {short_repr(encoding)}, which is not one "
            f"of {first_few([*_DECODERS, *_SCALARS], 40)}, ndarray, ndarray:dtype and "
            "ndarray:dtype:shape. Name only other columns in columns=."
        )
    return _DECODERS[kind]


_SCALARS = tuple(
    f"{kind}{bits}"
    for kind in ("uint", "int", "float")
    for bits in (8, 16, 32, 64)
    if kind + str(bits) != "float8"
)

_ARRAY = re.compile(rf"ndarray(?::({'|'.join(_SCALARS)})(?::([0-9]+(?:,[0-9]+)*))?)?")
"""Encodings of arrays, with their dtype and shape."""

_DTYPES = {
    bits | code: f"{kind}{bits}"
    for bits in (8, 16, 32, 64)
    for code, kind in enumerate(("uint", "int", "float"))
}
"""dtype of an array by the number in its bytes."""


def _array_decoder(dtype: str = "", shape: str = "") -> Decoder:
    """Return the decoder of arrays of a dtype, such as "int32", and a shape, such as "2,3".

    If one of them is empty, the bytes of each array contain it.
    """
    fixed = tuple(map(int, shape.split(","))) if shape else None

    def decode(data: bytes) -> Any:
        at, kind = (0, dtype) if dtype else (1, _DTYPES[data[0]])
        sizes = fixed
        if sizes is None:
            axes, width = data[at] >> 2, 1 << data[at] % 4
            stop = at + 1 + axes * width
            sizes = tuple(np.frombuffer(data[at + 1 : stop], f"<u{width}").tolist())
            at = stop
        return np.frombuffer(data, np.dtype(kind).newbyteorder("<"), offset=at).reshape(sizes)

    return decode


_DECODERS: dict[str, Decoder] = {
    "bytes": unchanged,
    "str": bytes.decode,
    "int": lambda data: int.from_bytes(data, "little", signed=True),
    "str_int": lambda data: int(data.decode()),
    "str_float": lambda data: float(data.decode()),
    "str_decimal": lambda data: Decimal(data.decode()),
    "json": json.loads,
    "jpeg": unchanged,
    "png": unchanged,
    "pil": pixels_of,
    "jpeg_array": list_decoder(unchanged, 0),
    "jpegarray": list_decoder(unchanged, 0),
    "list[jpeg]": list_decoder(unchanged, 4),
    "list[png]": list_decoder(unchanged, 4),
    "list[pil]": list_decoder(pixels_of, 4),
}
