"""Steps between reading and writing a record, and values that identify these steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ..common.identity.values import described, digest
from ..common.messages import a_kind_of, short_repr, shorten
from ..errors import ConversionError, HeadraceError, StopIterationError
from ..loader.interrupts import code_of

Step: TypeAlias = Callable[[Any], Any]


def raised_at(error: Exception, where: str) -> NoReturn:
    """Raise an error again, with the place of the record in its message.

    An error of a user's function gets a note instead.

    Raises:
        HeadraceError: a new error of the same class, if `error` is one of ours.
        StopIterationError: a user's function raised StopIteration.
        Exception: `error` itself, with a note.
    """
    if isinstance(error, HeadraceError):
        raise type(error)(f"{where}: {shorten(error, 400)}.") from error
    if isinstance(error, StopIteration):  # it would end whoever reads the records
        raise StopIterationError(
            f"{where}: transform= or encode= raised StopIteration. In your function, pass a "
            "default value to next(), or use a loop."
        ) from error
    error.add_note(f"at {where}")
    raise error


def decode_example(record: Any) -> Any:
    """Return a serialised `tf.train.Example` as a dict of its features."""
    from ..formats.example import decode_example as decode

    return decode(_bytes(record, "example"))


def decode_json(record: Any) -> Any:
    """Return the value of a JSON text.

    Raises:
        ConversionError: the record is not JSON, or neither text nor bytes.
    """
    try:
        return json.loads(_bytes(record, "json"))
    except (ValueError, RecursionError) as error:
        raise ConversionError(
            f"a record is not valid JSON: {shorten(error)}. It begins with {short_repr(record)}. "
            'Leave decode="json" out, or correct the record.'
        ) from error


DECODERS: dict[str, Step] = {"example": decode_example, "json": decode_json}


def _bytes(record: Any, name: str) -> Any:
    if isinstance(record, (bytes, bytearray, memoryview, str)):
        return record
    raise ConversionError(
        f'decode="{name}" needs records of bytes or text, but a record is {a_kind_of(record)} '
        f"({short_repr(record)}). Leave decode= out."
    )


def identity_of(function: Any) -> Any:
    """Return a digest that identifies a function by its code and the values that it uses.

    Names and None are unchanged.

    Unlike in a checkpoint, the code counts: files that two versions of a function wrote must not be
    mixed.

    >>> one, same, other = map(identity_of, (lambda x: x + 1, lambda x: x + 1, lambda x: x + 2))
    >>> one == same, one == other
    (True, False)
    """
    if function is None or isinstance(function, str):
        return function
    return digest([described(function), _code(code_of(function))], 16)


def _code(value: Any) -> Any:
    """Return JSON values that describe compiled code, without line numbers."""
    if isinstance(value, CodeType):
        return [
            value.co_code.hex(),
            list(value.co_names),
            [_code(constant) for constant in value.co_consts],
        ]
    if isinstance(value, (tuple, frozenset)):
        found = [_code(item) for item in value]
        return found if isinstance(value, tuple) else sorted(map(repr, found))
    return repr(value)


class SingleNumbers:
    """Step that replaces arrays of one number by it, in fields that should have one number.

    The numbers of an example are in arrays, even a single label.

    Args:
        records: the first records. If a field has one number in each of them that has the field, it
            is expected to have one number in all records.
    """

    def __init__(self, records: Sequence[Any]) -> None:
        found = [
            (name, value)
            for record in records
            if isinstance(record, dict)
            for name, value in record.items()
        ]
        several = {name for name, value in found if not _is_single(value)}
        self._names = [
            name for name in dict.fromkeys(name for name, _ in found) if name not in several
        ]

    def __call__(self, record: Any) -> Any:
        if not isinstance(record, dict):
            return record
        single = {
            name: record[name][0]
            for name in self._names
            if name in record and _is_single(record[name])
        }
        return {**record, **single}


def _is_single(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.shape == (1,)
