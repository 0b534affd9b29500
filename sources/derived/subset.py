"""Source that has some records of another source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...common.identity.values import digest_of
from ..accepted import as_source
from ..facts import SourceFacts, facts_of, used_records
from ..keys import Keys, check_keys
from ..protocol import fingerprint_of
from ..provenance import UsedRecord
from .on_source import ByOtherKeys, Int64s


class Subset(ByOtherKeys):
    """Some records of a source, in the order of the given keys.

    Args:
        source: anything that `DataLoader` accepts as a source.
        keys: keys of the records in `source`, in `[0, len(source))`. A key may occur several times.

    Attributes:
        source: the source that has the records.
        keys: `int64[records]`; record k of the subset is `source[keys[k]]`.

    Raises:
        TypeError: the keys are not integers.
        RecordKeyError: a key lies outside `[0, len(source))`.
        ValueError: `keys` is empty.

    >>> Subset("a b c d".split(), [3, 1])[0]
    'd'
    """

    def __init__(self, source: Any, keys: Keys) -> None:
        self.source = as_source(source)
        self.keys = check_keys(keys, len(self.source), "Subset")
        if not len(self.keys):
            raise ValueError("the subset is empty. Pass at least one record key.")

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def columns(self) -> Any:
        """Columns of the subset; None if the source has none.

        They are a tree with a `SubsetColumn` for each column of the source.
        """
        columns = facts_of(self.source).columns()
        if columns is None:
            return None
        import optree

        return optree.tree_map(
            lambda leaf: SubsetColumn(leaf, self.keys),
            columns,
            none_is_leaf=True,
            namespace="headrace",
        )

    @property
    def facts(self) -> SourceFacts:
        return super().facts._replace(columns=lambda: self.columns, made_of=self.made_of)

    def _chosen(self, numbers: Int64s) -> Int64s:
        return numbers[self.keys]

    def _records_of(self, keys: Int64s) -> Int64s:
        return self.keys[keys]

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the source, with a digest of the keys."""
        return {
            **fingerprint_of(self.source),
            "subset": f"{len(self.keys)} {digest_of(self.keys)[:12]}",
        }

    def made_of(self, key: int) -> Sequence[UsedRecord]:
        """Return the records of which record `key` of the subset is made.

        This is one record of the source, or the records of other sources of which that record is
        made.
        """
        return used_records(self.source, int(self.keys[key]))

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "keys": self.keys}

    def __repr__(self) -> str:
        return f"Subset({len(self.keys)} of {len(self.source)} records, {self.source!r})"


class SubsetColumn:
    """Column of a subset, with the part of an array's interface that `Batch` uses.

    Args:
        column: column of the source.
        keys: keys, in the source, of the subset's records.
    """

    def __init__(self, column: Any, keys: Int64s) -> None:
        self._column, self._keys = column, keys
        self.dtype = column.dtype
        self.shape = (len(keys), *column.shape[1:])
        self.nbytes = column.nbytes // max(len(column), 1) * len(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def take(self, places: Int64s, axis: int, out: Any, mode: Any) -> None:
        """Copy rows into `out`, like `ndarray.take`: `out[i]` is row `places[i]` of the subset.

        Args:
            places: indices of rows.
            axis: 0.
            out: array to write to.
            mode: passed on to the column's `take`.
        """
        column, keys = self._column, self._keys[places]
        if not hasattr(column, "take"):
            column, keys = column.rows_of(keys)
        column.take(keys, axis, out, mode)
