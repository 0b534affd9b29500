"""Source that combines several sources, the parts of a mix. A call reads each part at most once.

If all parts are in memory, it looks up single records instead.

With n parts, record i of part p has the key `i * n + p`. So keys do not change when a part grows.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from ...common.distinct import distinct
from ...common.messages import a_kind_of, first_few, short_repr, shorten
from ..accepted import as_source
from ..facts import SourceFacts, facts_of, used_records
from ..keys import Keys, check_key, check_keys
from ..parts import Groups, Int64s, LastResult, grouped, in_order
from ..protocol import DataSource, fingerprint_of, reader_of
from ..provenance import UsedRecord

Array = npt.NDArray[Any]


class MixedSource:
    """Several sources as one source, from which a `MixSampler` reads.

    With n parts, record i of part p has the key `i * n + p`. A `DataLoader` with a `MixSampler`
    makes a `MixedSource` of the list or dict that is passed as `data_source`.

    Args:
        parts: a dict of sources by name, or a list, whose names are "0", "1", …

    Attributes:
        parts: the sources by name.

    Raises:
        TypeError: `parts` is neither a dict nor a list, a name is not a string, or a part is not a
            source.
        ValueError: there are no parts, or a part is empty.

    >>> source = MixedSource({"web": ["a", "b", "c"], "books": ["x", "y"]})
    >>> source.__getitems__([0, 3, 2]), source.by_part([0, 3, 2])
    (['a', 'y', 'b'], {'web': array([0, 1]), 'books': array([1])})
    """

    parts: dict[str, DataSource[Any]]

    def __init__(self, parts: Mapping[str, Any] | Sequence[Any]) -> None:
        self.parts = {name: _as_part(name, part) for name, part in _named(parts).items()}
        self._names = list(self.parts)
        self._sources = list(self.parts.values())
        count = len(self._sources)
        self._lengths = np.array([len(source) for source in self._sources], dtype=np.int64)
        self._length = 1 + max(
            (len(source) - 1) * count + part for part, source in enumerate(self._sources)
        )

    @cached_property
    def _readers(self) -> list[Any]:
        return [reader_of(source) for source in self._sources]

    @cached_property
    def _facts(self) -> list[SourceFacts]:
        return list(map(facts_of, self._sources))

    @cached_property
    def _items(self) -> list[Any] | None:
        """Sequences of the records of all parts, if each is one in memory; else None."""
        items = [part.items for part in self._facts]
        return None if any(part is None for part in items) else items

    @cached_property
    def _lookups(self) -> list[Any] | None:
        """For each part, the function that returns a record by its index.

        It is None if not all parts are in memory.
        """
        lookups = [part.lookup for part in self._facts]
        return None if None in lookups else lookups

    @cached_property
    def columns(self) -> Any:
        """A tree of the columns of all parts, from which `Batch` reads.

        None if a part has no columns, if the columns differ in structure, dtype or shape, or if one
        has texts.
        """
        return _mixed_columns([part.columns() for part in self._facts])

    def by_key(self, lengths: Sequence[Array]) -> Array:
        """Return one array with a number for each key, from those of each part's records.

        Unused keys have 0.

        Args:
            lengths: for each part, an array with one number per record.
        """
        found = np.zeros(self._length, np.result_type(*lengths))
        for part, own in enumerate(lengths):
            found[part :: len(lengths)][: len(own)] = own
        return found

    @property
    def sizes(self) -> dict[str, int]:
        return {name: len(source) for name, source in self.parts.items()}

    def __len__(self) -> int:
        """Return the largest key plus one.

        If parts have unequal lengths, some smaller keys have no record.
        """
        return self._length

    def __getitem__(self, key: SupportsIndex) -> Any:
        index, part = divmod(check_key(key, self._length, "MixedSource"), len(self._sources))
        return self._readers[part](np.array([index], dtype=np.int64))[0]

    def __getitems__(self, keys: Keys) -> Sequence[Any]:
        """Return the records of `keys`, in order, by one call for each part that has some of them.

        If all parts are in memory, the records are looked up one by one.

        Raises:
            RecordKeyError: a key has no record.
        """
        indices, parts = np.divmod(
            check_keys(keys, self._length, "MixedSource"), len(self._sources)
        )
        return self.read(parts, indices)

    def read(self, parts: Int64s, indices: Int64s) -> Sequence[Any]:
        """Return records, given by part and index, in order.

        Each part checks its own indices, and raises RecordKeyError for an index outside its
        records.

        Args:
            parts: `int64[n]`, index of the part of each record.
            indices: `int64[n]`, key of each record within its part.
        """
        if self._lookups is not None and (indices < self._lengths[parts]).all():
            if self._items is not None:  # looking records up is faster than sorting keys
                return list(
                    map(
                        operator.getitem,
                        map(self._items.__getitem__, parts.tolist()),
                        indices.tolist(),
                    )
                )
            lookups = self._lookups
            return [lookups[part](index) for part, index in zip(parts.tolist(), indices.tolist())]
        groups = grouped(parts, indices)
        return in_order(
            [
                self._readers[part](groups.indices[start:stop])
                for part, start, stop in groups.slices
            ],
            groups,
        )

    async def read_in_loop(self, keys: Int64s) -> Sequence[Any]:
        """Return the records of `keys`, in order, when it is awaited in the event loop.

        The parts are read at the same time.

        Only if all parts are asynchronous.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            ExceptionGroup: a part cannot be read.
        """
        import asyncio  # 20 ms of the start of workers, most of which need none of it

        indices, parts = np.divmod(
            check_keys(keys, self._length, "MixedSource"), len(self._sources)
        )
        groups, facts = grouped(parts, indices), cast(list[Any], self._facts)
        async with asyncio.TaskGroup() as group:
            reads = [
                group.create_task(facts[part].read_in_loop(groups.indices[start:stop]))
                for part, start, stop in groups.slices
            ]
        return in_order([read.result() for read in reads], groups)

    def by_part(self, keys: Keys) -> dict[str, Int64s]:
        """Split keys by part: return `{name: keys within the part}` for parts that have some.

        Within a part, records keep the order of `keys`.
        """
        indices, parts = np.divmod(np.asarray(keys, dtype=np.int64), len(self._sources))
        return {self._names[part]: indices[parts == part] for part in distinct(parts)}

    def made_of(self, key: int) -> list[UsedRecord]:
        index, part = divmod(key, len(self._sources))
        return [used.named(self._names[part]) for used in used_records(self._sources[part], index)]

    def describe_key(self, key: int) -> str:
        index, part = divmod(key, len(self._sources))
        return f"{index} of part {short_repr(self._names[part])}"

    @property
    def facts(self) -> SourceFacts:
        """Facts about all parts together.

        The event loop reads them only if all parts are asynchronous.
        """
        parts, wanted = self._facts, [part.reads_ahead for part in self._facts]
        in_loop = [part.read_in_loop is not None for part in parts]
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            reads_ahead=True if any(each is True for each in wanted) else max(map(int, wanted)),
            reads_singly=any(
                part.reads_singly and (all(in_loop) or not own) for part, own in zip(parts, in_loop)
            ),
            read_in_loop=self.read_in_loop if all(in_loop) else None,
            announce=self._announce if any(part.announce for part in parts) else None,
            columns=lambda: self.columns,
            made_of=self.made_of,
            records_of=self.by_part,
            describe_key=self.describe_key,
            grows_within=any(part.grows for part in parts),
        )

    def _announce(self, keys: Int64s) -> None:
        indices, parts = np.divmod(keys, len(self._sources))
        for part in distinct(parts):
            announce = self._facts[part].announce
            if announce is not None:
                announce(indices[parts == part] % self._lengths[part])

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Fingerprints of all parts, by name."""
        of_parts = {
            f"part {short_repr(name)}": fingerprint_of(source)
            for name, source in self.parts.items()
        }
        return {"kind": "MixedSource", **of_parts}

    def __reduce__(self) -> tuple[type[MixedSource], tuple[dict[str, Any]]]:
        return type(self), (self.parts,)

    def __repr__(self) -> str:
        return f"MixedSource({len(self.parts)} parts: {first_few(self._names, 8)})"


