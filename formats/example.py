"""Decode and encode `tf.train.Example` without TensorFlow.

    Example {features: 1 → Features {feature: 1 → {key: 1, value: 2 → Feature}}}
    Feature {bytes_list: 1 | float_list: 2 | int64_list: 3 → {value: 1, repeated; numbers packed or not}}

Formats: https://protobuf.dev/programming-guides/encoding, https://github.com/tensorflow/tensorflow (core/example).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..common.messages import first_few, short_repr, shorten
from ..errors import SourceError


class Convert(Protocol):
    """Protocol of a function that converts a feature to the type that the user requested."""

    __qualname__: str

    def __call__(self, name: str, value: Any, /) -> Any: ...


# The bytes are parsed here, because a protobuf library returns numbers one by one, and arrays are wanted.
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3
_VARINT, _EIGHT_BYTES, _DELIMITED, _FOUR_BYTES = 0, 1, 2, 5
_MOST = np.iinfo(np.int64).max
_FEW = 12
"""Maximum number of bytes of varints, or of numbers, that are processed one by one instead of by NumPy."""


def decode_example(data: bytes, features: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Decode the features of an example to a dict.

    Args:
        data: a serialised `tf.train.Example`.
        features: the features to return, each with its type: `bytes` (exactly one value), `list` (any number of byte
            strings), a dtype (exactly one number, as a NumPy scalar), or `(dtype, shape)`, in which one length may be None.
            Default: all features; numbers as read-only arrays with one axis, `int64` or `float32`; one byte string as
            `bytes`, several as a list; a feature without values and type as an empty list.

    Raises:
        SourceError: `data` is not an example; a feature is missing or does not match its type; or a number does not fit its
            dtype.
        TypeError: `features` has an unknown type.

    >>> data = encode_example({"image": b"...", "label": 3, "box": [0.5, 1.0]})
    >>> decode_example(data)
    {'image': b'...', 'label': array([3]), 'box': array([0.5, 1. ], dtype=float32)}
    >>> decode_example(data, {"label": np.int32, "box": (np.float32, (1, 2))})
    {'label': np.int32(3), 'box': array([[0.5, 1. ]], dtype=float32)}
    """
    return Decoder(features)(data)


class Decoder:
    """Function that decodes examples with fixed `features`; see `decode_example`.

    Raises:
        TypeError: `features` is not a dict, or has an unknown type.
    """

    _converts: dict[str, Convert] | None

    def __init__(self, features: Mapping[str, Any] | None = None) -> None:
        if features is not None and not isinstance(features, Mapping):
            raise TypeError(
                f'features={short_repr(features)} is not a dict. Pass a dict, such as {{"image": '
                'bytes, "label": np.int64}.'
            )
        self._converts = None
        if features is not None:
            self._converts = {name: _convert(name, wanted) for name, wanted in features.items()}

    def __call__(self, data: bytes) -> dict[str, Any]:
        found, converts = _features(data), self._converts
        if converts is None:
            return {name: _alone(value) for name, value in found.items()}
        missing = [name for name in converts if name not in found]
        if missing:
            raise SourceError(
                f"the example has no feature {first_few(missing)}. Its features are "
                f"{first_few(sorted(found), 8)}. Name only these in features=."
            )
        return {name: convert(name, found[name]) for name, convert in converts.items()}

    @property
    def described(self) -> list[list[str]] | None:
        """JSON values that describe the requested features and their types, for a fingerprint; None for all features."""
        converts = self._converts
        return None if converts is None else [[name, convert.__qualname__] for name, convert in converts.items()]


