"""Tests that every operation must pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ..loader import DataLoader
from ..operations import MapTransform
from ..samplers import IndexSampler, NoSharding, ShardOptions
from .comparing import assert_equal, comparable
from .streams import StreamConformance


class OperationConformance(StreamConformance):
    """Tests of an operation: a subclass of it, named `Test…`, is collected by pytest.

    They check that the stream is the same in a second run, for the numbers of workers in
    `worker_counts`, and if workers end; that a state of each step continues exactly, also on
    another number of shards; that records are not changed in place; and that with `on_error="skip"`
    and a record that fails, workers do not change the stream.

    Attributes:
        count: number of records.
        worker_counts: numbers of worker processes whose streams are compared with the stream of
            none.
        shard_counts: numbers of shards before and after the number changes.

    >>> import headrace
    >>> class TestDouble(OperationConformance):
    ...     def operations(self):
    ...         return [headrace.MapTransform(lambda record: record * 2)]
    """

    count = 24

    def operations(self) -> Sequence[Any]:
        """Return the operations of the loader: the operation under test, alone or among others."""
        raise NotImplementedError

    def record(self, key: int) -> Any:
        """Return the record with a key, from 0 to `count` - 1. The default is the key."""
        return key

    def loader(
        self,
        shard: ShardOptions | None = None,
        worker_count: int = 0,
        first: Sequence[Any] = (),
        **options: Any,
    ) -> DataLoader:
        records = [self.record(key) for key in range(self.count)]
        sampler = IndexSampler(
            self.count, shard or NoSharding(), shuffle=True, seed=1, num_epochs=2
        )
        operations = [*first, *self.operations()]
        return DataLoader(
            data_source=records,
            sampler=sampler,
            operations=operations,
            worker_count=worker_count,
            **options,
        )

    def test_records_are_not_changed_in_place(self) -> None:
        """The operation makes new objects.

        A record that it changed would be another one in the next epoch.
        """
        records = [self.record(key) for key in range(self.count)]
        before = [comparable(record) for record in records]
        sampler = IndexSampler(self.count, shuffle=False, num_epochs=1, seed=1)
        list(DataLoader(data_source=records, sampler=sampler, operations=self.operations()))
        changed = [key for key, record in enumerate(records) if comparable(record) != before[key]]
        assert not changed, f"the operation changes records {changed} in place"

    def test_a_record_that_fails_is_the_same_for_any_worker_count(self) -> None:
        """A record that fails is skipped by workers as without them, or its error is raised."""
        bad = comparable(self.record(self.count // 2))

        def fail(record: Any) -> Any:
            if comparable(record) == bad:
                raise _PlantedError
            return record

        first = [MapTransform(fail)]
        expected = list(self.loader(None, 0, first, on_error="skip"))
        for worker_count in self.worker_counts:
            assert_equal(list(self.loader(None, worker_count, first, on_error="skip")), expected)
        with pytest.raises(_PlantedError):
            list(self.loader(None, 0, first))


class _PlantedError(Exception):
    """Raised by the test for one record."""
