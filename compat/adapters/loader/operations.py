"""Grain's older operations: functions that make an iterator of records from another one.

Grain's own ones are also converted to headrace's operations.

In: iterators of `Record`. Out: iterators of `Record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from ....operations import Batch as OurBatch
from ....operations import Operation
from ....operations.function import FunctionOperation
from ....operations.protocol import Context, Step
from ....operations.stacking import stacked
from ..generators import OfLoader
from ..transforms import Batch, Filter, Map, RandomMap, grain_method
from .records import Record, RecordMetadata, with_key_removed

T = TypeVar("T")
Records = Iterator[Record[Any]]


@runtime_checkable
class IteratorOperation(Protocol):
    """Protocol of a user's own operation: it makes an iterator of records from another one."""

    def __call__(self, input_iterator: Records) -> Records: ...


class _Older(Generic[T]):
    """Base of headrace's versions of Grain's older operation classes."""

    def newer(self) -> Operation:
        """Return the newer transform, of headrace, that does the same.

        This operation is of one of Grain's older classes.
        """
        raise NotImplementedError

    def __call__(self, input_iterator: Records) -> Records:
        return on_records(self.newer(), with_key_removed)(input_iterator)


@dataclass
class MapOperation(_Older[T]):
    """Call a function with each element; the results are the new elements.

    Attributes:
        map_function: the function.

    >>> [record.data for record in MapOperation(str)(iter([Record(RecordMetadata(0), 5)]))]
    ['5']
    """

    map_function: Callable[[Any], T]

    def newer(self) -> Operation:
        return Map(self.map_function)


@dataclass
class RandomMapOperation(_Older[T]):
    """Call a function with each element and the random generator of its record.

    Attributes:
        random_map_function: function `(element, rng)`, which returns the new element.
    """

    random_map_function: Callable[..., T]

    def newer(self) -> Operation:
        return RandomMap(self.random_map_function)


@dataclass
class FilterOperation(_Older[T]):
    """Keep the elements for which a function returns True.

    Attributes:
        condition_function: the function.
    """

    condition_function: Callable[[T], bool]

    def newer(self) -> Operation:
        return Filter(self.condition_function)


@dataclass
class BatchOperation(_Older[T]):
    """Batches of consecutive elements.

    Attributes:
        batch_size: number of elements in a batch.
        drop_remainder: True drops a last batch that is not full; False (default) keeps it.
        batch_fn: function that makes a batch of a list of elements; None (default) stacks arrays.

    Raises:
        ValueError: if `batch_size` is not positive.
    """

    batch_size: int
    drop_remainder: bool = False
    batch_fn: Callable[[Sequence[Any]], T] | None = None

    def __post_init__(self) -> None:
        self.newer()  # checks them

    def newer(self) -> Operation:
        return Batch(self.batch_size, self.drop_remainder, self.batch_fn)

    def disable_deprecation_message(self) -> None:
        """Do nothing; headrace shows no deprecation message."""


_OLDER = (MapOperation, RandomMapOperation, FilterOperation, BatchOperation)


def newer(operation: Any) -> Any:
    """Convert one of Grain's older operations to a transform; return other operations unchanged."""
    return operation.newer() if type(operation) in _OLDER else operation


class OneGenerator(Operation):
    """A random map of a loader. All random maps of a loader share one generator for each record.

    Args:
        transform: the random map.
        generators: the generators that the random maps share.
        first: True for the first random map, which sets the generator to the start of the record.
        draws: False passes None instead of a generator, as Grain does after a flat map, or without
            a seed.
    """

    reads_position = True

    def __init__(
        self, transform: FunctionOperation, generators: OfLoader, first: bool, draws: bool
    ) -> None:
        self.transform = transform
        self.first, self.draws = first, draws
        self._generators = generators

    def __repr__(self) -> str:
        return repr(self.transform)

    def identity_parameters(self) -> dict[str, Any]:
        """Return the attributes that identify this operation, by name.

        The random generators are not among them.
        """
        return {"transform": self.transform, "first": self.first, "draws": self.draws}

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function, generators, first, draws = (
            self.transform.function,
            self._generators,
            self.first,
            self.draws,
        )

        def one_generator_step(element: Any) -> None:
            try:
                if first and draws:
                    generators.at(context.seed, context.position)
                then(function(element, generators.current if draws else None))
            except Exception:
                context.blame(number)
                raise

        return one_generator_step


def with_one_generator(operations: Sequence[Any], seeded: bool) -> list[Any]:
    """Return the operations, with random maps that share one generator per record, as in Grain.

    Args:
        operations: all operations of the loader.
        seeded: True if the sampler has a seed. Otherwise random maps get None instead of a
            generator.
    """
    generators, methods = OfLoader(), list(map(grain_method, operations))
    return [
        OneGenerator(
            operation,
            generators,
            "random_map" not in methods[:place],
            seeded and "flat_map" not in methods[:place],
        )
        if method == "random_map"
        else operation
        for place, (operation, method) in enumerate(zip(operations, methods))
    ]


_MADE: dict[str, Callable[[Any, Record[Any]], Any]] = {
    "map": lambda function, record: function(record.data),
    "map_with_index": lambda function, record: function(record.metadata.index, record.data),
    "random_map": lambda function, record: function(record.data, record.metadata.rng),
}


def on_records(
    operation: Any, metadata: Callable[[RecordMetadata], RecordMetadata] = lambda metadata: metadata
) -> Callable[[Records], Records]:
    """Convert an operation to a function on iterators of records.

    Args:
        operation: a transform; a function on such iterators is returned unchanged.
        metadata: function that makes the metadata of a result from the metadata of its input
            record. It is not used for batches and flat maps.
    """
    if not isinstance(operation, Operation):
        return operation  # type: ignore[no-any-return]
    if isinstance(operation, OurBatch):
        return lambda records: _batches(operation, records)
    function: Any = operation.user_function
    method = operation.method
    if method == "flat_map":
        return lambda records: _flat_mapped(function, operation.max_fan_out or 0, records)
    if method == "filter":
        return lambda records: (
            Record(metadata(record.metadata), record.data)
            for record in records
            if function(record.data)
        )
    make = _MADE[method]
    return lambda records: (
        Record(metadata(record.metadata), make(function, record)) for record in records
    )


def _batches(batch: Any, records: Records) -> Records:
    """Yield batches of consecutive records, each with the index and generator of its last record.

    Args:
        batch: a `Batch`; its `drop_remainder` decides about a last batch that is not full.
        records: the records.
    """
    make = batch.batch_fn or partial(stacked, lists_are_trees=True)
    found: list[Record[Any]] = []
    for record in records:
        found.append(record)
        if len(found) == batch.batch_size:
            yield _batch(make, found)
            found = []
    if found and not batch.drop_remainder:
        yield _batch(make, found)


def _batch(make: Callable[[Sequence[Any]], Any], records: list[Record[Any]]) -> Record[Any]:
    return Record(with_key_removed(records[-1].metadata), make([record.data for record in records]))


def _flat_mapped(function: Any, fan_out: int, records: Records) -> Records:
    for record in records:
        for number, child in enumerate(function(record.data)):
            yield Record(RecordMetadata(record.metadata.index * fan_out + number), child)
