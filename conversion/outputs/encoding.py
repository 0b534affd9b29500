"""Encode records as bytes that depend only on the record and the options."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ...common.messages import a_kind_of, short_repr, shorten
from ...errors import ConversionError
from ..job import Output

Encode: TypeAlias = Callable[[Any], bytes]


class Encoding(Output):
    """Base class of output formats whose records are bytes.

    Args:
        encode: how records that are not bytes are encoded: "example", "json", or a function, which
            is then applied to all records.
        encode_identity: JSON values that identify the function.
    """

    def __init__(self, encode: str | Encode, encode_identity: Any) -> None:
        self._encode = encode if callable(encode) else _ENCODERS[encode]
        self.encode_identity = encode_identity

    def encode(self, records: list[Any]) -> list[bytes]:
        if self._encode in _ENCODERS.values() and set(map(type, records)) <= {bytes}:
            return records  # as they leave them
        return [_checked(self._encode(record)) for record in records]


def _checked(encoded: Any) -> bytes:
    if isinstance(encoded, (bytes, bytearray, memoryview)):
        return bytes(encoded)
    raise ConversionError(
        f"encode= returned {a_kind_of(encoded)} ({short_repr(encoded)}). Return bytes from this "
        "function."
    )


def as_example(record: Any) -> bytes:
    """Return a record as bytes.

    Text becomes UTF-8, an array or a NumPy number a `.npy` file, and a dict a `tf.train.Example`.

    Bytes are unchanged. Values of a dict that are None are left out.

    Raises:
        ConversionError: the record is something else, or an array of Python objects; or a value in
            a dict cannot be a feature, such as an array with several axes.

    >>> as_example("a"), len(as_example(np.arange(3, dtype=np.uint8)))
    (b'a', 131)
    """
    if isinstance(record, (bytes, bytearray, memoryview)):
        return bytes(record)
    if isinstance(record, str):
        return record.encode()
    if isinstance(record, (np.ndarray, np.generic)):
        if record.dtype.hasobject:
            raise ConversionError(
                f"a record is an array of Python objects ({short_repr(record)}), which .npy files "
                "do not store. Pass transform=, a function that gives it another dtype, such as "
                "record.astype(np.int32), or encode=, a function "
                'that turns a record into bytes, or encode="json".'
            )
        file = io.BytesIO()
        np.save(file, record, allow_pickle=False)
        return file.getvalue()
    if isinstance(record, Mapping):
        return _example(record)
    if record is None:
        raise ConversionError(
            "a record is None. Pass transform=, a function that returns a value for each record. "
            "If you pass one, check that it has a return statement."
        )
    raise ConversionError(
        f"a record is {a_kind_of(record)} ({short_repr(record)}), but the format stores bytes. "
        "Pass "
        'encode=, a function that turns a record into bytes, or encode="json".'
    )


def _example(record: Mapping[str, Any]) -> bytes:
    from ...formats.example_writer import encode_example

    for name, value in record.items():
        if _has_axes(value):
            raise ConversionError(
                f"{short_repr(name)} is an array with several axes, but tf.train.Example does not "
                "store shapes. Pass encode=, a function that turns a record into bytes, or pass "
                "transform=, a function that flattens the array."
            )
    try:
        return encode_example({name: value for name, value in record.items() if value is not None})
    except (TypeError, UnicodeError) as error:
        raise ConversionError(
            f'{shorten(error)}. Or pass encode="json", or encode=, a function that turns a record '
            "into bytes."
        ) from error


def _has_axes(value: Any) -> bool:
    """Return True if a value has several axes.

    An image of Pillow has, because NumPy converts it to an array.
    """
    if isinstance(value, (list, tuple)):
        return bool(value) and isinstance(value[0], (list, tuple))
    axes = getattr(value, "ndim", None)
    return bool(
        (np.ndim(value) if axes is None and hasattr(value, "__array_interface__") else axes or 0)
        > 1
    )


def as_json(record: Any) -> bytes:
    """Return a value as JSON in UTF-8. Bytes are unchanged.

    Raises:
        ConversionError: an object in the value, or the key of a dict in it, cannot be JSON; or the
            value contains itself.

    >>> as_json({"x": np.float64(0.5), "t": [np.int8(1)], "a": np.arange(2)})
    b'{"x":0.5,"t":[1],"a":[0,1]}'
    """
    if isinstance(record, (bytes, bytearray, memoryview)):
        return bytes(record)
    try:
        return json.dumps(
            record, default=_plain, ensure_ascii=False, separators=(",", ":")
        ).encode()
    except (
        UnicodeEncodeError
    ):  # half of a surrogate pair, which JSON has as \ud83d and UTF-8 has not
        return json.dumps(record, default=_plain, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConversionError(
            f"{a_kind_of(record)} ({short_repr(record)}) cannot be written as JSON: "
            f"{shorten(error)}. Pass transform=, a function that returns values that JSON has (the "
            "keys of dicts are texts), or encode=, a function that turns a record into bytes."
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise ConversionError(
        f"{a_kind_of(value)} ({short_repr(value)}) cannot be written as JSON. Pass encode=, a "
        "function that turns a record into bytes."
    )


_ENCODERS: dict[str, Encode] = {"example": as_example, "json": as_json}