def _named(parts: Any) -> dict[str, Any]:
    if isinstance(parts, MixedSource):
        return dict(parts.parts)
    if isinstance(parts, (list, tuple)):
        parts = {str(number): part for number, part in enumerate(parts)}
    if not isinstance(parts, Mapping):
        raise TypeError(
            f"a mix takes a dict of sources by name, or a list of sources, not {a_kind_of(parts)} "
            f"({short_repr(parts)}). Pass a dict or a list of sources."
        )
    wrong = [name for name in parts if not isinstance(name, str)]
    if wrong:
        raise TypeError(
            f"the name {short_repr(wrong[0])} of a part of a mix is {a_kind_of(wrong[0])}. Use "
            "strings as names."
        )
    if not parts:
        raise ValueError(
            "the dict or list of the sources of a mix is empty. Pass at least one source."
        )
    return dict(parts)


def _as_part(name: str, part: Any) -> DataSource[Any]:
    try:
        source = as_source(part)
        length = len(source)
    except (TypeError, ValueError) as error:
        raise type(error)(f"part {short_repr(name)} of the mix: {shorten(error, 400)}.") from None
    if not length:
        raise ValueError(
            f"part {short_repr(name)} of the mix is empty. Leave it out, and its weight too."
        )
    return source


class MixedColumn:
    """Column of a mix, with the part of an array's interface that `Batch` uses.

    Rows are found by the keys of the mix.

    Args:
        parts: the column of each part.
        groups: groups the keys of a batch by part.
    """

    def __init__(self, parts: Sequence[Array], groups: LastResult[Groups]) -> None:
        self._takes = [part.take for part in parts]
        self._groups = groups
        self.dtype = parts[0].dtype
        self.shape = (sum(map(len, parts)), *parts[0].shape[1:])
        self.nbytes = sum(part.nbytes for part in parts)

    def __len__(self) -> int:
        return int(self.shape[0])

    def rows_of(self, keys: Int64s) -> tuple[Array, Int64s]:
        """Return the rows of `keys`, sorted by part, and for each key the position of its row."""
        groups = self._groups.of(keys)
        rows = np.empty((len(keys), *self.shape[1:]), self.dtype)
        for part, start, stop in groups.slices:
            self._takes[part](groups.indices[start:stop], 0, rows[start:stop], "clip")
        return rows, groups.back


def _mixed_columns(columns: Sequence[Any]) -> Any:
    """Return one tree of the columns of all parts.

    Return None if a part has no columns, if their structures, dtypes or shapes differ, or if one
    has texts or is itself a mix.

    Args:
        columns: the tree of columns of each part, or None.
    """
    import optree

    if any(tree is None for tree in columns):
        return None
    flat = [optree.tree_flatten(tree, none_is_leaf=True, namespace="headrace") for tree in columns]
    leaves, structure = [leaves for leaves, _ in flat], flat[0][1]
    kinds = [[(leaf.dtype, leaf.shape[1:]) for leaf in some] for some in leaves]
    if any(other != structure for _, other in flat) or any(kind != kinds[0] for kind in kinds):
        return None
    # of texts, or of a mix in a mix
    if not all(hasattr(leaf, "take") for some in leaves for leaf in some):
        return None
    groups = LastResult(lambda keys: grouped(*reversed(np.divmod(keys, len(columns)))))
    return structure.unflatten([MixedColumn(parts, groups) for parts in zip(*leaves)])
