"""What one does to a dataset with random access: the methods that each give another one.

In: a dataset, and what is to be done to its elements. Out: a dataset.
"""

from __future__ import annotations

import builtins
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..common.messages import short_repr
from ..common.validation import true_or_false, whole_number
from ..migration_hints.decorators import explains_arguments
from ..operations import Batch, Filter, MapTransform, MapWithIndexTransform, Pack, RandomMapTransform
from ..operations.keyed import KeyedRandomMap
from ..operations.packing.rules import Strategy
from ..samplers.index_maps import BlockShuffle, IndexMap, Repeat, Shuffle, Slice, WindowShuffle
from .arguments import BELOW_2_64, checked_seed, finite, seed_of, warn_of_exchange
from .nodes.items import Batched, Filtered, FlatMapped, IndexMapped, Mapped, RandomMapped
from .nodes.node import Node
from .nodes.packed import Packed
from .nodes.reordered import Reordered, Seeded
from .transforms import as_kind, each_of, fan_out_of, method_for

if TYPE_CHECKING:
    from .map_dataset import MapDataset

T = TypeVar("T")


@explains_arguments
class MapMethods(Generic[T]):
    """Base of `MapDataset`, which has all but the methods."""

    @property
    @abstractmethod
    def _node(self) -> Node: ...

    @abstractmethod
    def _made(self, node: Node) -> MapDataset[Any]:
        """The dataset of a node."""

    def seed(self, seed: int) -> MapDataset[T]:
        """The same elements; what is random after it, without a seed of its own, takes one made of this one, each another.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.range(5).seed(1).shuffle()
        >>> sorted(dataset)
        [0, 1, 2, 3, 4]
        """
        return self._made(Seeded(self._node, checked_seed(seed)))

    def shuffle(self, seed: int | None = None, *, reseed_each_epoch: bool = True) -> MapDataset[T]:
        """The elements in a random order; in O(1) memory, the same as `IndexSampler(shuffle=True, seed=seed)` gives.

        Args:
            seed: in `[0, 2^32)`; None (default): made of that of `seed()` before.
            reseed_each_epoch: False shuffles all epochs alike.

        Raises:
            SeedError: there is no seed.
            ValueError: the dataset never ends.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.range(5).shuffle(seed=1)
        >>> sorted(dataset), dataset[range(5)] == dataset[range(5, 10)]
        ([0, 1, 2, 3, 4], False)
        """
        own = seed_of("shuffle", seed, self._node.seeds)
        return self._reordered(Shuffle(finite("shuffle", self._node.length), own, _reseeds(reseed_each_epoch)))

    def window_shuffle(self, window_size: int, seed: int | None = None) -> MapDataset[T]:
        """The elements in a random order within each window of consecutive ones; for sources that read in order best.

        Raises:
            SeedError: there is no seed.
            ValueError: the window is not positive, or the dataset never ends.

        >>> from headrace import MapDataset
        >>> shuffled = list(MapDataset.range(6).window_shuffle(3, seed=0))
        >>> sorted(shuffled[:3]), sorted(shuffled[3:])
        ([0, 1, 2], [3, 4, 5])
        """
        window = whole_number("window_size", window_size, 1, None, "a positive int")
        own = seed_of("window_shuffle", seed, self._node.seeds)
        return self._reordered(WindowShuffle(finite("window_shuffle", self._node.length), window, own))

    def block_shuffle(self, block_size: int, seed: int | None = None) -> MapDataset[T]:
        """Blocks of consecutive elements in a random order, each in its own order inside.

        Raises:
            SeedError: there is no seed.
            ValueError: the block is not positive, or the dataset never ends.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(6).block_shuffle(2, seed=1))
        [2, 3, 0, 1, 4, 5]
        """
        block = whole_number("block_size", block_size, 1, None, "a positive int")
        own = seed_of("block_shuffle", seed, self._node.seeds)
        return self._reordered(BlockShuffle(finite("block_shuffle", self._node.length), block, own))

    def repeat(self, num_epochs: int | None = None, *, reseed_each_epoch: bool = True) -> MapDataset[T]:
        """Several epochs as one.

        Args:
            num_epochs: None (default) never ends.
            reseed_each_epoch: False gives the first epoch again and again.

        A part that was sliced from a shuffled dataset has other elements in each epoch, those of other parts too, which is a
        warning. Slice before `shuffle`.

        Raises:
            ValueError: the dataset never ends already, or `num_epochs` is not positive.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(2).repeat(2))
        [0, 1, 0, 1]
        """
        if num_epochs is not None:
            num_epochs = whole_number(
                "num_epochs", num_epochs, 1, None, "a positive int, or None for an endless dataset"
            )
        if num_epochs != 1 and _reseeds(reseed_each_epoch):
            warn_of_exchange(self._node, "repeat")
        return self._reordered(Repeat(finite("repeat", self._node.length), num_epochs, _reseeds(reseed_each_epoch)))

    def slice(self, sl: builtins.slice) -> MapDataset[T]:
        """The elements that a slice of Python's means; the same as `dataset[start:stop:step]`.

        To keep some records apart, for validation, slice before `shuffle`, which puts others into the slice in each epoch.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(10)[1::4])
        [1, 5, 9]
        """
        if not isinstance(sl, builtins.slice):
            raise TypeError(
                f"slice({short_repr(sl)}): pass a slice, slice(start, stop, step), or write dataset[start:stop]."
            )
        return self._reordered(Slice.of(sl, self._node.length))

    def map(self, transform: MapTransform | Callable[[T], Any]) -> MapDataset[Any]:
        """A function of each element.

        >>> from headrace import MapDataset
        >>> MapDataset.range(5).map(lambda x: x + 1)[2]
        3
        """
        return self._made(Mapped(self._node, as_kind(MapTransform, transform)))

    def random_map(
        self, transform: RandomMapTransform | Callable[..., Any], *, seed: int | None = None
    ) -> MapDataset[Any]:
        """A function of each element and a generator, which depends on seed and index alone.

        Args:
            transform: a function `(element, rng)`, or a `RandomMapTransform`.
            seed: in `[0, 2^64)`; None (default): made of that of `seed()` before.

        Raises:
            SeedError: there is no seed.

        >>> from headrace import MapDataset
        >>> noisy = MapDataset.range(5).random_map(lambda x, rng: x + rng.random(), seed=1)
        >>> noisy[2] == noisy[2], noisy[2] == noisy[7]
        (True, False)
        """
        node, kind = self._node, as_kind(RandomMapTransform, transform)
        own = seed_of("random_map", seed, node.seeds, BELOW_2_64)
        return self._made(RandomMapped(node, KeyedRandomMap(kind, own, node.operations)))

    def map_with_index(self, transform: MapWithIndexTransform | Callable[[int, T], Any]) -> MapDataset[Any]:
        """A function of the index, as it is asked for, and the element.

        >>> from headrace import MapDataset
        >>> MapDataset.range(5).map_with_index(lambda index, x: (index, x))[7]
        (7, 2)
        """
        return self._made(IndexMapped(self._node, as_kind(MapWithIndexTransform, transform)))

    def filter(self, transform: Filter | Callable[[T], bool]) -> MapDataset[T | None]:
        """None for elements that the function is false of. The length stays; iteration leaves them out.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.range(5).filter(lambda x: x % 2)
        >>> len(dataset), dataset[2], list(dataset)
        (5, None, [1, 3])
        """
        return self._made(Filtered(self._node, as_kind(Filter, transform)))

    def flat_map(self, transform: Any, max_fan_out: int | None = None) -> MapDataset[Any]:
        """Several elements of each. There are `max_fan_out` indices for each; those that are not needed have None.

        Args:
            transform: a function that gives a list of elements, or a `FlatMap`.
            max_fan_out: most elements of one; None (default): that of the `FlatMap`.

        Raises:
            ValueError: there is no `max_fan_out`.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.source(["to be", "or"]).flat_map(str.split, max_fan_out=3)
        >>> len(dataset), dataset[1], dataset[2], list(dataset)
        (6, 'be', None, ['to', 'be', 'or'])
        """
        flat_map = fan_out_of(transform, max_fan_out)
        if not flat_map.max_fan_out:
            raise ValueError(
                "flat_map of a MapDataset needs max_fan_out=, the most elements that one may become, to know what stands at an "
                "index; pass it, or use to_iter_dataset().flat_map(…), which needs none."
            )
        return self._made(FlatMapped(self._node, flat_map))

    def batch(
        self, batch_size: int, *, drop_remainder: bool = False, batch_fn: Callable[[Sequence[Any]], Any] | None = None
    ) -> MapDataset[Any]:
        """Consecutive elements as one, as `Batch` makes it. Each epoch has its own batches, unless `repeat` came before.

        Raises:
            ValueError: a filter or flat map came before, so that what makes a batch is not known from its index.

        >>> from headrace import MapDataset
        >>> [batch.tolist() for batch in MapDataset.range(5).batch(2)]
        [[0, 1], [2, 3], [4]]
        """
        if sparse := self._node.left_out_by:
            raise ValueError(
                f"`MapDataset.batch` can not follow `MapDataset.{sparse}`, which leaves elements out; make batches of the "
                "stream, to_iter_dataset().batch(…)."
            )
        return self._made(Batched(self._node, Batch(batch_size, drop_remainder, batch_fn)))

    def pack(
        self,
        length: int | Mapping[Any, Any],
        strategy: Strategy = "best_fit",
        window: int = 1000,
        *,
        lengths: Any = None,
        **settings: Any,
    ) -> MapDataset[Any]:
        """Documents as rows of one length, as `Pack` makes them; planned from their lengths, so that any row can be asked for.

        All epochs have the same rows; `shuffle` after it puts them in another order each. `repeat` before it packs several
        epochs, each in its order.

        Args:
            length: tokens of a row, as of `Pack`.
            strategy: likewise.
            window: likewise.
            lengths: of the elements, `int[len(dataset)]` or a dict of these by leaf; None (default): as the source tells them.
            **settings: other arguments of `Pack`.

        Raises:
            PackError: the lengths are unknown, because a map or filter came before, or the source does not tell them; or they
                are not as many as there are elements.

        >>> import numpy as np
        >>> from headrace import MapDataset
        >>> documents = [np.array([1, 1, 1]), np.array([2, 2, 2]), np.array([3])]
        >>> packed = MapDataset.source(documents).pack(4)
        >>> len(packed), packed[0]["tokens"].tolist(), packed[1]["tokens"].tolist()
        (2, [1, 1, 1, 3], [2, 2, 2, 0])
        """
        return self._packed(Pack(length, strategy, window, **settings), lengths)

    def apply(self, transformations: Any) -> MapDataset[Any]:
        """What a transform, or each of a list, makes of the dataset: `map` for a `MapTransform` and so on.

        >>> from headrace import MapDataset
        >>> [batch.tolist() for batch in MapDataset.range(4).apply([lambda x: x + 1, Batch(2)])]
        [[1, 2], [3, 4]]
        """
        dataset: Any = self
        for transform in each_of(transformations):
            dataset = method_for(dataset, transform)()
        return dataset  # type: ignore[no-any-return]

    def pipe(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """`function(dataset, *arguments, **named)`.

        >>> from headrace import MapDataset
        >>> MapDataset.range(5).pipe(len)
        5
        """
        return function(self, *arguments, **named)

    def _packed(self, pack: Pack, lengths: Any = None) -> MapDataset[Any]:
        return self._made(Packed.of(self._node, pack, lengths))

    def _reordered(self, index_map: IndexMap) -> MapDataset[T]:
        return self._made(Reordered(self._node, index_map))


def _reseeds(reseed_each_epoch: Any) -> bool:
    return true_or_false("reseed_each_epoch", reseed_each_epoch)
