"""Source of some records of another source, by their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ...common.identity.values import digest_of
from ..accepted import as_source
from ..keys import Keys, check_keys
from ..protocol import fingerprint_of
from ..provenance import UsedRecord, used_records
from .on_source import ByOtherKeys, Int64s


class Subset(ByOtherKeys):
    """Some records of a source, in the order of the given keys.

    Args:
        source: anything that `DataLoader` accepts as a source.
        keys: keys of the records, in `[0, len(source))`. A key may occur several times.

    Attributes:
        source: the source that has the records.
        keys: `int64[records]`, the key in `source` of each record of the subset.

    Raises:
        TypeError: the keys are not integers.
        RecordKeyError: the source does not have one of the keys.
        ValueError: `keys` is empty.

    >>> Subset("a b c d".split(), [3, 1])[0]
    'd'
    """

    def __init__(self, source: Any, keys: Keys) -> None:
        self.source = as_source(source)
        self.keys = check_keys(keys, len(self.source), "Subset")
        if not len(self.keys):
            raise ValueError("the subset has no records; pass the keys of some.")

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def columns(self) -> Any:
        """Columns of the source, read by other keys."""
        columns = getattr(self.source, "columns", None)
        if columns is None:
            return None
        import optree

        return optree.tree_map(
            lambda leaf: SubsetColumn(leaf, self.keys), columns, none_is_leaf=True, namespace="headrace"
        )

    @property
    def lengths(self) -> Any:
        """Lengths of arrays, as of any source."""
        return _chosen(getattr(self.source, "lengths", None), self.keys)

    @property
    def lengths_by(self) -> Callable[[str], Any]:
        """Function that returns the lengths of a field, if the source has one."""
        by_name = self.source.lengths_by  # type: ignore[attr-defined]
        return lambda name: _chosen(by_name(name), self.keys)

    @property
    def record_bytes(self) -> Any:
        """Sizes of records in their files, if the source tells them."""
        return _chosen(getattr(self.source, "record_bytes", None), self.keys)

    def _records_of(self, keys: Int64s) -> Int64s:
        return self.keys[keys]

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the source, and a digest of the keys."""
        return {**fingerprint_of(self.source), "subset": f"{len(self.keys)} {digest_of(self.keys)[:12]}"}

    def made_of(self, key: int) -> Sequence[UsedRecord]:
        """Return the record of the source."""
        return used_records(self.source, int(self.keys[key]))

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "keys": self.keys}

    def __repr__(self) -> str:
        return f"Subset({len(self.keys)} of {len(self.source)} records, {self.source!r})"


class SubsetColumn:
    """One column of a subset, as batches need it: an array whose rows can be taken."""

    def __init__(self, column: Any, keys: Int64s) -> None:
        self._column, self._keys = column, keys
        self.dtype = column.dtype
        self.shape = (len(keys), *column.shape[1:])
        self.nbytes = column.nbytes // max(len(column), 1) * len(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def take(self, places: Int64s, axis: int, out: Any, mode: Any) -> None:
        """Take rows, like `ndarray.take`. For a mix, the rows of its parts are put in order."""
        column, keys = self._column, self._keys[places]
        if not hasattr(column, "take"):
            column, keys = column.rows_of(keys)
        column.take(keys, axis, out, mode)


def _chosen(lengths: Any, keys: Int64s) -> Any:
    """Select the lengths of some records from an array or a tree of arrays."""
    if isinstance(lengths, Mapping):
        return {name: _chosen(each, keys) for name, each in lengths.items()}
    return None if lengths is None else lengths[keys]
