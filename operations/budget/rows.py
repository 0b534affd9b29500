"""Make a batch of records of unequal length: a padded row for each record, lengths, and a mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.fields import fields_of
from ...common.messages import a_kind_of, short_repr, shorten
from ...errors import BatchError, LengthsError
from ..column import as_array, common_dtype
from ..packing.settings import value_at
from ..protocol import Element, Notify
from ..stacking import no_element, shown
from ..trees import bare_lists, flatten
from .shapes import Ints

BARE = "tokens"
"""Key in the batch for records that are single arrays."""

MASK, LENGTHS = "mask", "lengths"


@dataclass(frozen=True)
class RowPadding:
    """Settings for padding records to rows of a batch.

    Attributes:
        pad_value: padding; a number, or a dict by leaf.
        meta_features: keys of leaves that are stacked without padding.
    """

    pad_value: Any
    meta_features: tuple[Any, ...]

    def lengths_of(self, records: Sequence[Element]) -> Ints:
        """Return the length of each record, `int64[records]`.

        It is the length of the record's longest array, not counting `meta_features`.
        """
        return np.array(
            [max(map(len, _arrays(self._sequences(record))), default=0) for record in records],
            np.int64,
        )

    def _sequences(self, record: Element) -> Any:
        named = _named(record)
        return {key: value for key, value in named.items() if key not in self.meta_features}

    def batch(
        self,
        records: Sequence[Element],
        count: int,
        rows: int,
        length: int,
        notify: Notify,
        check: Callable[[Ints], None] | None = None,
    ) -> dict[str, Any]:
        """Return the batch of the first `count` records.

        Args:
            records: at least one record. The first one determines the structure of the batch.
            count: number of records in the batch. All other rows are padding.
            rows: number of rows.
            length: length of the rows. Longer arrays are cut.
            notify: function that reports a message to the user. Called if numbers have several
                dtypes.
            check: function that is called with the lengths of the records before they are cut.
                None: no check.

        Raises:
            BatchError: records are None, or differ in structure or shape; dtypes have no common
                dtype; a leaf is a list; a record has no array; or a record has the key "lengths" or
                "mask".
        """
        if any(record is None for record in records):
            raise no_element()
        named = [_named(record) for record in records]
        flat = [flatten(record) for record in named]
        structure = flat[0][1]
        if lists := bare_lists(named[0]):
            raise BatchError(f"leaf {lists[0]} is a list. Map it to an array before BudgetBatch.")
        for _, other in flat:
            if other != structure:
                raise BatchError(
                    f"records of one batch have different structures: {shown(structure)} and "
                    f"{shown(other)} (* is a leaf, None is not). Map them to one structure before "
                    "BudgetBatch."
                )
        paths, real = structure.paths(), np.zeros(rows, np.int64)
        columns = []
        for path, *leaves in zip(paths, *(leaves for leaves, _ in flat)):
            arrays = [as_array(leaf) for leaf in leaves]
            if arrays[0].ndim and path[0] not in self.meta_features:
                real[:count] = np.maximum(real[:count], [len(each) for each in arrays[:count]])
                columns.append(self._padded(path, arrays, count, (rows, length), notify))
            else:
                columns.append(_stacked(path, arrays, count, rows, notify))
        if not any(
            as_array(leaf).ndim and path[0] not in self.meta_features
            for path, leaf in zip(paths, flat[0][0])
        ):
            raise BatchError(
                f"record {short_repr(records[0])} has no array of tokens, so its length would be "
                "0. Map it to an array before BudgetBatch, or remove the key of its array from "
                "meta_features=."
            )
        if check is not None:
            check(real[:count])
        lengths = np.minimum(real, length).astype(np.int32)
        batch: Any = structure.unflatten(columns)
        for key in (LENGTHS, MASK):
            if key in batch:
                raise BatchError(
                    f"records have a key {key!r}, which is also the name of a key that BudgetBatch "
                    "adds. Rename the key in a map before BudgetBatch."
                )
        return {**batch, LENGTHS: lengths, MASK: np.arange(length) < lengths[:, None]}

    def _padded(
        self,
        path: Any,
        arrays: Sequence[NDArray[Any]],
        count: int,
        shape: tuple[int, int],
        notify: Notify,
    ) -> NDArray[Any]:
        tail = _same_shape(path, [array.shape[1:] for array in arrays], " after its first axis")
        dtype = common_dtype(_name(path), arrays, notify)
        pad = value_at(self.pad_value, path, 0)
        out = np.full((*shape, *tail), 0 if pad is None else pad, dtype)
        for row, array in zip(out, arrays[:count]):
            row[: len(array)] = array[: shape[1]]
        return out


def _named(record: Element) -> Mapping[Any, Any]:
    """Return a record as a mapping from keys to leaves.

    A named tuple or dataclass becomes the dict of its fields; a single array, or another value,
    becomes `{"tokens": value}`.
    """
    if isinstance(record, np.ndarray):
        return {BARE: record}
    if isinstance(record, Mapping):
        return record if isinstance(record, dict) else dict(record)
    fields = fields_of(record)
    return {BARE: record} if fields is None else fields


def _arrays(record: Element) -> list[NDArray[Any]]:
    return [leaf for leaf in flatten(record)[0] if getattr(leaf, "ndim", 0)]


def _stacked(
    path: Any, arrays: Sequence[NDArray[Any]], count: int, rows: int, notify: Notify
) -> NDArray[Any]:
    """Stack leaves that are not padded. Rows without a record have 0, or None for objects.

    Args:
        path: path of the leaf, for messages.
        arrays: the leaf of each record.
        count: number of records.
        rows: number of rows of the batch.
        notify: function that reports a message to the user.

    Raises:
        BatchError: the leaves have different shapes, or no common dtype.
    """
    shape = _same_shape(path, [array.shape for array in arrays])
    dtype = common_dtype(_name(path), arrays, notify)
    plain = dtype.kind in "biufc"
    out = np.zeros((rows, *shape), dtype) if plain else np.full((rows, *shape), None, object)
    for row, array in enumerate(arrays[:count]):
        out[row] = array if plain or array.ndim else array.item()
    return out


def _name(path: Sequence[Any]) -> str:
    """Format the path of a leaf for messages."""
    return shorten("".join(f"[{key!r}]" for key in path), 100)


def _same_shape(path: Any, shapes: Sequence[tuple[int, ...]], axes: str = "") -> tuple[int, ...]:
    for shape in shapes:
        if shape != shapes[0]:
            raise BatchError(
                f"leaf {_name(path)} has shape {shape}{axes} in one record and {shapes[0]} in "
                "another, which BudgetBatch does not pad. Map all records to one shape before "
                "BudgetBatch."
            )
    return shapes[0]


def check_lengths(real: Ints, said: Ints, name_of: Callable[[int], str]) -> None:
    """Raise LengthsError if a record is longer than its known length.

    Args:
        real: `int64[rows]`, lengths of the records.
        said: `int64[rows]`, known lengths, with which the batches were planned.
        name_of: function that returns the name of the record in a row, for the message.
    """
    for row in np.flatnonzero(real > said)[:1].tolist():
        raise LengthsError(
            f"{name_of(row)} is {real[row]} long, but its length was given as {said[row]}, and "
            "batches were planned from this. Pass the real lengths=."
        )


def check_kinds(pad_value: Any, meta_features: Any) -> tuple[Any, ...]:
    """Check the types of both arguments, and return the keys of `meta_features` as a tuple.

    Args:
        pad_value: a number, or a dict of numbers by leaf.
        meta_features: a list of keys of the records.

    Raises:
        TypeError: an argument has a wrong type.
    """
    for value in pad_value.values() if isinstance(pad_value, Mapping) else (pad_value,):
        if not isinstance(value, (int, float, np.number, np.bool_, Mapping)):
            raise TypeError(
                f"pad_value={short_repr(value)} is {a_kind_of(value)}. Pass a number, or a dict "
                "with a number for each leaf."
            )
    if isinstance(meta_features, (str, bytes, Mapping)) or not isinstance(meta_features, Sequence):
        raise TypeError(
            f"meta_features={short_repr(meta_features)} is not a list. Pass a list of keys of the "
            "records, like ['id']."
        )
    return tuple(meta_features)
