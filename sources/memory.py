"""Source of records in memory: the items of a sequence, or the rows of a tree of arrays.

Rows of arrays are read-only views, so that no operation can change what the next epoch reads.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from ..common.costs import length_of_field
from ..common.fields import fields_of
from ..common.identity.values import digest, record
from ..common.messages import first_few, short_repr, shorten
from .facts import SourceFacts
from .keys import Keys, check_key, check_keys

Array = npt.NDArray[Any]

_SAMPLED = 8
"""Maximum number of records that are digested for the fingerprint."""


class MemorySource:
    """Records in memory: a sequence of records, or arrays that share their first axis (columns).

    Record k of a list, a tuple, a NumPy array of shape `(n, …)`, or another object with `__len__`
    and integer `__getitem__` is `data[k]`. Record k of a dict of NumPy arrays, nested or not, is
    the same dict with `leaf[k]` in place of each array. Rows of arrays are read-only views. A tuple
    of columns, `(X, y)`, is an error: pass `{"x": X, "y": y}`.

    Args:
        data: the records. They are not copied; do not change them while the source is in use.

    Attributes:
        columns: the tree of arrays, read-only; None for a sequence of records.
        items: the sequence of records; None for a dict of arrays.

    Raises:
        ValueError: there are no records, or leaves have unequal lengths.
        TypeError: a leaf is not an array or has no axis, `data` has no random access, or it is a
            tuple of columns.

    >>> source = MemorySource({"image": np.zeros((3, 2, 2), np.uint8), "label": np.arange(3)})
    >>> len(source), source[2]["image"].shape, int(source[2]["label"])
    (3, (2, 2), 2)
    """

    def __init__(self, data: Sequence[Any] | Array | Mapping[str, Any]) -> None:
        self._data: Any = data
        self._rows = _rows_of(data)
        self.columns: Any = self._rows.columns
        self.items: Any = self._rows.items
        self._length = self._rows.length

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            answers_exactly=True,
            reads_ahead=False,
            columns=lambda: self.columns,
            items=self.items,
            lookup=self._rows.one,
            lengths=lambda: self.lengths,
            lengths_by=self.lengths_by,
        )

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: SupportsIndex) -> Any:
        return self._rows.one(check_key(key, self._length, "MemorySource"))

    def __getitems__(self, keys: Keys) -> Sequence[Any]:
        """Return the records of `keys`, in order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
        """
        checked = check_keys(keys, self._length, "MemorySource").tolist()
        return self._rows.many(checked) if checked else []

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Number of records, and a digest of at most eight of them.

        For arrays, also of names, dtypes and shapes. The records of a sequence that is not a list,
        tuple or range are not digested.
        """
        layout = ";".join(
            f"{name}:{leaf.dtype.str}{leaf.shape[1:]}" for name, leaf in self._rows.leaves.items()
        )
        digests = {"layout": hashlib.sha256(layout.encode()).hexdigest()[:12]} if layout else {}
        is_cheap = isinstance(self._data, (list, tuple, range))  # others may read at great cost
        if self.columns is not None or is_cheap:
            records = [record(self._rows.one(key)) for key in _spread(self._length)]
            digests["content"] = digest(records, 12)
        return {"kind": "MemorySource", "records": self._length, **digests}

    @cached_property
    def lengths(self) -> Any:
        """Length of the array in each record, `int64[records]`; None if records contain no arrays.

        Also None for a sequence of records that is neither a list nor a tuple.

        If records are dicts, named tuples or dataclasses, this is a dict with one such array for
        each field that contains arrays in all records.

        >>> MemorySource([np.arange(3), np.arange(5)]).lengths
        array([3, 5])
        """
        if self.columns is not None:
            return _lengths_of_columns(self.columns)
        return _lengths_of(self._data) if isinstance(self._data, (list, tuple)) else None

    def lengths_by(self, name: str) -> Any:
        """Return the length of a field of each record, `int64[records]`.

        For a column of numbers, the column itself.

        The length is the length of the array, list or text in the field. If the field contains an
        integer, the integer is the length.

        Args:
            name: name of the field; "audio/samples" is the field `samples` of the dict `audio`.

        Raises:
            LengthsError: a record has no such field, or the field has no length.

        >>> MemorySource({"id": np.array([7, 8]), "tokens": np.array([4, 9])}).lengths_by("tokens")
        array([4, 9])
        """
        column = self.columns.get(name) if isinstance(self.columns, dict) else None
        if isinstance(column, np.ndarray) and column.ndim > 1:
            return np.full(self._length, column.shape[1], np.int64)
        if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
            return column
        return np.array(
            [length_of_field(self._rows.one(key), name, key) for key in range(self._length)],
            np.int64,
        )

    def __reduce__(self) -> tuple[type[MemorySource], tuple[Any]]:
        return type(self), (self._data,)

    def __repr__(self) -> str:
        return f"MemorySource({self._length} records of {type(self._data).__name__})"


