"""Tests that every sampler must pass."""

from __future__ import annotations

from collections import Counter
from typing import Any

import cloudpickle
import pytest

from ..loader import DataLoader
from ..samplers import ShardOptions
from ..samplers.protocol import ENDLESS
from .streams import StreamConformance, first_of


class SamplerConformance(StreamConformance):
    """Tests of a sampler: a subclass of it, named `Test…`, is collected by pytest.

    They check that a position has the same record whenever and wherever it is asked for; that the
    stream is the same for the numbers of workers in `worker_counts`, and if workers end; that a
    state of each step continues exactly, also on another number of shards; and that in the first
    two epochs, all records come equally often.

    Attributes:
        count: number of records.
        each_once: True (default): each record must come once in each epoch. False for a sampler
            that draws at random.
        worker_counts: numbers of worker processes whose streams are compared with the stream of
            none.
        shard_counts: numbers of shards before and after the number changes.

    >>> import headrace
    >>> class TestBackwards(SamplerConformance):
    ...     def sampler(self):
    ...         return Backwards(self.count)
    >>> class Backwards:
    ...     def __init__(self, count):
    ...         self.count = count
    ...     def __len__(self):
    ...         return self.count
    ...     def __getitem__(self, index):
    ...         return headrace.RecordMetadata(index, self.count - 1 - index)
    """

    count = 24
    each_once = True

    def sampler(self) -> Any:
        """Return the sampler under test, over `count` records. Each call makes a new one."""
        raise NotImplementedError

    def loader(self, shard: ShardOptions | None = None, worker_count: int = 0) -> DataLoader:
        records = list(range(self.count))
        return DataLoader(
            data_source=records,
            sampler=self.sampler(),
            worker_count=worker_count,
            shard_options=shard,
        )

    @property
    def is_endless(self) -> bool:
        return len(self.sampler()) >= ENDLESS

    def test_a_position_has_the_same_record_whenever_it_is_asked_for(self) -> None:
        """Backwards, again, and after pickling."""
        one, other = self.sampler(), cloudpickle.loads(cloudpickle.dumps(self.sampler()))
        stop = min(len(one), 3 * self.count)
        expected = [int(one[position].record_key) for position in range(stop)]
        for sampler in (one, other):
            found = [int(sampler[position].record_key) for position in reversed(range(stop))]
            assert found[::-1] == expected
        assert all(0 <= key < self.count for key in expected)

    def test_each_record_comes_once_in_each_epoch(self) -> None:
        """In the first two epochs, or in the only one, all records come, and equally often."""
        if not self.each_once:
            pytest.skip("each_once is False")
        counts = Counter(first_of(iter(self.loader()), min(len(self.sampler()), 2 * self.count)))
        assert set(counts) == set(range(self.count))
        assert len(set(counts.values())) == 1, counts
