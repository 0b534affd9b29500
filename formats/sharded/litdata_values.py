"""The values of LitData chunks: bytes of a leaf → its value, by the leaf's encoding."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from ...common.messages import first_few, short_repr
from ...errors import SourceError
from ..damage import damaged
from .encodings import Decoder, list_decoder, pickle_decoder, pixels_of, unchanged


def litdata_decoder(place: str, encoding: str, allow_pickle: bool) -> Decoder:
    """Return the function that decodes the bytes of a leaf.

    Args:
        place: name of the leaf, for messages.
        encoding: its encoding, such as "int" or "no_header_numpy:3".
        allow_pickle: True accepts leaves of pickled objects.

    Raises:
        SourceError: the encoding is not known, or has pickles and `allow_pickle` is False.
    """
    kind, _, detail = encoding.partition(":")
    if kind in ("no_header_numpy", "no_header_tensor"):
        dtypes = NUMPY_DTYPES if kind == "no_header_numpy" else TORCH_DTYPES
        dtype = dtypes.get(int(detail)) if detail.isdecimal() else None
        if dtype is not None:
            stored = np.dtype(dtype).newbyteorder("<")
            return lambda data: np.frombuffer(data, stored)
    elif kind == "pickle":
        return pickle_decoder(place, allow_pickle)
    elif kind in _DECODERS:
        return _DECODERS[kind]
    elif kind in _FILES:
        return unchanged
    raise SourceError(
        f"{place} has the encoding {short_repr(encoding)}, which is not one of "
        f"{first_few([*_DECODERS, *_FILES], 40)}, no_header_numpy and no_header_tensor of a known "
        "dtype. If samples are dicts, name only other columns in columns=; otherwise write them "
        "without this encoding."
    )


_NUMPY_NAMES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
)

NUMPY_DTYPES: dict[int, str] = dict(enumerate(_NUMPY_NAMES))
"""dtype of a NumPy array by its number in LitData."""

TORCH_DTYPES: dict[int, str] = {
    number: dtype
    for numbers, dtype in (
        ((0, 1), "float32"),
        ((2, 3), "float64"),
        ((4, 5), "complex64"),
        ((6, 7), "complex128"),
        ((8, 9), "float16"),
        ((11,), "uint8"),
        ((12,), "int8"),
        ((13, 14), "int16"),
        ((15, 16), "int32"),
        ((17, 18), "int64"),
        ((19,), "bool"),
        ((20,), "uint16"),
    )
    for number in numbers
}
"""Dtype of a PyTorch tensor by its number in LitData. (10, bfloat16, cannot be written.)."""


def _array(data: bytes, order: str, dtypes: dict[int, str]) -> Any:
    """Return an array that begins with dtype, number of axes and shape.

    These are integers of 4 bytes in the byte order `order`.
    """
    code, axes = struct.unpack_from(f"{order}II", data)
    if code not in dtypes:
        damaged(f"an array has dtype number {code}, which is unknown")
    shape = struct.unpack_from(f"{order}{axes}I", data, 8)
    return np.frombuffer(
        data, np.dtype(dtypes[code]).newbyteorder("<"), offset=8 + 4 * axes
    ).reshape(shape)


def _tensor(data: bytes) -> Any:
    """Return a tensor.

    Old versions wrote small integers first, new ones last; the number of a dtype is from 1 to 20.
    """
    return _array(data, "<" if data[0] else ">", TORCH_DTYPES)


def _integer(data: bytes) -> int:
    _check_size(data, 8)
    return int.from_bytes(data, "little", signed=True)


def _number(data: bytes) -> float:
    number: float = struct.unpack("<d", data)[0]
    return number


def _truth(data: bytes) -> bool:
    _check_size(data, 1)
    return data[0] != 0


def _check_size(data: bytes, size: int) -> None:
    if len(data) != size:
        damaged(f"a value has {len(data)} bytes, not {size}")


def nested_value(data: bytes) -> Any:
    """Return a list or dict that LitData has stored as one leaf.

    It is JSON, or a tree whose nodes begin with their kind.
    """
    if data and data[0] > _LAST_KIND:
        return json.loads(data)
    return _Nested(data).value()


_LAST_KIND = 0x20
"""Kinds are at most this. Text of JSON begins with a larger byte."""


class _Nested:
    """Reads a nested value from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def value(self) -> Any:
        """Return the next value."""
        kind = self._byte()
        if kind in _SIMPLE:
            return getattr(self, _SIMPLE[kind])()
        count = self._count()
        if kind == 0:
            return json.loads(self._bytes(count))
        if kind == 1:
            return [self._text() for _ in range(count)]
        if kind in (2, 3):
            return np.frombuffer(self._bytes(8 * count), "<i8" if kind == 2 else "<f8").tolist()
        if kind == 4:
            return [each != 0 for each in self._bytes(count)]
        if kind == 5:
            return {self._text(): self.value() for _ in range(count)}
        if kind != 6:
            damaged(f"a nested value has the kind {kind}, which is unknown")
        names = [self._text() for _ in range(self._count())]
        return [{name: self._field() for name in names} for _ in range(count)]

    def _field(self) -> Any:
        kind = self._byte()
        if kind not in _FIELDS:
            damaged(f"a field of a nested value has the kind {kind}, which is unknown")
        return getattr(self, _FIELDS[kind])()

    def _bytes(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            damaged(f"a nested value needs {size} bytes, but {len(found)} are left")
        self._at += size
        return found

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _count(self) -> int:
        return int.from_bytes(self._bytes(4), "little")

    def _text(self) -> str:
        return self._bytes(self._count()).decode()

    def _whole(self) -> int:
        return _integer(self._bytes(8))

    def _float(self) -> float:
        return _number(self._bytes(8))

    def _bool(self) -> bool:
        return self._byte() != 0

    def _none(self) -> None:
        return None


_SIMPLE = {7: "_text", 8: "_whole", 9: "_float", 10: "_bool", 11: "_none"}
_FIELDS = {0x10: "_none", 0x11: "_text", 0x12: "_whole", 0x13: "_float", 0x14: "_bool"}

_DECODERS: dict[str, Decoder] = {
    "str": bytes.decode,
    "text": bytes.decode,
    "bool": _truth,
    "int": _integer,
    "float": _number,
    "bytes": unchanged,
    "json": nested_value,
    "numpy": lambda data: _array(data, "<", NUMPY_DTYPES),
    "tensor": _tensor,
    "pil": pixels_of,
    "jpeg": unchanged,
    "jpeg_array": list_decoder(unchanged, 0),
}

_FILES = ("image", "video", "audio", "file", "tiff", "tifffile", "pdf", "mesh", "nifti")
"""Encodings whose values are the bytes of a file."""
