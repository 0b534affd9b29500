"""The methods of a dataset with random access that change the order of its elements, or pack them as their lengths tell.

Those of other operations are in `operations/`, beside each.
"""

from __future__ import annotations

import builtins
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from ..common.messages import short_repr
from ..common.validation import true_or_false, whole_number
from ..migration_hints.decorators import explains_arguments
from ..operations import Operation, Pack
from ..operations.batch import BatchMethods
from ..operations.budget_batch import BudgetBatchMethods
from ..operations.chain import ChainT
from ..operations.packing.rules import Strategy
from ..operations.transforms import TransformMethods
from ..samplers.index_maps import BlockPermutation, IndexMap, Repeat, Selected, Shuffle, ShuffledWindows, Slice
from ..sources.omission.keys import Omit
from .arguments import BELOW_2_64, checked_seed, finite, indices_of, seed_of, warn_of_exchange
from .nodes.items import Packed, applied
from .nodes.node import Node
from .nodes.reordered import LivingElements, Reordered, Seeded

if TYPE_CHECKING:
    from ..sources.lengths import LengthsLike


@explains_arguments
class MapMethods(TransformMethods[ChainT], BatchMethods[ChainT], BudgetBatchMethods[ChainT]):
    """Base of `MapDataset`, which has all but the methods."""

    @property
    @abstractmethod
    def root_node(self) -> Node: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _made(self, node: Node) -> Any:
        """The dataset of a node."""

    def _then(self, operation: Operation) -> ChainT:
        return self._made(applied(self.root_node, operation))  # type: ignore[no-any-return]

    def _seed_for(self, method: str, seed: int | None) -> int:
        return seed_of(method, seed, self.root_node.seeds, BELOW_2_64)

    @property
    def _operation_count(self) -> int:
        return int(self.root_node.operations)

    def seed(self, seed: int) -> Self:
        """The same elements; what is random after it, without a seed of its own, takes one made of this one, each another.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.range(5).seed(1).shuffle()
        >>> sorted(dataset)
        [0, 1, 2, 3, 4]
        """
        return self._made(Seeded(self.root_node, checked_seed(seed)))  # type: ignore[no-any-return]

    def shuffle(self, seed: int | None = None, *, reseed_each_epoch: bool = True) -> Self:
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
        own = seed_of("shuffle", seed, self.root_node.seeds)
        return self._reordered(Shuffle(finite("shuffle", self.root_node.length), own, _reseeds(reseed_each_epoch)))

    def window_shuffle(self, window_size: int, seed: int | None = None) -> Self:
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
        own = seed_of("window_shuffle", seed, self.root_node.seeds)
        return self._reordered(ShuffledWindows(finite("window_shuffle", self.root_node.length), window, own))

    def block_shuffle(self, block_size: int, seed: int | None = None) -> Self:
        """Blocks of consecutive elements in a random order, each in its own order inside.

        Raises:
            SeedError: there is no seed.
            ValueError: the block is not positive, or the dataset never ends.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(6).block_shuffle(2, seed=1))
        [2, 3, 0, 1, 4, 5]
        """
        block = whole_number("block_size", block_size, 1, None, "a positive int")
        own = seed_of("block_shuffle", seed, self.root_node.seeds)
        return self._reordered(BlockPermutation(finite("block_shuffle", self.root_node.length), block, own))

    def repeat(self, num_epochs: int | None = None, *, reseed_each_epoch: bool = True) -> Self:
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
            warn_of_exchange(self.root_node, "repeat")
        return self._reordered(Repeat(finite("repeat", len(self)), num_epochs, _reseeds(reseed_each_epoch)))

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Self:
        """The elements at some indices of each epoch, in that order, as a dataset: a `split` by yourself.

        Args:
            indices: `int64[n]` or a list, in `[0, len(dataset))`; one may come several times.

        Raises:
            IndexError: one is outside.
            ValueError: the dataset never ends.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(10).select([7, 2]))
        [7, 2]
        """
        length, keys = finite("select", self.root_node.length), indices_of(indices)
        if len(keys) and not 0 <= keys.min() <= keys.max() < length:
            raise IndexError(f"select: index {keys[(keys < 0) | (keys >= length)][0]} is outside [0, {length}).")
        return self._reordered(Selected(length, keys))

    def omit(self, omit: Omit = ()) -> Self:
        """The elements without those of some records of the source; all others keep their order.

        Put it after `shuffle` and `repeat`: what comes after it arranges the elements that are left. Streams of it go on from
        states of a dataset from which nothing, or less, was left out. Random maps after it draw by the indices of now.

        Args:
            omit: an array, list or set of keys of the source's records; the path of a file of keys, one a line or `.npy`; or a
                function of a file's name and a row. Default: only those that the source says are gone, as `FormerKeys` does.

        Raises:
            TypeError, RecordKeyError, SourceError: it is none of these, or names a record that the source does not have.
            ValueError: the elements are not those of records of one source, which `shuffle` and `repeat` alone have arranged.
            EmptyStreamError: no record is left.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.range(8).shuffle(seed=1)
        >>> list(dataset.omit([2, 5])) == [key for key in dataset if key not in (2, 5)]
        True
        """
        return self._made(LivingElements.of(self.root_node, omit))  # type: ignore[no-any-return]

    def slice(self, sl: builtins.slice) -> Self:
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
        return self._reordered(Slice.of(sl, self.root_node.length))

    def pack(
        self,
        length: int | Mapping[Any, Any],
        strategy: Strategy = "best_fit",
        window: int = 1000,
        *,
        lengths: LengthsLike | None = None,
        **settings: Any,
    ) -> ChainT:
        """Documents as rows of one length, as `Pack` makes them; planned from their lengths, so that any row can be asked for.

        All epochs have the same rows; `shuffle` after it puts them in another order each. `repeat` before it packs several
        epochs, each in its order.

        Args:
            length: tokens of a row, as of `Pack`.
            strategy: likewise.
            window: likewise.
            lengths: of the elements, `int[len(dataset)]` or a dict of these by leaf; a function of an element; the name of a
                field of the source, or a file of lengths, where nothing but the order was changed. None (default): as the
                source tells them.
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
        pack = Pack(length, strategy, window, **settings)
        return self._made(Packed.of(self.root_node, pack, lengths))  # type: ignore[no-any-return]

    def _reordered(self, index_map: IndexMap) -> Self:
        return self._made(Reordered(self.root_node, index_map))  # type: ignore[no-any-return]


def _reseeds(reseed_each_epoch: Any) -> bool:
    return true_or_false("reseed_each_epoch", reseed_each_epoch)
