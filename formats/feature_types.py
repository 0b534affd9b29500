"""Types of features that a user requests, and conversion of stored values to them.

In: the types, as passed in `features=` and `sequences=`, and the stored values of an example. Out:
scalars and arrays. Features that are made of several stored features are in `joined_features.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..common.messages import short_repr, shorten
from ..errors import SourceError

Shape = tuple[int, ...]
"""Lengths of axes; -1 for a length that follows from the number of values."""


class FeatureType(Protocol):
    """Protocol of a function that makes the value of a feature from the stored values."""

    described: str
    """Text that identifies the type, for fingerprints. It must not change between releases."""

    def needed(self, name: str) -> tuple[str, ...]:
        """Return the names of the stored features that an example must have."""
        ...

    def __call__(self, name: str, found: Mapping[str, Any], /) -> Any:
        """Return the value of the feature `name`.

        Raises:
            SourceError: a stored value does not match the type.
        """
        ...


class OneFeature:
    """Type of a feature that is made of one stored feature. Subclasses implement `of`.

    Args:
        argument: name of the user's argument that has the type, for messages: "features" or
            "sequences".
        default: value for a missing feature; None: a missing feature is an error.
        remedy: what to do about stored values that do not match the type, for messages. ""
            (default): pass another type in `argument`.
    """

    described: str

    def __init__(self, argument: str, default: Any = None, remedy: str = "") -> None:
        self._argument, self.default, self._remedy = argument, default, remedy

    def needed(self, name: str) -> tuple[str, ...]:
        return (name,) if self.default is None else ()

    def __call__(self, name: str, found: Mapping[str, Any]) -> Any:
        return self.of(name, found.get(name, []))

    def of(self, name: str, value: Any) -> Any:
        """Return the value of the feature `name`, or the default if it has no value.

        Args:
            name: name of the feature.
            value: its stored value: an array with one axis, or a list of byte strings; an empty
                list if it has no value.
        """
        if self.default is not None and not len(value):
            return self.default
        return self._converted(name, value)

    def stacked(self, values: list[Any]) -> Any:
        """Return the values of all steps as one array, or as a list if they have no fixed shape."""
        return values

    def _converted(self, name: str, value: Any) -> Any:
        raise NotImplementedError

    def _pass(self, name: str, wanted: str) -> str:
        """Return the remedy for stored values that do not match: to pass the type `wanted`."""
        return self._remedy or f"Pass {self._argument}={{{short_repr(name)}: {wanted}}}"

    def _byte_strings(self, name: str, value: Any) -> list[bytes]:
        if isinstance(value, list):
            return value
        wanted = f"np.{value.dtype}" if len(value) == 1 else f"(np.{value.dtype}, (None,))"
        raise SourceError(
            f"feature {short_repr(name)} contains numbers ({value.dtype}), not bytes. "
            f"{self._pass(name, wanted)}."
        )


class AllBytesType(OneFeature):
    """Type `list`: all byte strings of a feature."""

    described = "_all_bytes"

    def _converted(self, name: str, value: Any) -> list[bytes]:
        return self._byte_strings(name, value)


class TextsType(OneFeature):
    """Type of byte strings, or of texts in UTF-8: one, or an array of objects of a shape."""

    def __init__(
        self, kind: type, shape: Shape | None, default: Any, argument: str, remedy: str = ""
    ) -> None:
        super().__init__(argument, remedy=remedy)
        self._kind, self._shape = kind, shape or ()
        self.described = (
            "_one_bytes" if kind is bytes and not shape else f"{kind.__name__}{list(self._shape)}"
        )
        if default is not None:
            self.default = self._default(default)
            self.described += f" or {np.asarray(self.default, object).tolist()!r}"

    def _default(self, default: Any) -> Any:
        values = np.asarray(default, object)
        if not all(isinstance(value, self._kind) for value in values.flat):
            raise TypeError(self._kind.__name__)
        return filled(values, self._shape)

    def _converted(self, name: str, value: Any) -> Any:
        several = self._byte_strings(name, value)
        if not self._shape and not several:
            wanted = f"({self._kind.__name__}, (), default)"
            raise SourceError(
                f"feature {short_repr(name)} has no value in this example. "
                f"{self._pass(name, wanted)}, with the value to return in this case as default."
            )
        if not self._shape and len(several) != 1:
            wanted = "list" if self._kind is bytes else "(str, (None,))"
            raise SourceError(
                f"feature {short_repr(name)} contains {len(several)} byte strings, not one. "
                f"{self._pass(name, wanted)} to get all of them."
            )
        texts = several if self._kind is bytes else [self._text(name, each) for each in several]
        if not self._shape:
            return texts[0]
        values = np.empty(len(texts), object)
        values[:] = texts
        try:
            return values.reshape(self._shape)
        except ValueError:
            raise SourceError(
                f"feature {short_repr(name)} contains {len(texts)} byte strings, which do not fill "
                f"the shape {_shown(self._shape)}. "
                f"{self._pass(name, f'({self._kind.__name__}, (None,))')} for any number of them."
            ) from None

    def stacked(self, values: list[Any]) -> Any:
        if not self._shape or -1 in self._shape:
            return values
        return np.stack(values) if values else np.empty((0, *self._shape), object)

    def _text(self, name: str, value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            wanted = f"(bytes, {_shown(self._shape)})" if self._shape else "bytes"
            raise SourceError(
                f"feature {short_repr(name)} contains {short_repr(value)}, which is not a text in "
                f"UTF-8. {self._pass(name, wanted)}."
            ) from error


class NumbersType(OneFeature):
    """Type of numbers: one number of a dtype, or an array of a shape.

    Raises:
        TypeError: the dtype is not one of numbers or booleans.
    """

    def __init__(
        self,
        dtype: npt.DTypeLike,
        shape: Shape | None,
        default: Any,
        argument: str,
        remedy: str = "",
    ) -> None:
        super().__init__(argument, remedy=remedy)
        self._dtype, self._shape = np.dtype(dtype), shape
        if self._dtype.kind not in "biuf":
            raise TypeError(self._dtype)
        self.described = f"{self._dtype.str}{'' if shape is None else list(shape)}"
        if default is not None:
            self.default = self._default(default)
            self.described += f" or {self.default.tolist()!r}"

    def _default(self, default: Any) -> Any:
        given = np.asarray(default)
        if given.dtype.kind not in "biuf" or (
            given.size and not_held(given, given.astype(self._dtype)).any()
        ):
            raise TypeError(self._dtype)
        return filled(given.astype(self._dtype), self._shape or ())

    def _converted(self, name: str, value: Any) -> Any:
        if isinstance(value, list) and value:
            wanted = "bytes" if len(value) == 1 else "list"
            raise SourceError(
                f"feature {short_repr(name)} contains bytes, not numbers. "
                f"{self._pass(name, wanted)}."
            )
        numbers = self._exact(name, np.asarray(value))
        if self._shape is None and len(numbers) == 1:
            return numbers[0]
        try:
            return numbers.reshape(() if self._shape is None else self._shape)
        except ValueError:
            dtype = f"np.{self._dtype.name}"
            if not len(numbers):
                raise SourceError(
                    f"feature {short_repr(name)} has no value in this example. "
                    f"{self._pass(name, f'({dtype}, {_shown(self._shape or ())}, default)')}, with "
                    "the value to return in this case as default."
                ) from None
            wanted = (
                "not one"
                if self._shape is None
                else f"which do not fill the shape {_shown(self._shape)}"
            )
            raise SourceError(
                f"feature {short_repr(name)} contains {len(numbers)} numbers, {wanted}. "
                f"{self._pass(name, f'({dtype}, (None,))')} for any number of them."
            ) from None

    def stacked(self, values: list[Any]) -> Any:
        shape = self._shape or ()
        if -1 in shape:
            return values
        return np.stack(values) if values else np.empty((0, *shape), self._dtype)

    def _exact(self, name: str, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return numbers in the requested dtype.

        Floats may be rounded, but must stay finite; integers must not change.

        Raises:
            SourceError: the dtype cannot hold a number.
        """
        if stored.dtype == self._dtype:
            return stored
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = stored.astype(self._dtype)
        wrong = not_held(stored, numbers)
        if wrong.any():
            value, wanted = (
                stored[np.argmax(wrong)],
                "np.float32" if stored.dtype.kind == "f" else "np.int64",
            )
            if self._shape is not None or self.default is not None:
                default = "" if self.default is None else ", default"
                wanted = f"({wanted}, {_shown(self._shape or ())}{default})"
            raise SourceError(
                f"feature {short_repr(name)} contains the number {value}, which does not fit "
                f"{self._dtype}. {self._pass(name, wanted)}."
            )
        return numbers


