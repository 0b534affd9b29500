"""Methods of `MapDataset` that reorder or join its elements, or pack elements by their lengths.

The methods of other operations are in `operations/`, beside each operation.
"""

from __future__ import annotations

import builtins
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

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
from ..samplers.chain.index_maps import (
    BlockPermutation,
    IndexMap,
    Repeat,
    Selected,
    Shuffle,
    ShuffledWindows,
    Slice,
)
from ..sources.omission.keys import Omit
from .arguments import (
    BELOW_2_64,
    RandomAccess,
    checked_seed,
    finite,
    indices_of,
    seed_of,
    warn_of_exchange,
)
from .nodes.items import applied
from .nodes.node import Node
from .nodes.packed import Packed
from .nodes.reordered import LivingElements, Reordered, Seeded
from .nodes.source_node import Source

if TYPE_CHECKING:
    from ..sources.lengths import LengthsLike
    from ..sources.protocol import SourceLike


@explains_arguments
class MapMethods(
    TransformMethods[ChainT], BatchMethods[ChainT], BudgetBatchMethods[ChainT], RandomAccess
):
    """Base of `MapDataset`, with all methods that return datasets."""

    @property
    @abstractmethod
    def root_node(self) -> Node: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _made(self, node: Node) -> Any:
        """Return the dataset whose elements `node` makes."""

    def _then(self, operation: Operation) -> ChainT:
        return self._made(applied(self.root_node, operation))  # type: ignore[no-any-return]

    def _seed_for(self, method: str, seed: int | None) -> int:
        return seed_of(method, seed, self.root_node.seeds, BELOW_2_64)

    @property
    def _operation_count(self) -> int:
        return int(self.root_node.operations)

    def seed(self, seed: int) -> Self:
        """Return this dataset with a seed.

        Later random operations that are called without a seed derive their seed from it.

        Args:
            seed: an int in `[0, 2^64)`.

        Raises:
            TypeError, ValueError: if `seed` is not such an int.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.range(5).seed(1).shuffle()
        >>> sorted(dataset)
        [0, 1, 2, 3, 4]
        """
        return self._made(Seeded(self.root_node, checked_seed(seed)))  # type: ignore[no-any-return]

    def shuffle(self, seed: int | None = None, *, reseed_each_epoch: bool = True) -> Self:
        """Shuffle the elements with O(1) memory, like `IndexSampler(shuffle=True, seed=seed)`.

        Args:
            seed: an int in `[0, 2^32)`. None (default): it is derived from an earlier `seed()`.
            reseed_each_epoch: True (default): another order in each epoch. False: the same order in
                all epochs.

        Raises:
            SeedError: if `seed` is None and there is no earlier `seed()`.
            TypeError: if an argument has a wrong type.
            ValueError: if the seed is outside its range, or the dataset is endless.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.range(5).shuffle(seed=1)
        >>> sorted(dataset), dataset[range(5)] == dataset[range(5, 10)]
        ([0, 1, 2, 3, 4], False)
        """
        own = seed_of("shuffle", seed, self.root_node.seeds)
        return self._reordered(
            Shuffle(finite("shuffle", self.root_node.length), own, _reseeds(reseed_each_epoch))
        )

    def window_shuffle(self, window_size: int, seed: int | None = None) -> Self:
        """Shuffle elements within windows of consecutive elements.

        Use it for sources that are read fastest in order.

        Args:
            window_size: number of elements in a window.
            seed: an int in `[0, 2^32)`. None (default): derived from an earlier `seed()`.

        Raises:
            SeedError: if `seed` is None and there is no earlier `seed()`.
            TypeError: if a number is not an int.
            ValueError: if `window_size` is not positive, the seed is outside its range, or the
                dataset is endless.

        >>> from headrace import MapDataset
        >>> shuffled = list(MapDataset.range(6).window_shuffle(3, seed=0))
        >>> sorted(shuffled[:3]), sorted(shuffled[3:])
        ([0, 1, 2], [3, 4, 5])
        """
        window = whole_number("window_size", window_size, 1, None, "a positive int")
        own = seed_of("window_shuffle", seed, self.root_node.seeds)
        return self._reordered(
            ShuffledWindows(finite("window_shuffle", self.root_node.length), window, own)
        )

    def block_shuffle(self, block_size: int, seed: int | None = None) -> Self:
        """Shuffle blocks of consecutive elements. Within each block, the elements keep their order.

        Args:
            block_size: number of elements in a block.
            seed: an int in `[0, 2^32)`. None (default): derived from an earlier `seed()`.

        Raises:
            SeedError: if `seed` is None and there is no earlier `seed()`.
            TypeError: if a number is not an int.
            ValueError: if `block_size` is not positive, the seed is outside its range, or the
                dataset is endless.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(6).block_shuffle(2, seed=1))
        [2, 3, 0, 1, 4, 5]
        """
        block = whole_number("block_size", block_size, 1, None, "a positive int")
        own = seed_of("block_shuffle", seed, self.root_node.seeds)
        return self._reordered(
            BlockPermutation(finite("block_shuffle", self.root_node.length), block, own)
        )

    def repeat(self, num_epochs: int | None = None, *, reseed_each_epoch: bool = True) -> Self:
        """Repeat the dataset for several epochs.

        If the dataset is a slice of a shuffled dataset, each epoch has other elements, even
        elements that another slice (for validation, for example) had in an earlier epoch. This
        causes a warning, unless the step of the slice is above 1. To avoid it, slice before
        `shuffle`.

        Args:
            num_epochs: number of epochs. None (default): endless.
            reseed_each_epoch: True (default): shuffles differ in each epoch. False: repeat the
                first epoch.

        Raises:
            TypeError: if an argument has a wrong type.
            ValueError: if the dataset is already endless, or `num_epochs` is not positive.

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
        return self._reordered(
            Repeat(finite("repeat", len(self)), num_epochs, _reseeds(reseed_each_epoch))
        )

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Self:
        """Select the elements at given indices of each epoch, in the given order.

        Args:
            indices: `int64[n]` or a list, in `[0, len(dataset))`. An index may occur several times.

        Raises:
            TypeError: if the indices are not integers.
            IndexError: if an index is out of range.
            ValueError: if the dataset is endless.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(10).select([7, 2]))
        [7, 2]
        """
        length = finite("select", self.root_node.length)
        keys = indices_of(indices, length)
        if len(keys) and not 0 <= keys.min() <= keys.max() < length:
            raise IndexError(
                f"select: index {keys[(keys < 0) | (keys >= length)][0]} is outside of [0, "
                f"{length}). Pass indices of this range."
            )
        return self._reordered(Selected(length, keys))

    def omit(self, omit: Omit = ()) -> Self:
        """Omit some records of the source. All other elements keep their order.

        Call it after `shuffle` and `repeat`. Later methods get the remaining elements; so later
        random maps draw their numbers by the new indices. The dataset's stream can resume from
        states of a dataset that omitted nothing, or fewer records.

        Args:
            omit: an array, list or set of keys of the source's records; the path of a file of keys,
                one per line or `.npy`; or a function of a file name and a row that returns True for
                records to omit. Default: only the records that the source reports as deleted.

        Raises:
            TypeError, RecordKeyError, SourceError: if `omit` is none of these, or names a record
                that the source does not have.
            ValueError: if the elements are not the records of one source, arranged by `shuffle` and
                `repeat` only. Maps and filters may come before, if each element is made of one
                record, without its index and without random numbers.
            EmptyStreamError: if no record is left.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.range(8).shuffle(seed=1)
        >>> list(dataset.omit([2, 5])) == [key for key in dataset if key not in (2, 5)]
        True
        """
        return self._made(LivingElements.of(self.root_node, omit))  # type: ignore[no-any-return]

    def slice(self, sl: builtins.slice) -> Self:
        """Slice the dataset, like `dataset[start:stop:step]`.

        To set some records apart for validation, slice before `shuffle`: a slice of a shuffled
        dataset has other records in each epoch.

        Args:
            sl: the slice, `slice(start, stop, step)`.

        Raises:
            TypeError: if `sl` is not a slice of whole numbers.
            ValueError: if the step is 0.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(10)[1::4])
        [1, 5, 9]
        """
        if not isinstance(sl, builtins.slice):
            raise TypeError(
                f"slice({short_repr(sl)}): the argument is not a slice. Pass slice(start, stop, "
                "step), or write dataset[start:stop]."
            )
        return self._reordered(Slice.of(sl, self.root_node.length))

    def join(
        self, other: SourceLike, *, on: str, how: Literal["inner", "left"] = "inner"
    ) -> ChainT:
        """Join each element, a dict, with the element of another dataset that has the same key.

        Args:
            other: the other dataset, or anything that `MapDataset.source` takes. No two of its
                elements have the same key.
            on: name of the field that has the key, in the elements of both datasets. Keys are
                integers, strings or bytes.
            how: "inner" (default): elements without a partner are left out. "left": they stay, and
                the fields of the other dataset are None.

        Raises:
            TypeError, ValueError, SourceError: as `headrace.JoinedByKey`, which describes the
                rules.

        >>> from headrace import MapDataset
        >>> images = MapDataset.source([{"id": 7, "image": "x"}, {"id": 9, "image": "y"}])
        >>> list(images.join([{"id": 9, "text": "a dog"}], on="id"))
        [{'id': 9, 'image': 'y', 'text': 'a dog'}]
        """
        from ..sources import JoinedByKey  # which workers do not need

        return self._made(Source(JoinedByKey(self, other, on=on, how=how)))  # type: ignore[no-any-return]

    def pack(
        self,
        length: int | Mapping[Any, Any],
        strategy: Strategy = "best_fit",
        window: int = 1000,
        *,
        lengths: LengthsLike | None = None,
        **settings: Any,
    ) -> ChainT:
        """Pack documents into rows of one length, as `Pack` does, with random access to the rows.

        Rows are planned: the lengths of the documents say, before any document is read, which
        documents each row has. All epochs have the same rows; a `shuffle` after `pack` gives them
        another order in each epoch. If `repeat` comes before `pack`, several epochs are packed
        together, each in its own order.

        Args:
            length: number of tokens in a row; for elements with several leaves (fields), a dict of
                these numbers by leaf.
            strategy: "best_fit" (default), or another strategy of `Pack`.
            window: number of documents that are packed together, for "best_fit".
            lengths: lengths of the elements: `int[len(dataset)]`, or a dict of such arrays by leaf;
                a function of an element; or, if only the order was changed, the name of a field of
                the source or a file of lengths. None (default): the lengths that the source knows.
            **settings: other arguments of `Pack`.

        Raises:
            PackError: if the lengths are unknown, because a map or filter comes before or the
                source does not know them; or if there is not one length for each element.
            LengthsError: if a length is invalid, or `lengths` names a field or file that does not
                fit the dataset.
            TypeError, ValueError: if an argument of `Pack` is wrong, or the dataset is endless.

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
