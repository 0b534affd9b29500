"""Argument checks that many functions share."""

from __future__ import annotations

import operator
import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .messages import a_kind_of, short_repr

NUMBERS = (int, float, np.integer, np.floating)
"""Types of one real number."""


def whole_number(name: str, value: Any, low: int, high: int | None, remedy: str) -> int:
    """Return `value` as an int, after checking that it is a whole number in `[low, high]`.

    Args:
        name: name of the argument, for the error message.
        value: an int, or a NumPy integer.
        low: least allowed value.
        high: largest allowed value; None for no limit.
        remedy: what to pass instead, for the error message.

    Raises:
        TypeError: if `value` is not a whole number.
        ValueError: if `value` is outside the range.

    >>> whole_number("batch_size", 8, 1, None, "a positive int")
    8
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name}={short_repr(value)} is {a_kind_of(value)}. Pass {remedy}."
        ) from None
    if number < low or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"in [{low}, {_power(high)}]"
        raise ValueError(f"{name}={short_repr(value)} must be {limits}. Pass {remedy}.")
    return number


def whole_number_or_none(
    name: str, value: Any, low: int, high: int | None, remedy: str
) -> int | None:
    """Return None for None, and any other value as `whole_number` does, with its checks."""
    return None if value is None else whole_number(name, value, low, high, remedy)


def count_in_state(value: Any, least: int = 0, above: int = 1 << 63) -> int:
    """Return a number from a state; ValueError if it is not a whole number in `[least, above)`."""
    if type(value) is not int or not least <= value < above:
        raise ValueError
    return value


def array_of(values: Any) -> NDArray[Any]:
    """Return values as an array.

    A list of lists of unequal lengths, of which NumPy makes none, gives an array of these lists.

    >>> array_of([1, 2]), array_of([[1], [1, 2]])
    (array([1, 2]), array([list([1]), list([1, 2])], dtype=object))
    """
    try:
        return np.asarray(values)
    except ValueError:
        array = np.empty(len(values), object)
        for number, value in enumerate(values):
            array[number] = value
        return array


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the line of the user's program that called headrace.

    Args:
        message: text of the warning.
        category: class of the warning.
    """
    frame, level, ours = sys._getframe(1), 2, __name__.partition(".")[0]
    while (
        frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == ours
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def one_of(name: str, value: Any, *choices: str) -> Any:
    """Return `value`, after checking that it is one of the choices.

    Args:
        name: name of the argument, for the error message.
        value: the value.
        *choices: the allowed texts.

    Raises:
        ValueError: if `value` is not one of the choices.

    >>> one_of("on_error", "skip", "raise", "skip")
    'skip'
    """
    if isinstance(value, str) and value in choices:
        return value
    choices_in_quotes = " or ".join(f'"{choice}"' for choice in choices)
    raise ValueError(f"{name}={short_repr(value)} is not a known value. Use {choices_in_quotes}.")


def true_or_false(name: str, value: Any, remedy: str = "True or False") -> bool:
    """Return `value` as a bool, after checking that it is a bool of Python or NumPy.

    Args:
        name: name of the argument, for the error message.
        value: the value.
        remedy: what to pass instead, for the error message.

    Raises:
        TypeError: if `value` is not a bool.

    >>> true_or_false("drop_remainder", True)
    True
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{name}={short_repr(value)} is {a_kind_of(value)}. Pass {remedy}.")


def _power(number: int) -> str:
    """Format a large limit that is a power of two, or one less, as such: "2^55", "2^32 - 1".

    Else as digits.
    """
    for base, text in ((number, ""), (number + 1, " - 1")):
        if base >= 1 << 20 and base & (base - 1) == 0:
            return f"2^{base.bit_length() - 1}{text}"
    return str(number)
