"""Grain's MapDataset: ours, in Grain's order; and datasets that are made by name, in place of by a method.

In: sources, and what is to be done to their records. Out: elements at any index.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ....chains.arguments import as_named, finite, indices_of
from ....chains.map_dataset import Chain as OurChain
from ....chains.map_dataset import MapDataset as OurMapDataset
from ....chains.nodes.choices import ByMap, Choice, OneAfterAnother
from ....chains.nodes.items import Applied, FlatMapped
from ....chains.nodes.joins import Chosen, Zipped
from ....chains.nodes.node import Node, Source
from ....chains.nodes.reordered import Reordered
from ....common.messages import first_few
from ....common.validation import warn, whole_number
from ....errors import StructureError
from ....operations import RandomMapTransform
from ....operations.function import as_kind
from ....operations.transforms import fan_out_of
from ....samplers.index_maps import IndexMap, Repeat, Selected, Slice
from ....samplers.protocol import ENDLESS
from ....sources import as_source
from ..inner.stats import NO_STATS
from ..sources import NoRecords, RangeDataSource
from ..transforms import Batch
from ..wording import reword
from .at_index import RandomAtIndex
from .lengths import grain_length
from .orders import Mix, Shuffle, WindowShuffle, whole_weights
from .seeds import seed_of, shuffle_seed_of

if TYPE_CHECKING:
    from .iter_dataset import IterDataset
    from .iterators import DatasetIterator

T = TypeVar("T")


class MapDataset(OurMapDataset[T]):
    """Elements at any index, in Grain's order: `source(…)`, and methods that each give another dataset.

    Its methods are those of `headrace.MapDataset`. What is random gives what Grain gives for the same seeds.

    >>> MapDataset.range(5).shuffle(seed=1)[[0, 1, 2, 3, 4]]
    [1, 2, 3, 0, 4]
    """

    batch_class = Batch
    _stats = NO_STATS  # datasets of others take times with it

    def shuffle(self, seed: int | None = None, *, reseed_each_epoch: bool = True) -> MapDataset[T]:
        """The elements in Grain's random order; `repeat(reseed_each_epoch=False)` repeats the order of one epoch.

        After `repeat()` without a number, any element may come at any index, which is a warning.

        Raises:
            SeedError: there is no seed.
        """
        node = self.root_node
        if node.length >= ENDLESS:
            warn("shuffle after repeat() has no epochs: elements may come often or late. Shuffle first, then repeat.")
        order = Shuffle(node.length, shuffle_seed_of(seed, node.seeds))
        return self._made(Reordered(node, order))

    def random_map(self, transform: Any, *, seed: int | None = None) -> MapDataset[Any]:
        """A function of each element and Grain's generator of its index.

        Args:
            transform: a function `(element, rng)`, or a `RandomMap`. The generator is valid during the call.
            seed: any number that is not negative; None (default): made of that of `seed()` before.

        Raises:
            SeedError: there is no seed.
        """
        kind = as_kind(RandomMapTransform, transform)
        own = seed_of("random_map", seed, self.root_node.seeds)
        return self._made(Applied(self.root_node, RandomAtIndex(kind, 1, own)))

    def slice(
        self, sl: builtins.slice | Sequence[int] | OurMapDataset[int], wrap_around: bool = False
    ) -> MapDataset[T]:
        """The elements at some indices: those that a slice of Python's means, or, as in Grain 0.2.19, any, in their order.

        Args:
            sl: a slice; or indices, in a list, an array, or a dataset, which is read once.
            wrap_around: an index past the end is in the first epoch again; False (default): in the next one.

        >>> list(MapDataset.range(10).slice([7, 2]))
        [7, 2]
        """
        length = self.root_node.length
        part: IndexMap
        if isinstance(sl, builtins.slice):
            part = Slice.of(sl, length, grain_length(self.root_node))
        else:
            indices = sl[range(finite("slice", len(sl)))] if isinstance(sl, OurMapDataset) else sl
            part = Selected(length if length < ENDLESS else 0, indices_of(indices))
        node = Reordered(self.root_node, part)
        return self._made(Reordered(node, Repeat(node.length, 1, False)) if wrap_around else node)

    def to_iter_dataset(
        self, read_options: Any = None, *, allow_nones: bool = False, **options: Any
    ) -> IterDataset[Any]:
        """The stream of one epoch.

        Args:
            read_options: how records are read ahead.
            allow_nones: True keeps elements that are None.
            **options: those that `headrace.MapDataset` has besides.
        """
        from .iter_dataset import IterDataset

        return IterDataset.of_node(self.root_node, read_options, allow_nones, **options)

    def __iter__(self) -> DatasetIterator[Any]:  # type: ignore[override]
        return iter(self.to_iter_dataset())

    @staticmethod
    def source(source: Any) -> MapDataset[Any]:
        """The records of a source; there may be none.

        >>> len(MapDataset.source([]))
        0
        """
        return Chain(Source(NoRecords() if hasattr(source, "__len__") and not len(source) else as_source(source)))

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> MapDataset[int]:
        """The integers of Python's `range`."""
        numbers = range(start) if stop is None else range(start, stop, step)
        return MapDataset.source(RangeDataSource(numbers.start, numbers.stop, numbers.step))

    @staticmethod
    def concatenate(datasets: Sequence[OurMapDataset[Any]]) -> MapDataset[Any]:
        """All elements of the first dataset, then those of the second, and so on."""
        named = _nodes("concatenate", datasets)
        named = {name: node for name, node in named.items() if node.length} or named
        lengths = [
            finite(f"Cannot concatenate infinite datasets (dataset {name})", grain_length(node))
            for name, node in named.items()
        ]
        return _chosen(named, OneAfterAnother(tuple(lengths)))

    @staticmethod
    def mix(  # type: ignore[override]
        datasets: Sequence[OurMapDataset[Any]], weights: Sequence[float] | None = None
    ) -> MapDataset[Any]:
        """Elements of several datasets in Grain's order. It ends before a dataset would have to begin again.

        Args:
            datasets: none of them empty.
            weights: positive; None (default): all equal.

        >>> MapDataset.mix([MapDataset.range(6), MapDataset.range(10, 12)], [0.75, 0.25])[[0, 1, 2, 3]]
        [0, 1, 2, 10]
        """
        named = _nodes("mix", datasets)
        lengths = tuple(node.length for node in named.values())
        if empty := [number for number, length in enumerate(lengths) if not length]:
            raise ValueError(
                f"All datasets must have positive length for mixing, but dataset(s) at index {first_few(empty)} have none; "
                "leave these out."
            )
        return _chosen(named, Mix(lengths, whole_weights(weights, len(lengths))))

    @staticmethod
    def select_from_datasets(datasets: Sequence[OurMapDataset[Any]], selection_map: Any) -> MapDataset[Any]:
        """Elements of several datasets, as `selection_map[index]` says: `(number of the dataset, index in it)`."""
        named = _nodes("select_from_datasets", datasets)
        return _chosen(named, ByMap(selection_map, len(named)))

    def _made(self, node: Node) -> MapDataset[Any]:
        return Chain(node)


