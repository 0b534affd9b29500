"""IterDataset: a chain that is run from its beginning to its end, by the engine of `DataLoader`.

In: the stream of a `MapDataset`, and what is to be done to it. Out: iterators with states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ..loader.arguments import warn_of_no_effect
from ..loader.device.description import to_device
from ..loader.iterator import DataLoaderIterator
from ..loader.plan.build import not_empty
from ..loader.plan.compile import compiled
from ..loader.plan.pipeline import Pipeline
from ..loader.plan.steps.lookup import number_of
from ..loader.plan.steps.skipped import NONE_SKIPPED
from ..migration_hints.decorators import explains_arguments
from ..migration_hints.remarks import NEXT, NotHere, Remarks
from ..samplers.mix.order import MixOrder
from .arguments import as_named
from .iter_joins import Exhausted, interleaved, mixed, run_through, zipped
from .iter_methods import IterMethods
from .joins_of_class import joins
from .stream import Stream

T = TypeVar("T")


@explains_arguments
class IterDataset(IterMethods[T], Remarks):
    """A stream of elements; made by `MapDataset.to_iter_dataset()`, and by the methods of another stream. Immutable.

    A class of your own, made from this one, defines `__iter__`, whose iterators have `get_state` and `set_state`; it can stand
    anywhere in a chain. `super().__init__(parent)` keeps the dataset that it is made from, as `self._parent`. Such a dataset is
    run through in order, in one worker.

    Each `iter(dataset)` is an independent run from the start: a `DataLoaderIterator`, with `get_state`, `set_state`,
    `set_states`, `start_prefetch` and all else. The stream does not depend on the number of workers; a state goes on with any.

    >>> import headrace
    >>> dataset = headrace.MapDataset.range(10).to_iter_dataset().filter(lambda x: x % 3).batch(2)
    >>> iterator = iter(dataset)
    >>> next(iterator).tolist()
    [1, 2]
    >>> again = iter(dataset.mp_prefetch(1))
    >>> again.set_state(iterator.get_state())
    >>> [batch.tolist() for batch in again]
    [[4, 5], [7, 8]]
    """

    _asked_as = "IterDataset"

    if not TYPE_CHECKING:
        __add__ = NotHere(
            "streams are not added; join the MapDatasets, headrace.MapDataset.concatenate([dataset, dataset]), before "
            "to_iter_dataset()."
        )
        __next__ = NotHere(NEXT.format("an IterDataset", "stream"))
        __getitem__ = NotHere(
            "an IterDataset has no elements by index; ask the MapDataset, dataset[0], before to_iter_dataset(), or take the "
            "first ones, list(stream.limit(3))."
        )

    def __init__(self, *parents: Any) -> None:
        self._parents = parents

    @classmethod
    def _of(cls, stream: Stream) -> IterDataset[Any]:
        """The dataset that the engine makes of a stream."""
        dataset = IterDataset[Any]()
        dataset.__dict__["_stream"] = stream
        return dataset

    @property
    def _parent(self) -> Any:
        """The dataset that this one, of a class of yours, is made from."""
        (parent,) = self._parents
        return parent

    @cached_property
    def _stream(self) -> Stream:
        """Of a class of the user's: the engine runs through it."""
        if not self._is_own:
            raise TypeError(
                f"{type(self).__name__} has no __iter__; define it, or take MapDataset.….to_iter_dataset()."
            )
        return run_through(self)

    def __getstate__(self) -> dict[str, Any]:
        derived = ("_stream", "_pipeline") if self._is_own else ()
        return {name: value for name, value in vars(self).items() if name not in derived}

    @property
    def _is_own(self) -> bool:
        """Whether it is of a class of the user's, which says how it is run through."""
        return type(self).__iter__ is not IterDataset.__iter__

    @cached_property
    def _pipeline(self) -> Pipeline:
        return not_empty(compiled(self._stream.tree, self._stream.skips_errors))

    def __iter__(self) -> DataLoaderIterator:
        warn_of_no_effect(self._stream.execution)
        return DataLoaderIterator(self._pipeline, self._stream.execution, self._stream.max_errors)

    def __len__(self) -> int:
        """Number of elements of this shard, known before anything is read.

        Raises:
            TypeError: it is endless, or an operation decides how many there are.
        """
        return number_of(self._pipeline, (0, 0), NONE_SKIPPED)

    def __repr__(self) -> str:
        leaves, operations = len(self._pipeline.leaves), len(self._pipeline.operations)
        return f"IterDataset({leaves} source{'s' * (leaves > 1)}, {operations} operations)"

    @joins
    @staticmethod
    def mix(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]],
        weights: Any = None,
        *,
        when_exhausted: Exhausted = "first",
        ramp: bool = False,
        records_per_step: int = 1,
    ) -> IterDataset[Any]:
        """Elements of several streams, in proportion to their weights, at every step.

        Filters and flat maps may come before it: what is counted are the elements that come out of them.

        Args:
            datasets: in a list, or in a dict by name.
            weights: a list of numbers, a dict by name, or a schedule, `[(first_step, weights), …]`; they need not sum to
                one. None (default): equal.
            when_exhausted: "first" (default) ends with the first dataset that has no more when it is its turn; "all" goes on
                without it, until all have ended; "repeat" goes on with its next epoch.
            ramp: whether weights change linearly from one stage of a schedule to the next.
            records_per_step: elements of the mix in a step of the schedule. 1 (default) counts elements; the batch size, of
                one shard, counts batches.

        Raises:
            TypeError, ValueError: datasets or weights are none, or do not fit one another.

        >>> from headrace import IterDataset, MapDataset
        >>> ones = MapDataset.source([1] * 10).to_iter_dataset()
        >>> twos = MapDataset.source([2] * 10).to_iter_dataset()
        >>> list(IterDataset.mix({"ones": ones, "twos": twos}, {"ones": 0.75, "twos": 0.25}))[:8]
        [1, 1, 2, 1, 1, 1, 2, 1]
        """
        listed, names = as_named("mix", datasets, IterDataset)
        streams = [each._stream for each in listed]
        labels = names or list(map(str, range(len(listed))))
        order = MixOrder.of(weights, labels, ramp, records_per_step)
        return IterDataset._of(mixed(streams, order, when_exhausted))

    @joins
    @staticmethod
    def zip(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]], *, strict: bool = True
    ) -> IterDataset[Any]:
        """An element of each stream, in a tuple, or in a dict where the streams are.

        Args:
            datasets: in a list, or in a dict by name.
            strict: True (default): that one ends before the others is an error, `JoinError`; False: it ends with the shortest.

        >>> from headrace import IterDataset, MapDataset
        >>> numbers = MapDataset.range(2).to_iter_dataset()
        >>> list(IterDataset.zip({"x": numbers, "y": numbers.map(lambda x: x * 10)}))
        [{'x': 0, 'y': 0}, {'x': 1, 'y': 10}]
        """
        listed, names = as_named("zip", datasets, IterDataset)
        return IterDataset._of(zipped([each._stream for each in listed], names, strict))

    @joins
    @staticmethod
    def interleave(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]], cycle_length: int | None = None
    ) -> IterDataset[Any]:
        """An element of each of the streams that are open, in turn; where one ends, the next one is opened in its place.

        Args:
            datasets: in a list, or in a dict by name.
            cycle_length: how many are open at a time; None (default): all.

        >>> from headrace import IterDataset, MapDataset
        >>> files = [MapDataset.source([letter] * 2).to_iter_dataset() for letter in "abc"]
        >>> "".join(IterDataset.interleave(files, cycle_length=2))
        'ababcc'
        """
        listed, names = as_named("interleave", datasets, IterDataset)
        return IterDataset._of(interleaved([each._stream for each in listed], names, cycle_length))

    to_device = to_device
