"""Grain's older operations: functions of an iterator of records. Those of its own are operations of ours as well.

In: iterators of `Record`. Out: the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from ....operations import Batch, Operation
from ....operations.function import FunctionOperation
from ....operations.protocol import Context, Step
from ....operations.stacking import stacked
from ..generators import OfLoader
from ..transforms import Filter, FlatMap, Map, RandomMap
from .records import Record, RecordMetadata, with_key_removed

T = TypeVar("T")
Records = Iterator[Record[Any]]


@runtime_checkable
class IteratorOperation(Protocol):
    """A user's own operation: it makes an iterator of records of another."""

    def __call__(self, input_iterator: Records) -> Records: ...


@dataclass
class MapOperation(Generic[T]):
    """A function of each element.

    >>> [record.data for record in MapOperation(str)(iter([Record(RecordMetadata(0), 5)]))]
    ['5']
    """

    map_function: Callable[[Any], T]

    def __call__(self, input_iterator: Records) -> Records:
        for record in input_iterator:
            yield Record(with_key_removed(record.metadata), self.map_function(record.data))


@dataclass
class RandomMapOperation(Generic[T]):
    """A function of each element and the generator of its record."""

    random_map_function: Callable[..., T]

    def __call__(self, input_iterator: Records) -> Records:
        for record in input_iterator:
            made = self.random_map_function(record.data, record.metadata.rng)
            yield Record(with_key_removed(record.metadata), made)


@dataclass
class FilterOperation(Generic[T]):
    """The elements that a function is true of."""

    condition_function: Callable[[T], bool]

    def __call__(self, input_iterator: Records) -> Records:
        for record in input_iterator:
            if self.condition_function(record.data):
                yield Record(with_key_removed(record.metadata), record.data)


@dataclass
class BatchOperation(Generic[T]):
    """Consecutive elements as one.

    Raises:
        ValueError: the size is not positive.
    """

    batch_size: int
    drop_remainder: bool = False
    batch_fn: Callable[[Sequence[Any]], T] | None = None

    def __post_init__(self) -> None:
        Batch(self.batch_size, self.drop_remainder, self.batch_fn)  # checks them

    def __call__(self, input_iterator: Records) -> Records:
        yield from batches(Batch(self.batch_size, self.drop_remainder, self.batch_fn), input_iterator)

    def disable_deprecation_message(self) -> None:
        """There is none."""


_NEWER: dict[type, Callable[[Any], Operation]] = {
    MapOperation: lambda old: Map(old.map_function),
    RandomMapOperation: lambda old: RandomMap(old.random_map_function),
    FilterOperation: lambda old: Filter(old.condition_function),
    BatchOperation: lambda old: Batch(old.batch_size, old.drop_remainder, old.batch_fn),
}


def newer(operation: Any) -> Any:
    """The transform that does what an older operation of Grain's own does; others as they are."""
    make = _NEWER.get(type(operation))
    return operation if make is None else make(operation)


class OneGenerator(Operation):
    """A random map of a loader. The random maps of a loader draw, one after the other, from one generator for each record.

    Args:
        transform: what it does.
        generators: that all of them share.
        first: whether it is the first of them.
        draws: False gives None in place of a generator, as Grain does after a flat map.
    """

    reads_position = True
    needs_seed = True

    def __init__(self, transform: FunctionOperation, generators: OfLoader, first: bool, draws: bool) -> None:
        self.transform = transform
        self.first, self.draws = first, draws
        self._generators = generators

    def __repr__(self) -> str:
        return repr(self.transform)

    def identity_parameters(self) -> dict[str, Any]:
        """Without the generators, which have no identity."""
        return {"transform": self.transform, "first": self.first, "draws": self.draws}

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function, generators, first, draws = self.transform.function, self._generators, self.first, self.draws

        def one_generator_step(element: Any) -> None:
            try:
                if first:
                    generators.at(context.seed, context.position)
                then(function(element, generators.current if draws else None))
            except Exception:
                context.blame(number)
                raise

        return one_generator_step


def with_one_generator(operations: Sequence[Any]) -> list[Any]:
    """The operations of a loader, with random maps that draw as Grain's do."""
    generators, random, after_flat_map = OfLoader(), 0, False
    made = []
    for operation in operations:
        if isinstance(operation, RandomMap):
            operation = OneGenerator(operation, generators, random == 0, not after_flat_map)
            random += 1
        after_flat_map |= isinstance(operation, FlatMap)
        made.append(operation)
    return made


def on_records(operation: Any) -> Callable[[Records], Records]:
    """An operation, as a function of an iterator of records."""
    if isinstance(operation, Batch):
        return lambda records: batches(operation, records)
    if isinstance(operation, FlatMap):
        return lambda records: _flat_mapped(operation, records)
    function = operation.function if isinstance(operation, FunctionOperation) else operation
    if isinstance(operation, Filter):
        return lambda records: (record for record in records if function(record.data))
    if isinstance(operation, RandomMap):
        return lambda records: (
            Record(record.metadata, function(record.data, record.metadata.rng)) for record in records
        )
    if isinstance(operation, FunctionOperation):
        return lambda records: (Record(record.metadata, function(record.data)) for record in records)
    return operation  # type: ignore[no-any-return]


def batches(batch: Batch, records: Records) -> Records:
    """Consecutive records as one, with the metadata of the last."""
    make = batch.batch_fn or stacked
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


def _flat_mapped(operation: FlatMap, records: Records) -> Records:
    for record in records:
        first = record.metadata.index * (operation.max_fan_out or 0)
        for number, child in enumerate(operation.function(record.data)):
            yield Record(RecordMetadata(first + number), child)