def _alone(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _convert(name: str, wanted: Any) -> Convert:
    if wanted is bytes:
        return _one_bytes
    if wanted is list:
        return _all_bytes
    dtype, shape = wanted if isinstance(wanted, tuple) and len(wanted) == 2 else (wanted, None)
    try:
        return _Numbers(np.dtype(dtype), None if shape is None else tuple(-1 if n is None else int(n) for n in shape))
    except (TypeError, ValueError):
        raise TypeError(
            f"features[{short_repr(name)}]={short_repr(wanted)} is not a feature type. Pass bytes, list (of "
            "bytes), a dtype, or (dtype, shape)."
        ) from None


def _all_bytes(name: str, value: Any) -> list[bytes]:
    if isinstance(value, list):
        return value
    raise SourceError(
        f"feature {short_repr(name)} contains numbers ({value.dtype}), not bytes. Pass its dtype, "
        f"features={{{short_repr(name)}: np.{value.dtype}}}."
    )


def _one_bytes(name: str, value: Any) -> bytes:
    several = _all_bytes(name, value)
    if len(several) != 1:
        raise SourceError(
            f"feature {short_repr(name)} contains {len(several)} byte strings, not one. Pass "
            f"features={{{short_repr(name)}: list}} to get all of them."
        )
    return several[0]


class _Numbers:
    """Function that converts a feature to one number of a dtype, or to an array of a shape."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> None:
        if dtype.kind not in "biuf":
            raise TypeError(dtype)
        self._dtype, self._shape = dtype, shape
        self.__qualname__ = f"{dtype.str}{'' if shape is None else list(shape)}"

    def __call__(self, name: str, value: Any) -> Any:
        if isinstance(value, list) and value:
            raise SourceError(
                f"feature {short_repr(name)} contains bytes, not numbers. Pass "
                f"features={{{short_repr(name)}: bytes}}, or list for several byte strings."
            )
        numbers = self._exact(name, np.asarray(value))
        if self._shape is None and len(numbers) == 1:
            return numbers[0]
        try:
            return numbers.reshape(() if self._shape is None else self._shape)
        except ValueError:
            wanted = "one" if self._shape is None else f"the shape {shorten(self._shape)}"
            raise SourceError(
                f"feature {short_repr(name)} contains {len(numbers)} numbers, not {wanted}. Pass a "
                f"dtype with the shape, features={{{short_repr(name)}: (np.{self._dtype}, "
                f"({len(numbers)},))}}."
            ) from None

    def _exact(self, name: str, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return numbers in the requested dtype. Floats may be rounded, but must stay finite; integers must not change.

        Raises:
            SourceError: the dtype cannot hold a number.
        """
        if stored.dtype == self._dtype:
            return stored
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = stored.astype(self._dtype)
        wrong = np.isinf(numbers) & ~np.isinf(stored) if self._dtype.kind == "f" else numbers != stored
        if wrong.any():
            value, stored_dtype = stored[np.argmax(wrong)], "np.float32" if stored.dtype.kind == "f" else "np.int64"
            raise SourceError(
                f"feature {short_repr(name)} contains the number {value}, which does not fit "
                f"{self._dtype}. In features=, pass the dtype in which the feature is stored, {stored_dtype}, "
                f"in place of {self._dtype}."
            )
        return numbers


def _features(data: bytes) -> dict[str, Any]:
    try:
        return dict(
            _entry(data, first, end)
            for start, stop in _only(data, 0, len(data))
            for first, end in _only(data, start, stop)
        )
    except (LookupError, ValueError) as error:
        raise SourceError(
            f"{len(data)} bytes, which begin with {short_repr(data[:16])}, are not a tf.train.Example. Leave "
            'features= out (for a source), or decode="example" (for a conversion).'
        ) from error


def _entry(data: bytes, start: int, stop: int) -> tuple[str, Any]:
    """Return `(name, value)` of one feature. Without values, it is `(name, [])`, because TensorFlow then writes no type."""
    name, value = "", []
    for number, _, first, end in _fields(data, start, stop):
        if number == 1:
            name = data[first:end].decode()
        else:
            for kind, _, inner, last in _fields(data, first, end):
                value = _READ[kind](data, inner, last)
    return name, value


def _bytes(data: bytes, start: int, stop: int) -> list[bytes]:
    return [data[first:end] for first, end in _only(data, start, stop)]


def _floats(data: bytes, start: int, stop: int) -> npt.NDArray[np.float32]:
    pieces = [data[first:end] for _, _, first, end in _fields(data, start, stop)]
    return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), "<f4")


def _integers(data: bytes, start: int, stop: int) -> npt.NDArray[np.int64]:
    pieces = [data[first:end] for _, _, first, end in _fields(data, start, stop)]
    numbers = _varints(pieces[0] if len(pieces) == 1 else b"".join(pieces))
    numbers.flags.writeable = False
    return numbers


_READ: dict[int, Callable[[bytes, int, int], Any]] = {_BYTES: _bytes, _FLOATS: _floats, _INTEGERS: _integers}


