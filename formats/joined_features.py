"""Features made of several stored features: rows of different lengths, and sparse arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.messages import short_repr, shorten
from ..errors import SourceError
from .feature_types import NumbersType, OneFeature, TextsType


@dataclass(frozen=True)
class RaggedFeature:
    """Type of rows of different lengths, for `features=`.

    The values of all rows are stored one after another.

    The result is a list of rows. A row is an array with one axis, or, for `bytes` and `str`, an
    array of objects. With several `row_lengths` or `row_splits`, it is a list of lists of rows, and
    so on.

    Args:
        dtype: dtype of the values, or `bytes` or `str`.
        values: name of the stored feature with the values of all rows.
        row_lengths: name of the stored feature with the length of each row; or a list of names for
            nested rows, the outermost first.
        row_splits: in place of `row_lengths`: name of the stored feature with the beginning of each
            row in `values`, and the end of the last one; or a list of names.

    Raises:
        TypeError: neither `row_lengths` nor `row_splits` is passed, or both; or an argument is not
            a name.

    >>> from headrace import decode_example, encode_example
    >>> data = encode_example({"words": ["a", "b", "c"], "lengths": [2, 0, 1]})
    >>> words = RaggedFeature(str, "words", row_lengths="lengths")
    >>> [list(row) for row in decode_example(data, {"words": words})["words"]]
    [['a', 'b'], [], ['c']]
    """

    dtype: Any
    values: str
    row_lengths: str | Sequence[str] | None = None
    row_splits: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        if (self.row_lengths is None) == (self.row_splits is None):
            raise TypeError(
                "RaggedFeature takes either row_lengths= or row_splits=. Pass one of them."
            )
        name_of("RaggedFeature", "values", self.values)
        if self.row_lengths is None:
            names_of("RaggedFeature", "row_splits", self.row_splits)
        else:
            names_of("RaggedFeature", "row_lengths", self.row_lengths)


@dataclass(frozen=True)
class SparseFeature:
    """Type of a sparse array, for `features=`.

    Stored are the values that differ from `fill`, and their indices.

    The result is a dense array of `shape`.

    Args:
        dtype: dtype of the values.
        indices: name of the stored feature with the indices of all values: for the first value one
            index for each axis, then for the second value, and so on. Or a list of names, one for
            each axis.
        values: name of the stored feature with the values.
        shape: lengths of the axes; or the name of the stored feature with them.
        fill: value where nothing is stored. Default 0.

    Raises:
        TypeError: `indices` is neither a name nor a list of names, or `values` is not a name.

    >>> from headrace import decode_example, encode_example
    >>> data = encode_example({"row": [0, 2], "column": [1, 3], "value": [0.5, 2.0]})
    >>> grid = SparseFeature(np.float32, ["row", "column"], "value", (3, 4))
    >>> decode_example(data, {"grid": grid})["grid"]
    array([[0. , 0.5, 0. , 0. ],
           [0. , 0. , 0. , 0. ],
           [0. , 0. , 0. , 2. ]], dtype=float32)
    """

    dtype: Any
    indices: str | Sequence[str]
    values: str
    shape: int | str | Sequence[int]
    fill: Any = 0

    def __post_init__(self) -> None:
        names_of("SparseFeature", "indices", self.indices)
        name_of("SparseFeature", "values", self.values)


def name_of(owner: str, argument: str, given: Any) -> str:
    """Return `given`, after a check that it is a string.

    Raises:
        TypeError: it is not.
    """
    if isinstance(given, str):
        return given
    raise TypeError(
        f"{owner}: {argument}={short_repr(given)} is not the name of a stored feature. Pass a "
        "string."
    )


def names_of(owner: str, argument: str, given: Any) -> tuple[str, ...]:
    """Return one name, or a list of names, as a tuple.

    Raises:
        TypeError: `given` is neither.

    >>> names_of("RaggedFeature", "values", "words")
    ('words',)
    """
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Sequence) and given and all(isinstance(each, str) for each in given):
        return tuple(given)
    raise TypeError(
        f"{owner}: {argument}={short_repr(given)} is not the name of a stored feature, or a list "
        "of names. Pass a string, or a list of strings."
    )


class RaggedType:
    """Feature type (`FeatureType`) of a `RaggedFeature`."""

    def __init__(self, wanted: RaggedFeature) -> None:
        self._values_name = wanted.values
        remedy = (
            "Pass another dtype= to RaggedFeature, or the name of another stored feature as its "
            "values="
        )
        self._of_values: OneFeature = (
            TextsType(wanted.dtype, (-1,), None, "features", remedy)
            if wanted.dtype in (bytes, str)
            else NumbersType(wanted.dtype, (-1,), None, "features", remedy)
        )
        self._are_splits = wanted.row_lengths is None
        argument = "row_splits" if self._are_splits else "row_lengths"
        remedy = f"Name a stored feature of whole numbers in {argument}= of RaggedFeature"
        self._rows = names_of(
            "RaggedFeature", "row_lengths", wanted.row_splits or wanted.row_lengths
        )
        self._of_rows = NumbersType(np.int64, (-1,), None, "features", remedy)
        kind = "splits" if self._are_splits else "lengths"
        self.described = (
            f"ragged {self._of_values.described} {self._values_name!r} {kind} {list(self._rows)!r}"
        )

    def needed(self, name: str) -> tuple[str, ...]:
        return (self._values_name, *self._rows)

    def __call__(self, name: str, found: Mapping[str, Any]) -> Any:
        rows = self._of_values(self._values_name, found)
        inner = self._values_name
        for partition in reversed(self._rows):
            splits = self._splits(
                name, partition, self._of_rows(partition, found), inner, len(rows)
            )
            rows = [rows[start:stop] for start, stop in pairwise(splits)]
            inner = partition
        return rows

    def _splits(
        self, name: str, partition: str, stored: npt.NDArray[np.int64], inner: str, count: int
    ) -> list[int]:
        """Return the beginnings of all rows and the end of the last one.

        Args:
            name: name of the ragged feature.
            partition: name of the stored feature with the rows.
            stored: its values: splits or lengths.
            inner: name of the stored feature that is divided into rows.
            count: number of its values or rows.

        Raises:
            SourceError: the rows do not have `count` values together.
        """
        if not self._are_splits:
            splits = np.concatenate(([0], np.cumsum(stored)))
        else:
            splits = stored if len(stored) else np.zeros(1, np.int64)
        if splits[0] != 0 or splits[-1] != count or (np.diff(splits) < 0).any():
            kind = "splits" if self._are_splits else "lengths"
            rule = (
                "begin with 0, never fall, and end with"
                if self._are_splits
                else "be at least 0 and add up to"
            )
            raise SourceError(
                f"feature {short_repr(name)}: the row {kind} in {short_repr(partition)} are "
                f"{shorten(stored.tolist(), 60)}, but {short_repr(inner)} has {count} "
                f"{'values' if inner == self._values_name else 'rows'}. Row {kind} must {rule} "
                "this number. Name other stored features in RaggedFeature, or write the record "
                "again."
            )
        return splits.tolist()  # type: ignore[no-any-return]


class SparseType:
    """Feature type (`FeatureType`) of a `SparseFeature`.

    Raises:
        TypeError: the shape is not one of whole numbers, or `fill` does not fit the dtype.
        ValueError: a length of the shape is negative.
    """

    def __init__(self, wanted: SparseFeature) -> None:
        if wanted.fill is None:
            raise TypeError(wanted.fill)
        self._dtype = np.dtype(wanted.dtype)
        remedy = (
            "Pass another dtype= to SparseFeature, or the name of another stored feature as its "
            "values="
        )
        self._of_values = NumbersType(self._dtype, (-1,), None, "features", remedy)
        of_numbers = "Name a stored feature of whole numbers in {}= of SparseFeature"
        self._of_indices = NumbersType(
            np.int64, (-1,), None, "features", of_numbers.format("indices")
        )
        self._of_shape = NumbersType(np.int64, (-1,), None, "features", of_numbers.format("shape"))
        self._fill = NumbersType(self._dtype, (), wanted.fill, "features").default
        self._values_name = wanted.values
        self._indices_names = names_of("SparseFeature", "indices", wanted.indices)
        given = wanted.shape
        self._shape: str | tuple[int, ...] = (
            given if isinstance(given, str) else tuple(map(int, np.atleast_1d(given).tolist()))
        )
        if not isinstance(self._shape, str) and any(length < 0 for length in self._shape):
            raise ValueError(self._shape)
        self.described = (
            f"sparse {self._of_values.described} {self._values_name!r} at "
            f"{list(self._indices_names)!r} in {self._shape!r} or {self._fill.tolist()!r}"
        )

    def needed(self, name: str) -> tuple[str, ...]:
        of_shape = (self._shape,) if isinstance(self._shape, str) else ()
        return (self._values_name, *self._indices_names, *of_shape)

    def __call__(self, name: str, found: Mapping[str, Any]) -> Any:
        values = self._of_values(self._values_name, found)
        shape = self._shape
        if isinstance(shape, str):
            shape = tuple(self._of_shape(shape, found).tolist())
            if any(length < 0 for length in shape):
                raise SourceError(
                    f"feature {short_repr(name)}: the stored shape {shorten(shape, 80)} has a "
                    "negative length. Write the record again, or pass shape= to SparseFeature as "
                    "numbers."
                )
        places = self._places(name, found, len(values), len(shape))
        self._check(name, places, shape)
        dense = np.full(shape, self._fill, self._dtype)
        dense[tuple(places)] = values
        return dense

    def _places(
        self, name: str, found: Mapping[str, Any], count: int, axes: int
    ) -> npt.NDArray[np.int64]:
        """Return the indices of all values, `int64[axes, values]`."""
        stored = [self._of_indices(each, found) for each in self._indices_names]
        if len(stored) == 1 and len(stored[0]) == count * axes:
            places: npt.NDArray[np.int64] = stored[0].reshape(count, axes).T
            return places
        if len(stored) == axes and all(len(each) == count for each in stored):
            return np.stack(stored)
        raise SourceError(
            f"feature {short_repr(name)}: {short_repr(self._values_name)} has {count} values, "
            f"which need {count} indices for each of the {axes} axes. But "
            f"{short_repr(list(self._indices_names))} has "
            f"{shorten([len(each) for each in stored])} indices. Correct indices= or shape= of "
            "SparseFeature, or write the record again."
        )

    def _check(self, name: str, places: npt.NDArray[np.int64], shape: tuple[int, ...]) -> None:
        outside = ((places < 0) | (places >= np.array(shape, np.int64).reshape(-1, 1))).any(0)
        if outside.any():
            index = places[:, np.argmax(outside)]
            needed = tuple(np.maximum(np.array(shape, np.int64), index + 1).tolist())
            remedy = (
                "Write the record again"
                if (index < 0).any()
                else f"Pass at least shape={needed} to SparseFeature"
            )
            raise SourceError(
                f"feature {short_repr(name)}: the index {tuple(index.tolist())} is outside the "
                f"shape {shorten(shape)}. {remedy}."
            )
        flat = np.sort(np.ravel_multi_index(tuple(places), shape)) if len(shape) else places
        twice = flat[1:][flat[1:] == flat[:-1]] if len(shape) else flat
        if twice.size:
            place = tuple(int(each) for each in np.unravel_index(twice.flat[0], shape))
            raise SourceError(
                f"feature {short_repr(name)}: the index {place} occurs twice, so the value there "
                "is unknown. Write the record again with one value for each index."
            )