class StepsType:
    """Type of a feature list: the values of its steps, each of the type `step`."""

    def __init__(self, step: OneFeature) -> None:
        self._step = step
        self.described = step.described

    def needed(self, name: str) -> tuple[str, ...]:
        return self._step.needed(name)

    def __call__(self, name: str, found: Mapping[str, Any]) -> Any:
        values = []
        for number, value in enumerate(found.get(name, [])):
            try:
                values.append(self._step.of(name, value))
            except SourceError as error:
                raise SourceError(f"step {number} of {error}") from error
        return self._step.stacked(values)


def _shown(shape: Shape) -> str:
    """Format a shape as users pass it, with None in place of -1."""
    return shorten(tuple(None if n == -1 else n for n in shape))


def not_held(stored: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return a mask of the numbers that a conversion to another dtype changed.

    They are infinite floats, or other integers.
    """
    wrong: npt.NDArray[np.bool_]
    wrong = (
        np.isinf(numbers) & ~np.isinf(stored) if numbers.dtype.kind == "f" else numbers != stored
    )
    return wrong


def filled(values: npt.NDArray[Any], shape: Shape) -> Any:
    """Return default values in a shape, read-only: one value fills it, several are reshaped.

    Raises:
        ValueError: the number of values does not match the shape.

    >>> filled(np.array(0), (2,)), filled(np.array([1, 2]), (-1,))
    (array([0, 0]), array([1, 2]))
    """
    if values.ndim or -1 in shape:
        if values.ndim == 0:
            raise ValueError(shape)
        found = values.reshape(shape).copy()
    else:
        found = np.full(shape, values, values.dtype)
    found.flags.writeable = False
    return found if shape else found[()]