def _only(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield `(start, stop)` of each value of field 1.

    Raises:
        ValueError: there is another field or wire type.
    """
    for number, kind, first, end in _fields(data, start, stop):
        if (number, kind) != (1, _DELIMITED):
            raise ValueError(number)
        yield first, end


def _fields(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield `(number, wire type, start, stop)` of each field of a message.

    Raises:
        ValueError: the message is damaged.
    """
    while start < stop:
        key, start = _varint(data, start)
        kind, end = key & 7, start
        if kind == _DELIMITED:
            size, start = _varint(data, start)
            end = start + size
        elif kind == _VARINT:
            _, end = _varint(data, start)
        else:
            end += _FIXED[kind]
        if end > stop:
            raise ValueError(end)
        yield key >> 3, kind, start, end
        start = end


_FIXED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode the varint at a position. Return its value, and the position after it.

    A varint has seven bits in each byte, the lowest first. The eighth bit means that another byte follows.

    Raises:
        ValueError: it has more than 64 bits.
    """
    value = shift = 0
    while (byte := data[at]) > 127:
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if shift > 63:
            raise ValueError(shift)
    return value | byte << shift, at + 1


def _varints(data: bytes) -> npt.NDArray[np.int64]:
    if len(data) <= _FEW:
        numbers, at = [], 0
        while at < len(data):
            number, at = _varint(data, at)
            numbers.append(number)
        return np.array(numbers, np.uint64).view(np.int64)
    raw = np.frombuffer(data, np.uint8)
    last = np.flatnonzero(raw < 128)
    if len(last) == len(raw):
        return raw.astype(np.int64)
    if last[-1:] != len(raw) - 1:
        raise ValueError(len(raw))
    firsts = np.concatenate(([0], last[:-1] + 1))
    place = np.arange(len(raw)) - np.repeat(firsts, last - firsts + 1)
    if place.max() > 9:
        raise ValueError(len(raw))
    return np.add.reduceat((raw & 127).astype(np.uint64) << (7 * place).astype(np.uint64), firsts).view(np.int64)


def encode_example(record: Mapping[str, Any]) -> bytes:
    r"""Encode a dict as a `tf.train.Example`, in the order of the dict.

    Args:
        record: features by name: bytes, strings or numbers; one, a list or an array. Arrays are flattened. Integers and
            booleans become `int64`, other numbers `float32`.

    Raises:
        TypeError: a name is not a string; a value has another type, or is an integer that does not fit `int64`.

    >>> encode_example({"x": [1, 2]})
    b'\n\r\n\x0b\n\x01x\x12\x06\x1a\x04\n\x02\x01\x02'
    """
    entries = (_field(_field(_name(name)) + _field(_feature(name, value), 2)) for name, value in record.items())
    return _field(b"".join(entries))


def _name(name: Any) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"the feature name {short_repr(name)} is not a string. Rename the feature.")
    return name.encode()


def _feature(name: str, value: Any) -> bytes:
    several = [value] if isinstance(value, (bytes, str)) else value
    if isinstance(several, np.ndarray) and several.dtype.kind not in "biuf":  # texts, or objects
        several = several.ravel().tolist()
    if isinstance(several, (list, tuple)) and several and all(isinstance(item, (bytes, str)) for item in several):
        texts = (item.encode() if isinstance(item, str) else item for item in several)
        return _field(b"".join(map(_field, texts)), _BYTES)
    try:
        numbers = np.asarray(several).reshape(-1)
    except ValueError:  # lists of different lengths
        numbers = np.empty(0, object)
    if numbers.dtype.kind == "f":
        return _field(_field(numbers.astype("<f4").tobytes()), _FLOATS)
    if numbers.dtype.kind in "biu" and not (numbers.size and numbers.max() > _MOST):
        return _field(_field(_written(numbers)), _INTEGERS)
    raise TypeError(
        f"feature {short_repr(name)}={short_repr(value)} cannot be stored. Pass bytes, strings, integers "
        "of int64, floats, or arrays of these."
    )


def _field(content: bytes, number: int = 1) -> bytes:
    return _number(number << 3 | _DELIMITED) + _number(len(content)) + content


def _written(numbers: npt.NDArray[Any]) -> bytes:
    if not len(numbers) or (numbers.min() >= 0 and numbers.max() < 128):
        return numbers.astype(np.uint8).tobytes()
    values = numbers.astype(np.int64).view(np.uint64)
    if len(values) <= _FEW:
        return b"".join(map(_number, values.tolist()))
    sizes = 1 + sum((values >= np.uint64(1 << bits)).astype(np.int64) for bits in range(7, 64, 7))
    ends = np.cumsum(sizes)
    place = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    sevens = np.repeat(values, sizes) >> (7 * place).astype(np.uint64) & np.uint64(127)
    more = (place < np.repeat(sizes, sizes) - 1).astype(np.uint8) << 7
    return (sevens.astype(np.uint8) | more).tobytes()


def _number(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
