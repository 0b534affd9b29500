"""Steps between reading and writing a record, and plain values that identify them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ..common.identity.values import described, digest
from ..common.messages import short_repr, shorten
from ..errors import ConversionError, HeadraceError, StopIterationError

Step: TypeAlias = Callable[[Any], Any]


def raised_at(error: Exception, where: str) -> NoReturn:
    """Raise an error with the place of its record. A user's error stays the same, with a note."""
    if isinstance(error, HeadraceError):
        raise type(error)(f"{where}: {shorten(error, 400)}") from error
    if isinstance(error, StopIteration):  # it would end whoever reads the records
        raise StopIterationError(
            f"{where}: transform= or encode= raised StopIteration; give next(…) a default, or use a loop."
        ) from error
    error.add_note(f"at {where}")
    raise error


def decode_example(record: Any) -> Any:
    """Decode a serialised `tf.train.Example`."""
    from ..formats.example import decode_example as decode

    return decode(_bytes(record, "example"))


def decode_json(record: Any) -> Any:
    """Decode JSON text."""
    try:
        return json.loads(_bytes(record, "json"))
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"a record is no JSON: {shorten(error)}; it begins {short_repr(record)}.") from error


DECODERS: dict[str, Step] = {"example": decode_example, "json": decode_json}


def _bytes(record: Any, name: str) -> Any:
    if isinstance(record, (bytes, bytearray, memoryview, str)):
        return record
    raise ConversionError(
        f'decode="{name}" is for records of bytes, and one is a {type(record).__name__} ({short_repr(record)}); '
        "leave decode= out."
    )


def identity_of(function: Any) -> Any:
    """Return plain values that identify a function by its values and its code. Names are returned unchanged.

    Unlike in a loader's state, code counts: files made by two versions of a function must not be mixed.

    >>> one, same, other = map(identity_of, (lambda x: x + 1, lambda x: x + 1, lambda x: x + 2))
    >>> one == same, one == other
    (True, False)
    """
    if function is None or isinstance(function, str):
        return function
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return digest([described(function), _code(code)], 16)


def _code(value: Any) -> Any:
    """Describe code in plain values, without line numbers."""
    if isinstance(value, CodeType):
        return [value.co_code.hex(), list(value.co_names), [_code(constant) for constant in value.co_consts]]
    if isinstance(value, (tuple, frozenset)):
        found = [_code(item) for item in value]
        return found if isinstance(value, tuple) else sorted(map(repr, found))
    return repr(value)


class SingleNumbers:
    """Step that takes single numbers out of their arrays. An example contains arrays only, also for a label.

    Args:
        records: the first records. A field that has one number in each of them is expected to have one in all records.
    """

    def __init__(self, records: Sequence[Any]) -> None:
        found = [(name, value) for record in records if isinstance(record, dict) for name, value in record.items()]
        several = {name for name, value in found if not _is_single(value)}
        self._names = [name for name in dict.fromkeys(name for name, _ in found) if name not in several]

    def __call__(self, record: Any) -> Any:
        if not isinstance(record, dict):
            return record
        single = {name: record[name][0] for name in self._names if name in record and _is_single(record[name])}
        return {**record, **single}


def _is_single(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.shape == (1,)
