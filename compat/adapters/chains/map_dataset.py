"""Grain's `MapDataset`, and the datasets that Grain makes by class (`ZipMapDataset`, …).

In: sources, and the operations to apply to their records. Out: elements at any index.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeVar

from ....chains.arguments import as_named, finite, indices_of
from ....chains.map_dataset import Chain as OurChain
from ....chains.map_dataset import MapDataset as OurMapDataset
from ....chains.nodes.choices import ByMap, Choice, OneAfterAnother
from ....chains.nodes.items import Applied, FlatMapped
from ....chains.nodes.joins import Chosen, Zipped
from ....chains.nodes.node import Node
from ....chains.nodes.reordered import Reordered
from ....chains.nodes.source_node import Source
from ....common.messages import first_few
from ....common.validation import warn, whole_number
from ....errors import StructureError
from ....operations import RandomMapTransform
from ....operations.function import as_kind
from ....operations.several import fan_out_of
from ....samplers.chain.index_maps import IndexMap, Repeat, Selected, Slice
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
    """A dataset with random access, in Grain's order.

    Begin with `source(…)`; each method returns another dataset. It has the methods of
    `headrace.MapDataset`. Random orders and random maps give what Grain gives for the same seeds.

    >>> MapDataset.range(5).shuffle(seed=1)[[0, 1, 2, 3, 4]]
    [1, 2, 3, 0, 4]
    """

    batch_class = Batch
    _stats = NO_STATS  # datasets of others take times with it

    def shuffle(self, seed: int | None = None, *, reseed_each_epoch: bool = True) -> MapDataset[T]:
        """Shuffle the elements of each epoch in Grain's random order.

        `repeat(reseed_each_epoch=False)` after it repeats the order of one epoch. Warns if it comes
        after `repeat()` without a number: then elements may come twice, or late, since there are no
        epochs.

        Args:
            seed: an int in [0, 2^32); None (default): derived from the last `seed(…)` before.
            reseed_each_epoch: no effect here.

        Raises:
            SeedError: if `seed` is None and no `seed(…)` comes before.
            TypeError, ValueError: if `seed` is not such an int.
        """
        node = self.root_node
        if node.length >= ENDLESS:
            warn(
                "shuffle after repeat() has no epochs: elements may come often or late. Shuffle "
                "first, then repeat."
            )
        order = Shuffle(node.length, shuffle_seed_of(seed, node.seeds))
        return self._made(Reordered(node, order))

    def random_map(self, transform: Any, *, seed: int | None = None) -> MapDataset[Any]:
        """Call a function with each element and Grain's random generator for the element's index.

        Args:
            transform: a function `(element, rng)`, or a `RandomMap`. `rng` is valid only during the
                call.
            seed: an int, 0 or more; None (default): derived from the last `seed(…)` before.

        Raises:
            SeedError: if `seed` is None and no `seed(…)` comes before.
        """
        kind = as_kind(RandomMapTransform, transform)
        own = seed_of("random_map", seed, self.root_node.seeds)
        return self._made(Applied(self.root_node, RandomAtIndex(kind, 1, own)))

    def slice(
        self, sl: builtins.slice | Sequence[int] | OurMapDataset[int], wrap_around: bool = False
    ) -> MapDataset[T]:
        """Select elements by a Python slice or by a list of indices (Grain 0.2.19).

        Elements selected by a list are in the order of the list.

        Args:
            sl: a slice; or indices in a list, an array or a dataset, all of which are read now.
            wrap_around: what an index past the end means: True: the same element again as in the
                first epoch; False (default): an element of the next epoch.

        Raises:
            IndexError: if the dataset is empty, and there are indices.
            TypeError: if the indices are not integers.
            ValueError: if a dataset of indices is endless.

        >>> list(MapDataset.range(10).slice([7, 2]))
        [7, 2]
        """
        length = self.root_node.length
        part: IndexMap
        if isinstance(sl, builtins.slice):
            part = Slice.of(sl, length, grain_length(self.root_node))
        else:
            indices = sl[range(finite("slice", len(sl)))] if isinstance(sl, OurMapDataset) else sl
            part = Selected(length if length < ENDLESS else 0, indices_of(indices, length))
        node = Reordered(self.root_node, part)
        return self._made(Reordered(node, Repeat(node.length, 1, False)) if wrap_around else node)

    def to_iter_dataset(
        self, read_options: Any = None, *, allow_nones: bool = False, **options: Any
    ) -> IterDataset[Any]:
        """Return the stream over one epoch.

        Args:
            read_options: how records are read ahead.
            allow_nones: True keeps elements that are None; False (default) omits them.
            **options: the other options of `headrace.MapDataset.to_iter_dataset`.
        """
        from .iter_dataset import IterDataset

        return IterDataset.of_node(self.root_node, read_options, allow_nones, **options)

    def __iter__(self) -> DatasetIterator[Any]:  # type: ignore[override]
        return iter(self.to_iter_dataset())

    @staticmethod
    def source(source: Any) -> MapDataset[Any]:
        """Make a dataset of the records of a source, which may be empty.

        Raise TypeError if it is not a source.

        >>> len(MapDataset.source([]))
        0
        """
        return Chain(
            Source(
                NoRecords() if isinstance(source, Sized) and not len(source) else as_source(source)
            )
        )

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> MapDataset[int]:
        """Make a dataset of the integers of Python's `range(start, stop, step)`."""
        numbers = range(start) if stop is None else range(start, stop, step)
        return MapDataset.source(RangeDataSource(numbers.start, numbers.stop, numbers.step))

    @staticmethod
    def concatenate(datasets: Sequence[OurMapDataset[Any]]) -> MapDataset[Any]:
        """Concatenate datasets: all elements of the first, then all of the second, and so on.

        Raises:
            TypeError: if one is not a `MapDataset`.
            ValueError: if there are no datasets, or one is endless.
        """
        named = _nodes("concatenate", datasets)
        named = {name: node for name, node in named.items() if node.length} or named
        lengths = [
            finite(
                "concatenate",
                grain_length(node),
                f"Cannot concatenate infinite datasets (dataset {name})",
            )
            for name, node in named.items()
        ]
        return _chosen(named, OneAfterAnother(tuple(lengths)))

    @staticmethod
    def mix(  # type: ignore[override]
        datasets: Sequence[OurMapDataset[Any]], weights: Sequence[float] | None = None
    ) -> MapDataset[Any]:
        """Mix the elements of several datasets in Grain's order.

        As in Grain, the mix ends early enough that no element of a dataset comes a second time.

        Args:
            datasets: datasets that are not empty.
            weights: a positive number for each dataset; None (default): all equal.

        Raises:
            ValueError: if a dataset is empty, or a weight is not positive.

        >>> datasets = [MapDataset.range(6), MapDataset.range(10, 12)]
        >>> MapDataset.mix(datasets, [0.75, 0.25])[[0, 1, 2, 3]]
        [0, 1, 2, 10]
        """
        named = _nodes("mix", datasets)
        lengths = tuple(node.length for node in named.values())
        if empty := [number for number, length in enumerate(lengths) if not length]:
            raise ValueError(
                "All datasets must have positive length for mixing, but dataset(s) at index "
                f"{first_few(empty)} are empty. Leave these datasets out."
            )
        return _chosen(named, Mix(lengths, whole_weights(weights, len(lengths))))

    @staticmethod
    def select_from_datasets(
        datasets: Sequence[OurMapDataset[Any]], selection_map: Any
    ) -> MapDataset[Any]:
        """Take each element from the dataset and the index that `selection_map` returns.

        Args:
            datasets: the datasets.
            selection_map: returns, for an index, `(index of the dataset, index in it)`.

        Raises:
            IndexError: when an element is made, if the map returns the index of a dataset that does
                not exist.
        """
        named = _nodes("select_from_datasets", datasets)
        return _chosen(named, ByMap(selection_map, len(named)))

    def _made(self, node: Node) -> MapDataset[Any]:
        return Chain(node)


