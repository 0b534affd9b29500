"""`MapDataset`: a chain of datasets with random access."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..common.messages import short_repr
from ..migration_hints.decorators import explains_arguments
from ..migration_hints.remarks import NotHere, Remarks
from ..samplers.mix.weights import MaxEpochs, Schedule, Weights
from ..samplers.protocol import ENDLESS
from ..sources import RangeDataSource, as_source
from ..sources.facts import SourceFacts
from .arguments import as_named, finite, indices_of, joins, not_empty, warn_of_exchange
from .elements import at_any_index
from .map_methods import MapMethods
from .nodes.choices import ByMap, ByWeights, Choice, OneAfterAnother
from .nodes.joins import Chosen, Own, Zipped
from .nodes.node import Evaluated, Get, Node, fingerprint_of_node
from .nodes.source_node import Source

if TYPE_CHECKING:
    from ..common.costs import Cost
    from ..loader import DataLoaderIterator, ReadOptions
    from ..samplers import GrowthOptions, ShardOptions
    from ..samplers.balance import BalanceLike
    from ..sources.lengths import LengthsLike
    from ..sources.protocol import SourceLike
    from ..sources.provenance import UsedRecord
    from .iter_dataset import IterDataset

T = TypeVar("T")


@explains_arguments
class MapDataset(MapMethods["MapDataset[Any]"], Remarks, ABC, Generic[T]):
    """Dataset with an element at any index. `source(…)` creates one; each method returns another.

    An element is made only when it is requested. An index past the end is in a later epoch: there,
    shuffles and batches by budget differ, random maps draw other numbers, mixes continue, and all
    else repeats. Negative indices are in epochs before the first. An element that a filter dropped
    is None, and stays None in later methods; `zip` puts the None into its result.

    `iter(dataset)` runs on the engine of `DataLoader`: in order, with read-ahead and states, and
    without elements that are None. For worker processes, batches after a filter, and devices, see
    `to_iter_dataset`.

    For a dataset of your own, write a subclass with `__len__` and `__getitem__(int)`. After
    `super().__init__(parent)`, `self._parent` is the dataset from which it is made. It can be used
    anywhere in a chain. Its `__getitem__` is called with one int at a time, also if the user passes
    slices and lists.

    >>> import headrace
    >>> dataset = headrace.MapDataset.source([1, 2, 3, 4]).shuffle(seed=0)
    >>> dataset = dataset.map(lambda x: x * 10).batch(2)
    >>> len(dataset), sorted(np.concatenate(list(dataset)).tolist())
    (2, [10, 20, 30, 40])
    >>> dataset[0].tolist() == next(iter(dataset)).tolist()
    True
    """

    _asked_as = "MapDataset"

    if not TYPE_CHECKING:
        __add__ = NotHere(
            "datasets are not added; use headrace.MapDataset.concatenate([dataset, dataset])."
        )

    _parents: tuple[MapDataset[Any], ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__getitem__" in vars(cls):
            cls.__getitem__ = at_any_index(cls.__getitem__)  # type: ignore[method-assign]

    def __init__(self, parents: MapDataset[Any] | Sequence[MapDataset[Any]] = ()) -> None:
        self._parents = (parents,) if isinstance(parents, MapDataset) else tuple(parents)

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of elements in an epoch; `sys.maxsize` for an endless dataset."""

    @abstractmethod
    def __getitem__(self, index: Any) -> Any:
        """Return the element at an index; None if a filter dropped it.

        Return a dataset for a slice, and a list of elements for a list or array of indices.

        Raises:
            IndexError: if an index exceeds 64 bits, the dataset is empty, or an index of an endless
                mix is negative.
            TypeError: if the index is not a whole number, a slice, or a list of whole numbers.
            ValueError: if the step of a slice is 0.

        >>> dataset = MapDataset.range(10).filter(lambda x: x % 2 == 0)
        >>> dataset[4], dataset[5], dataset[14], dataset[[0, 1, -2]], len(dataset[2:6])
        (4, None, 4, [0, None, 8], 4)
        """

    @property
    def parents(self) -> Sequence[MapDataset[Any]]:
        """The datasets from which this dataset is made; empty for a source."""
        return self._parents

    @property
    def _parent(self) -> MapDataset[Any]:
        (parent,) = self._parents
        return parent

    @property
    def root_node(self) -> Node:
        return Own(tuple(parent.root_node for parent in self._parents), self)

    def __getitems__(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[Any]:
        """Return a list of the elements at several indices, an array or list of ints.

        Loaders that use the dataset as a source call this. Raise TypeError if the indices are not
        ints.

        >>> MapDataset.range(10).map(lambda x: x * 10).__getitems__([1, 2])
        [10, 20]
        """
        return list(self.root_node.records(indices_of(indices, len(self))))

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        """Return the records of sources from which the element at an index is made.

        For the elements of a loader, use `headrace.trace`.

        >>> pairs = MapDataset.zip({"up": MapDataset.range(10), "down": MapDataset.range(10)[::-1]})
        >>> [(used.datasets, used.key) for used in pairs.made_of(3)]
        [(('up',), 3), (('down',), 6)]
        """
        not_empty(len(self))
        return self.root_node.made_of(index)

    @property
    def facts(self) -> SourceFacts:
        """Facts about the dataset that a `DataLoader` needs if the dataset is its `data_source`.

        A loader of the dataset does not read records that are appended later to the dataset's
        source.
        """
        return Evaluated(self.root_node, len(self)).facts._replace(checks_keys=False)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Values that identify the dataset in states: kind, length and a digest of the chain."""
        return fingerprint_of_node(self.root_node)

    def __iter__(self) -> DataLoaderIterator:
        return iter(self.to_iter_dataset())

    def to_iter_dataset(
        self,
        read_options: ReadOptions | None = None,
        *,
        allow_nones: bool = False,
        shard_options: ShardOptions | None = None,
        balance: BalanceLike | None = None,
        lengths: LengthsLike | None = None,
        growth: Literal["epoch", "now", "hand"] | GrowthOptions | None = None,
    ) -> IterDataset[Any]:
        """Return the stream of one epoch: the same elements in the same order, as an `IterDataset`.

        Shuffles, slices and repeats, and operations on elements, run as in a `DataLoader`. Some
        methods run where records are read, on the reader threads of `read_options` (if it has any),
        with everything before them: a join such as `mix` or `zip`, a `pack` or `budget_batch`, a
        dataset of your own, and a shuffle or slice of batches or of elements that depend on their
        index.

        Args:
            read_options: how records are read ahead. None (default): `ReadOptions()`.
            allow_nones: True keeps elements that are None. False (default) drops them.
            shard_options: the shard of this process: every shard_count-th record (or element, if
                elements are made where records are read). None (default): all.
            balance: True, a cost function or a `Balance`: shards get records of equal cost in each
                global batch.
            lengths: lengths of the source's records for `balance`: an array, a field, a file or a
                function.
            growth: when appended records of a source with `growing=True` are read: "epoch"
                (default: from the next epoch on), "now" (in the current one), "hand" (only when a
                loader is made) or `GrowthOptions`. This needs `source(…).shuffle(…).repeat(…)`,
                each at most once and with a new order in each epoch, then operations on elements.
                Other chains, and mixes, keep the records they began with: pass "hand" for these.

        Raises:
            TypeError: if an argument has a wrong type, or `lengths` is given without `balance`.
            ValueError: if a source grows, this chain cannot read appended records, and `growth` is
                not "hand"; or if no source has `growing=True`, and `growth` is given and not
                "hand".

        >>> MapDataset.range(6).filter(lambda x: x % 2).to_iter_dataset().batch(2)
        IterDataset(1 source, 2 operations)
        """
        from .iter_dataset import IterDataset
        from .stream import stream_of

        return IterDataset.of_stream(
            stream_of(
                self.root_node, read_options, allow_nones, shard_options, balance, lengths, growth
            )
        )

    @staticmethod
    def source(source: SourceLike) -> MapDataset[Any]:
        """Make a dataset of a source: anything `DataLoader` accepts, or a list or dict of arrays.

        Raise TypeError for other data, and ValueError for an empty list or array.

        >>> MapDataset.source("a b c".split())[1]
        'b'
        """
        return Chain(Source(as_source(source)))

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> MapDataset[int]:
        """Make a dataset of Python's `range(start, stop, step)`, or of `range(start)`.

        Raise ValueError if the range is empty.

        >>> list(MapDataset.range(1, 10, 4))
        [1, 5, 9]
        """
        return Chain(Source(RangeDataSource(start, stop, step)))

    @joins
    @staticmethod
    def concatenate(datasets: Sequence[MapDataset[Any]]) -> MapDataset[Any]:
        """Concatenate datasets. The next epoch consists of the next epoch of each dataset.

        Raises:
            TypeError, ValueError: if one is not a `MapDataset` or is endless; or if there are none.

        >>> list(MapDataset.concatenate([MapDataset.range(2), MapDataset.range(5, 7)]))
        [0, 1, 5, 6]
        """
        named = _nodes("concatenate", datasets)
        lengths = [
            finite("concatenate", node.length, f"concatenate (dataset {name})")
            for name, node in named.items()
        ]
        return Chain(_chosen(named, OneAfterAnother(tuple(lengths))))

    @joins
    @staticmethod
    def select_from_datasets(
        datasets: Sequence[MapDataset[Any]], selection_map: Any
    ) -> MapDataset[Any]:
        """Select elements of several datasets, as `selection_map[index]` says.

        Args:
            datasets: datasets of any lengths.
            selection_map: object whose `__getitem__` takes an index of the result, and returns a
                pair: index of the dataset, index in this dataset. Its `__len__` is the length of
                the result. If later epochs are read, it gets indices past the end, too.

        Raises:
            TypeError, ValueError: if one is not a `MapDataset`, there are none, or `selection_map`
                has no length.
            IndexError: when an element is made, if the map returns the index of a dataset that does
                not exist.

        >>> swapped = [(1, 0), (0, 0)]
        >>> datasets = [MapDataset.range(2), MapDataset.range(5, 7)]
        >>> list(MapDataset.select_from_datasets(datasets, swapped))
        [5, 0]
        """
        named = _nodes("select_from_datasets", datasets)
        return Chain(_chosen(named, ByMap(selection_map, len(named))))

    @joins
    @staticmethod
    def mix(
        datasets: Sequence[MapDataset[Any]] | Mapping[str, MapDataset[Any]],
        weights: Weights | Schedule | None = None,
        *,
        when_exhausted: Literal["first", "all", "repeat"] = "first",
        max_epochs: MaxEpochs | None = None,
        ramp: bool = False,
        records_per_step: int = 1,
    ) -> MapDataset[Any]:
        """Mix several datasets. Up to every index, the numbers of elements follow the weights.

        Shuffle the datasets, not the mix. The stream of a mix can be resumed with other weights or
        datasets by `set_state(state, strict=False)`, like a loader that mixes sources.

        Args:
            datasets: a list, or a dict by name.
            weights: numbers in a list or dict, which need not sum to one; or a schedule,
                `[(first_step, weights), …]`. None (default): equal weights.
            when_exhausted: "first" (default): end when a dataset that has run out is needed. "all":
                continue without it, until all have run out. "repeat": continue with its next epoch,
                without end.
            max_epochs: number of epochs after which a dataset leaves the mix, whatever
                `when_exhausted` is: a dict by name, or a list (None in it: no limit). The other
                datasets then get its positions, by their weights. None (default): no limits.
            ramp: True changes weights linearly from one stage of a schedule to the next. Default
                False.
            records_per_step: elements of the mix in a step of the schedule. 1 (default) counts
                elements; the batch size, of all shards together, counts batches.

        Raises:
            TypeError, ValueError: if datasets or weights have a wrong type or do not fit, or a
                dataset is empty.

        >>> web, books = MapDataset.source(["w"] * 70), MapDataset.source(["b"] * 30)
        >>> mixed = MapDataset.mix({"web": web, "books": books}, {"web": 0.7, "books": 0.3})
        >>> len(mixed), "".join(mixed[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]])
        (100, 'wbwwbwwwbw')
        """
        named = _nodes("mix", datasets)
        lengths = {name: node.length for name, node in named.items()}
        if empty := [name for name, length in lengths.items() if not length]:
            raise ValueError(f"mix: dataset {empty[0]} is empty. Leave it out, and its weight too.")
        return Chain(
            _chosen(
                named,
                ByWeights(lengths, weights, when_exhausted, ramp, records_per_step, max_epochs),
            )
        )

    @joins
    @staticmethod
    def zip(datasets: Sequence[MapDataset[Any]] | Mapping[str, MapDataset[Any]]) -> MapDataset[Any]:
        """Combine the elements that datasets of equal length have at an index.

        The result is a tuple, or a dict if the datasets are in a dict.

        Raises:
            TypeError, ValueError: if one of them is not a `MapDataset`, if there are none, or if
                their lengths differ.

        >>> list(MapDataset.zip([MapDataset.range(2), MapDataset.range(5, 7)]))
        [(0, 5), (1, 6)]
        """
        nodes = _nodes("zip", datasets)
        lengths = {
            name: node.length if node.length < ENDLESS else "endless"
            for name, node in nodes.items()
        }
        if len({*lengths.values()}) > 1:
            raise ValueError(
                f"zip: the datasets have different lengths, {short_repr(lengths)}. Slice the "
                "longer ones to the length of the shortest."
            )
        return Chain(
            Zipped(tuple(nodes.values()), tuple(datasets) if isinstance(datasets, Mapping) else ())
        )

    def _made(self, node: Node) -> MapDataset[Any]:
        return Chain(node)


class Chain(MapDataset[T]):
    """A dataset that a method of another dataset returned.

    Args:
        node: makes the elements; the top of a tree that has a node for each method call.
    """

    def __init__(self, node: Node) -> None:
        self._tree = node

    @property
    def root_node(self) -> Node:
        return self._tree

    @property
    def _parents(self) -> tuple[MapDataset[Any], ...]:  # type: ignore[override]
        return tuple(map(self._made, self._tree.inputs))

    @property
    def lengths(self) -> Any:
        """Lengths of the elements of an epoch, which the source states: array or dict of arrays.

        None if the source states no lengths, if operations may have changed them, or if the dataset
        is endless.
        """
        length = self._tree.length
        return (
            None if length >= ENDLESS else self._tree.lengths_at(np.arange(length, dtype=np.int64))
        )

    def packed_costs(self, cost: Cost | None = None) -> Any:
        """Return the cost of each row that `pack` made, as an array.

        The cost of a row is the sum of its segments' costs. Return None for any other dataset.

        Args:
            cost: function of an array of lengths, such as `headrace.attention(a, b)`. None
                (default): the cost is the length.
        """
        return self._tree.packed_costs(cost)

    @cached_property
    def _get(self) -> Get:
        not_empty(len(self))
        return self._warning(self._tree.getter()) if self._tree.exchanges else self._tree.getter()

    def _warning(self, get: Get) -> Get:
        """Wrap `get`, a function that returns the element at an index, so that it can warn.

        The new function warns once, at the first index outside the first epoch.
        """
        node, warned = self._tree, list[bool]()

        def warning(index: int) -> Any:
            if not (warned or 0 <= index < node.length):
                warned.append(True)
                warn_of_exchange(node, f"index {short_repr(index)} of {node.length} elements")
            return get(index)

        return warning

    def __len__(self) -> int:
        return self._tree.length

    def __getitem__(self, index: int) -> Any:
        return self._get(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._tree,)

    def __repr__(self) -> str:
        return f"MapDataset({self._tree.kind}, {self._tree.length} elements)"


def _nodes(method: str, datasets: Any) -> dict[str, Node]:
    listed, names = as_named(method, datasets, MapDataset)
    return dict(
        zip(names or map(str, range(len(listed))), (dataset.root_node for dataset in listed))
    )


def _chosen(named: dict[str, Node], choice: Choice) -> Chosen:
    _ = choice.length  # an error in what was passed is told now
    return Chosen(tuple(named.values()), tuple(named), choice)
