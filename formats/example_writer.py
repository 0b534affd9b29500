"""Encode dicts as examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.messages import short_repr
from .feature_messages import BYTES, DELIMITED, FEW, FLOATS, INTEGERS

_MOST = np.iinfo(np.int64).max


def encode_example(record: Mapping[str, Any], sequences: Mapping[str, Any] | None = None) -> bytes:
    r"""Encode a dict as a `tf.train.Example`, or two dicts as a `tf.train.SequenceExample`.

    The features keep the order of the dicts.

    Args:
        record: features by name: bytes, strings or numbers; one, a list or an array. Arrays are
            flattened. Integers and booleans become `int64`, other numbers `float32`.
        sequences: feature lists by name, for a `tf.train.SequenceExample`: for each a list of
            steps, or an array whose first axis is the steps. A step is like a feature of `record`,
            and all steps of a list have the same kind of values. Default None: a
            `tf.train.Example`.

    Raises:
        TypeError: a name is not a string; a value has another type, or is an integer that does not
            fit `int64`; or feature lists are not lists of steps of one kind.

    >>> encode_example({"x": [1, 2]})
    b'\n\r\n\x0b\n\x01x\x12\x06\x1a\x04\n\x02\x01\x02'
    >>> from headrace import decode_example
    >>> decode_example(encode_example({"id": 7}, {"x": [[1, 2], [3, 4]], "words": ["a", "b"]}))
    {'id': array([7]), 'x': array([[1, 2],
           [3, 4]]), 'words': [b'a', b'b']}
    """
    entries = (
        _field(_field(_name(name)) + _field(_feature(name, value), 2))
        for name, value in record.items()
    )
    features = _field(b"".join(entries))
    if sequences is None:
        return features
    lists = (
        _field(_field(_name(name)) + _field(_feature_list(name, steps), 2))
        for name, steps in sequences.items()
    )
    return features + _field(b"".join(lists), 2)


def _feature_list(name: str, steps: Any) -> bytes:
    if not isinstance(steps, (list, tuple)) and not (isinstance(steps, np.ndarray) and steps.ndim):
        raise TypeError(
            f"sequences[{short_repr(name)}]={short_repr(steps)} is not a list of steps. Pass a "
            "list with the value of each step, or a NumPy array whose first axis is the steps."
        )
    # An empty step has no type: TensorFlow then takes the type of the other steps.
    written = [b"" if np.size(step) == 0 else _feature(name, step) for step in steps]
    if len({feature[0] for feature in written if feature}) > 1:
        raise TypeError(
            f"sequences[{short_repr(name)}]={short_repr(steps)} has steps of different kinds. Pass "
            "only byte strings, only integers or only floats, such as arrays of one dtype."
        )
    return b"".join(map(_field, written))


def _name(name: Any) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"the feature name {short_repr(name)} is not a string. Rename the feature.")
    return name.encode()


def _feature(name: str, value: Any) -> bytes:
    several = [value] if isinstance(value, (bytes, str)) else value
    if isinstance(several, np.ndarray) and several.dtype.kind not in "biuf":  # texts, or objects
        several = several.ravel().tolist()
    if (
        isinstance(several, (list, tuple))
        and several
        and all(isinstance(item, (bytes, str)) for item in several)
    ):
        texts = (item.encode() if isinstance(item, str) else item for item in several)
        return _field(b"".join(map(_field, texts)), BYTES)
    try:
        numbers = np.asarray(several).reshape(-1)
    except ValueError:  # lists of different lengths
        numbers = np.empty(0, object)
    if numbers.dtype.kind == "f":
        return _field(_field(numbers.astype("<f4").tobytes()), FLOATS)
    if numbers.dtype.kind in "biu" and not (numbers.size and numbers.max() > _MOST):
        return _field(_field(_written(numbers)), INTEGERS)
    raise TypeError(
        f"feature {short_repr(name)}={short_repr(value)} cannot be stored. Pass bytes, strings, "
        "integers of int64 or floats: one, or a list or NumPy array of one of these kinds."
    )


def _field(content: bytes, number: int = 1) -> bytes:
    return _number(number << 3 | DELIMITED) + _number(len(content)) + content


def _written(numbers: npt.NDArray[Any]) -> bytes:
    if not len(numbers) or (numbers.min() >= 0 and numbers.max() < 128):
        return numbers.astype(np.uint8).tobytes()
    values = numbers.astype(np.int64).view(np.uint64)
    if len(values) <= FEW:
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