class Chain(MapDataset[T], OurChain[T]):
    """A dataset that was returned by a method of another dataset."""

    def __len__(self) -> int:
        """Return the number of elements in an epoch.

        For an endless dataset it is `sys.maxsize`; a batch divides this number, as in Grain.
        """
        return grain_length(self._tree)

    def __getitem__(self, index: Any) -> Any:
        """Return the element at an index; error messages have Grain's wording."""
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
    """Base of datasets that programs make by a class, not by a method."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Chain, (self._tree,)


class WindowShuffleMapDataset(_Named):
    """A dataset whose windows of consecutive indices are shuffled, in Grain's order.

    Args:
        parent: the dataset.
        window_size: number of indices in a window.
        seed: an int in `[0, 2^32)`.

    Raises:
        ValueError: if `window_size` is not positive.

    >>> from headrace.compat.grain import MapDataset
    >>> shuffled = WindowShuffleMapDataset(MapDataset.range(6), window_size=3, seed=1)
    >>> sorted(shuffled[[0, 1, 2]])
    [0, 1, 2]
    """

    def __init__(self, parent: OurMapDataset[Any], *, window_size: int, seed: int) -> None:
        window = whole_number("window_size", window_size, 1, None, "a positive int")
        super().__init__(
            Reordered(parent.root_node, WindowShuffle(window, seed, parent.root_node.length))
        )


class ZipMapDataset(_Named):
    """A dataset of tuples of the elements that the datasets `parents` have at the same index.

    Raises:
        ValueError: if the list is empty, or the lengths differ.
    """

    def __init__(self, parents: Sequence[OurMapDataset[Any]]) -> None:
        if not parents:
            raise ValueError(
                "At least one parent must be provided. Pass ZipMapDataset a list of at least one "
                "dataset."
            )
        datasets, _ = as_named("ZipMapDataset", list(parents), OurMapDataset)
        lengths = list(map(len, datasets))
        if len(set(lengths)) > 1:
            raise ValueError(
                f"All parents must have the same length. They have {lengths[:20]}. Slice the "
                "longer ones to the length of the shortest."
            )
        super().__init__(Zipped(tuple(each.root_node for each in datasets)))


class FlatMapMapDataset(_Named):
    """A dataset in which each element of its parent becomes several elements.

    An index for which there is no element gives None.

    Args:
        parent: the dataset.
        transform: a flat map; its `max_fan_out` is the number of indices for each element.
    """

    def __init__(self, parent: OurMapDataset[Any], transform: Any) -> None:
        super().__init__(FlatMapped(parent.root_node, fan_out_of(transform, None)))
