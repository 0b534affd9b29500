"""Read the messages `tf.train.Example` and `tf.train.SequenceExample`.

In: bytes. Out: values of features by name.

    Example {features: 1 → Features}
    SequenceExample {context: 1 → Features, feature_lists: 2 → {feature_list: 1 → {key: 1, value: 2
    → FeatureList}}} Features {feature: 1 → {key: 1, value: 2 → Feature}} FeatureList {feature: 1 →
    Feature, repeated} Feature {bytes_list: 1 | float_list: 2 | int64_list: 3 → {value: 1, repeated;
    numbers packed or not}}

Formats: https://protobuf.dev/programming-guides/encoding, https://github.com/tensorflow/tensorflow
(core/example).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.messages import short_repr
from ..errors import SourceError

# The bytes are parsed here, because a protobuf library returns numbers one by one, and arrays are
# wanted.
BYTES, FLOATS, INTEGERS = 1, 2, 3
"""Field numbers of the lists of a feature."""

DELIMITED = 2
"""Wire type of a field that begins with its length."""

FEW = 12
"""Largest number of bytes of varints, or of numbers, for which NumPy is not used."""

_VARINT, _EIGHT_BYTES, _FOUR_BYTES = 0, 1, 5


class Found(NamedTuple):
    """Stored values of an example, by name.

    A value is an array with one axis, or a list of byte strings.
    """

    features: dict[str, Any]
    """Value of each feature. A feature that was written without a value is an empty list."""
    sequences: dict[str, list[Any]]
    """Feature lists of a `tf.train.SequenceExample`: the value of each step.

    Empty for a `tf.train.Example`.
    """


def read_example(data: bytes) -> Found:
    r"""Read a serialised `tf.train.Example` or `tf.train.SequenceExample`.

    Raises:
        SourceError: `data` is neither of them.

    >>> read_example(b"\n\r\n\x0b\n\x01x\x12\x06\x1a\x04\n\x02\x01\x02")
    Found(features={'x': array([1, 2])}, sequences={})
    """
    features: dict[str, Any] = {}
    sequences: dict[str, list[Any]] = {}
    try:
        for number, kind, start, stop in _fields(data, 0, len(data)):
            if kind != DELIMITED or number > 2:
                raise ValueError(number)
            for first, end in _only(data, start, stop):
                name, value_start, value_end = _entry(data, first, end)
                if number == 1:
                    features[name] = _feature(data, value_start, value_end)
                else:
                    sequences[name] = [
                        _feature(data, *step) for step in _only(data, value_start, value_end)
                    ]
    except (LookupError, ValueError) as error:
        raise SourceError(
            f"{len(data)} bytes, which begin with {short_repr(data[:16])}, are not a "
            "tf.train.Example, or are damaged. Pass the bytes of an example. For records of "
            "another kind, leave out decode=, features= and sequences= of a source, "
            'or pass decode="bytes" to a conversion.'
        ) from error
    return Found(features, sequences)


def _entry(data: bytes, start: int, stop: int) -> tuple[str, int, int]:
    """Return the name of one entry of a map, and the beginning and the end of its value."""
    name, value_start, value_end = "", 0, 0
    for number, _, first, end in _fields(data, start, stop):
        if number == 1:
            name = data[first:end].decode()
        else:
            value_start, value_end = first, end
    return name, value_start, value_end


def _feature(data: bytes, start: int, stop: int) -> Any:
    """Return the value of one feature.

    Without values, it is `[]`, because TensorFlow then writes no type.
    """
    value: Any = []
    for kind, _, first, end in _fields(data, start, stop):
        value = _READ[kind](data, first, end)
    return value


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


_READ: dict[int, Callable[[bytes, int, int], Any]] = {
    BYTES: _bytes,
    FLOATS: _floats,
    INTEGERS: _integers,
}


def _only(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield `(start, stop)` of each value of field 1.

    Raises:
        ValueError: there is another field or wire type.
    """
    for number, kind, first, end in _fields(data, start, stop):
        if (number, kind) != (1, DELIMITED):
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
        if kind == DELIMITED:
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

    A varint has seven bits in each byte, the lowest first. The eighth bit means that another byte
    follows.

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
    if len(data) <= FEW:
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
    return np.add.reduceat(
        (raw & 127).astype(np.uint64) << (7 * place).astype(np.uint64), firsts
    ).view(np.int64)