class Chain(MapDataset[T], OurChain[T]):
    """A dataset that one of the methods made."""

    def __len__(self) -> int:
        """Number of elements in an epoch. That of an endless dataset is `sys.maxsize`, which a batch divides, as in Grain."""
        return grain_length(self._tree)

    def __getitem__(self, index: Any) -> Any:
        """The element at an index; errors have Grain's words."""
        try:
            return super().__getitem__(index)
        except StructureError as error:
            reword(error)
            raise


def _nodes(method: str, datasets: Any) -> dict[str, Node]:
    listed, _ = as_named(method, datasets, OurMapDataset)
    return {str(number): dataset.root_node for number, dataset in enumerate(listed)}


def _chosen(named: dict[str, Node], choice: Choice) -> MapDataset[Any]:
    _ = choice.length  # an error in what was passed is told now
    return Chain(Chosen(tuple(named.values()), tuple(named), choice))


class _Named(Chain[Any]):
    """A dataset that a class makes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Chain, (self._tree,)


class WindowShuffleMapDataset(_Named):
    """Each window of consecutive indices in Grain's random order.

    >>> from headrace.compat.grain import MapDataset
    >>> shuffled = WindowShuffleMapDataset(MapDataset.range(6), window_size=3, seed=1)
    >>> sorted(shuffled[[0, 1, 2]])
    [0, 1, 2]
    """

    def __init__(self, parent: OurMapDataset[Any], *, window_size: int, seed: int) -> None:
        window = whole_number("window_size", window_size, 1, None, "a positive int")
        super().__init__(Reordered(parent.root_node, WindowShuffle(window, seed, parent.root_node.length)))


class ZipMapDataset(_Named):
    """Tuples of the elements that datasets of one length have at the same index.

    Raises:
        ValueError: there is none, or their lengths differ.
    """

    def __init__(self, parents: Sequence[OurMapDataset[Any]]) -> None:
        if not parents:
            raise ValueError("At least one parent must be provided. Pass ZipMapDataset a list of datasets.")
        datasets, _ = as_named("ZipMapDataset", list(parents), OurMapDataset)
        lengths = list(map(len, datasets))
        if len(set(lengths)) > 1:
            raise ValueError(f"All parents must have the same length. They have {lengths[:20]}; slice the longer ones.")
        super().__init__(Zipped(tuple(each.root_node for each in datasets)))


class FlatMapMapDataset(_Named):
    """Several elements of each; those that are not there are None.

    Args:
        parent: the dataset.
        transform: has `max_fan_out`, the number of indices for each element.
    """

    def __init__(self, parent: OurMapDataset[Any], transform: Any) -> None:
        super().__init__(FlatMapped(parent.root_node, fan_out_of(transform, None)))