def _spread(length: int) -> list[int]:
    """Return at most eight keys of `length` records, evenly spread, with the first and the last."""
    return sorted({(length - 1) * step // (_SAMPLED - 1) for step in range(_SAMPLED)})


class _Items:
    columns = None

    def __init__(self, items: Sequence[Any]) -> None:
        self.items, self.leaves = items, dict[str, Array]()
        self.length = len(items)
        if not self.length:
            raise ValueError(
                f"MemorySource: the {type(items).__name__} is empty. Pass at least one record."
            )

    def one(self, key: int) -> Any:
        return self.items[key]

    def many(self, keys: list[int]) -> Sequence[Any]:
        if len(keys) == 1:  # itemgetter of one key returns no tuple.
            return [self.items[keys[0]]]
        return cast(Sequence[Any], operator.itemgetter(*keys)(self.items))


class _Rows(_Items):
    """Sequence of records, each of which is a row of one array.

    Args:
        array: the array, whose first axis counts records.
    """

    def __init__(self, array: Array) -> None:
        self.columns: Any = _frozen("the array", array)
        self.leaves = {"": self.columns}
        self.length = _common_length({"the array": self.columns})
        self.items = cast(Sequence[Any], self.columns)


class _FlatTable:
    """Sequence of records, which are dicts. Record k has row k of each array in a dict of arrays.

    Args:
        data: the dict of arrays.
    """

    items = None

    def __init__(self, data: dict[Any, Any]) -> None:
        self.columns: Any = {
            name: _frozen(f"data[{short_repr(name)}]", leaf) for name, leaf in data.items()
        }
        self.length = _common_length(
            {f"data[{short_repr(name)}]": leaf for name, leaf in self.columns.items()}
        )
        self.leaves = {repr(name): leaf for name, leaf in self.columns.items()}

    def one(self, key: int) -> Any:
        return {name: leaf[key] for name, leaf in self.columns.items()}

    def many(self, keys: list[int]) -> Sequence[Any]:
        # Column by column: the inner loop is one index and one store, whatever the number of
        # columns.
        rows: list[dict[Any, Any]] = [{} for _ in keys]
        for name, leaf in self.columns.items():
            for row, key in zip(rows, keys):
                row[name] = leaf[key]
        return rows


class _Tree:
    """Sequence of records, which are nested dicts.

    Record k has row k of each array in a nested dict of arrays.

    Args:
        data: the dict.
    """

    items = None

    def __init__(self, data: Any) -> None:
        import optree

        flat: tuple[list[Any], list[Any], Any]
        flat = optree.tree_flatten_with_accessor(data, none_is_leaf=True, namespace="headrace")
        accessors, leaves, self._spec = flat
        names = [accessor.codify("data") for accessor in accessors]
        self._leaves = [_frozen(name, leaf) for name, leaf in zip(names, leaves)]
        self.leaves = {
            f"leaf {accessor.codify('')}": leaf for accessor, leaf in zip(accessors, self._leaves)
        }
        self.length = _common_length(dict(zip(names, self._leaves)))
        self.columns: Any = self._spec.unflatten(self._leaves)

    def one(self, key: int) -> Any:
        return self._spec.unflatten([leaf[key] for leaf in self._leaves])

    def many(self, keys: list[int]) -> Sequence[Any]:
        columns = [map(leaf.__getitem__, keys) for leaf in self._leaves]
        return list(map(self._spec.unflatten, zip(*columns)))


def _rows_of(data: Any) -> _Items | _FlatTable | _Tree:
    if isinstance(data, np.ndarray):
        return _Rows(data)
    if type(data) is dict and all(isinstance(leaf, np.ndarray) for leaf in data.values()):
        return _FlatTable(data)
    if isinstance(data, dict):
        return _Tree(data)
    if isinstance(data, Mapping) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise TypeError(
            "MemorySource takes a sequence of records, an array or a dict of arrays, not "
            f"{type(data).__name__}. Pass list(data) for an iterator, or dict(data) for another "
            "kind of mapping."
        )
    if isinstance(data, tuple):
        _refuse_columns(data)
    return _Items(data)


def _refuse_columns(data: tuple[Any, ...]) -> None:
    """Raise TypeError for a tuple of columns, `(X, y)`.

    These are two or more arrays of one length, which exceeds the tuple's.
    """
    if len(data) < 2 or not all(isinstance(item, np.ndarray) and item.ndim for item in data):
        return
    length = len(data[0])
    if length > len(data) and all(len(item) == length for item in data):
        raise TypeError(
            f"MemorySource: a tuple of {len(data)} arrays of length {length} can mean columns or "
            "records. "
            'Pass columns as a dict, {"x": X, "y": y}, and records as a list, list(data).'
        )


def _frozen(name: str, leaf: Any) -> Array:
    """Return a read-only view of an array, as a plain `np.ndarray`.

    Args:
        name: name of the array, for the message.
        leaf: the array.

    Raises:
        TypeError: `leaf` is not an array, is a masked array, or has no axis.
    """
    # In this order, `np.ma` is imported only where needed: it takes tens of milliseconds in each
    # new worker.
    if type(leaf) is not np.ndarray and (
        not isinstance(leaf, np.ndarray) or isinstance(leaf, np.ma.MaskedArray)
    ):
        if isinstance(leaf, np.ndarray):
            raise TypeError(
                f"MemorySource: {shorten(name)} is a masked array, and batches have no masks. Pass "
                "array.filled(value)."
            )
        raise TypeError(
            f"MemorySource: {shorten(name)} is of type {type(leaf).__name__}, not a NumPy array. "
            "In a dict of arrays, make each column an array with one row for each record, "
            "np.asarray(column), also columns that are lists."
        )
    if leaf.ndim == 0:
        raise TypeError(
            f"MemorySource: {shorten(name)} has no axis (shape ()), but its first axis must count "
            "the records. Pass an array with one row for each record."
        )
    view = leaf.view(np.ndarray)  # indexing of subclasses such as memmap is slower
    view.flags.writeable = False
    return view


def _common_length(leaves: dict[str, Array]) -> int:
    if not leaves:
        raise ValueError("MemorySource: the dict has no arrays. Pass at least one array.")
    lengths = {name: len(leaf) for name, leaf in leaves.items()}
    if len(set(lengths.values())) > 1:
        records_by_array = first_few([f"{name} has {length}" for name, length in lengths.items()])
        raise ValueError(
            "MemorySource: all arrays must have the same number of records, but "
            f"{records_by_array}. Pass arrays of equal length."
        )
    length = next(iter(lengths.values()))
    if not length:
        raise ValueError(
            f"MemorySource: {shorten(next(iter(lengths)))} has 0 records. Pass at least one record."
        )
    return length


def _lengths_of(records: Sequence[Any]) -> Any:
    """Return the length of the array in each record, `int64[records]`; None if they are no arrays.

    For records that are dicts, named tuples or dataclasses, return a dict with one such array for
    each field that contains arrays in all records; None if there is no such field.

    Args:
        records: the records, at least one.

    >>> _lengths_of([{"x": np.zeros(3), "id": 7}, {"x": np.zeros(5), "id": 8}])
    {'x': array([3, 5])}
    """
    first = records[0]
    if fields_of(first) is not None:
        return _lengths_of([fields_of(record) for record in records])
    if isinstance(first, dict):
        return _by_key({key: _leaf(records, key) for key in first})
    if not isinstance(first, np.ndarray) or not all(
        isinstance(one, np.ndarray) and one.ndim for one in records
    ):
        return None
    return np.fromiter(map(len, records), np.int64, len(records))


def _leaf(records: Sequence[Any], key: Any) -> Any:
    try:
        return _lengths_of([record[key] for record in records])
    except (KeyError, TypeError, IndexError):  # not all records have it
        return None


def _lengths_of_columns(columns: Any) -> Any:
    """Return the length of the array in each record, in the form that `_lengths_of` returns.

    Args:
        columns: an array whose first axis counts records, or a dict (perhaps nested) of such
            arrays.

    >>> _lengths_of_columns({"x": np.zeros((2, 3)), "id": np.zeros(2)})
    {'x': array([3, 3])}
    """
    if isinstance(columns, dict):
        return _by_key({key: _lengths_of_columns(column) for key, column in columns.items()})
    if not isinstance(columns, np.ndarray):
        return None
    if columns.ndim < 2:
        return _lengths_of(list(columns)) if columns.dtype == object else None
    return np.full(len(columns), columns.shape[1], np.int64)


def _by_key(lengths: dict[Any, Any]) -> dict[Any, Any] | None:
    return {key: length for key, length in lengths.items() if length is not None} or None
