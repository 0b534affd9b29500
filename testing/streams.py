"""Tests that hold for every stream: worker counts, states of all steps, other numbers of shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import cloudpickle
import pytest

from ..loader import DataLoader
from ..samplers import ShardOptions
from .comparing import assert_equal, comparable
from .simulation import simulate

STEPS = 40
"""Maximum number of compared elements of a stream, except in the test with other shards."""


class StreamConformance:
    """Base of the classes whose tests run a loader. A subclass defines `loader`.

    They compare at most 40 elements, except in the test with other shards.

    Attributes:
        worker_counts: numbers of worker processes whose streams are compared with the stream of
            none.
        shard_counts: numbers of shards before and after the number changes.
    """

    worker_counts: Sequence[int] = (1, 2)
    shard_counts: tuple[int, int] = (2, 3)

    def loader(self, shard: ShardOptions | None = None, worker_count: int = 0) -> DataLoader:
        """Return a loader that uses the object under test. Each call makes a new one.

        Args:
            shard: the share of one process; None for all records.
            worker_count: number of worker processes.
        """
        raise NotImplementedError

    @property
    def is_endless(self) -> bool:
        """True if the stream has no end. Then the test with other shards is skipped."""
        return False

    def rows(self, element: Any) -> list[Any]:
        """Return what the shards share of an element, for the test with other shards.

        It is a list of comparable values.

        The default is the element itself. For a batch, return its rows, because another number of
        shards makes other batches of the same rows.
        """
        return [element]

    def test_a_second_run_gives_the_same_stream(self) -> None:
        """Two loaders made in the same way give equal elements, bit for bit, in the same order."""
        assert_equal(first_of(iter(self.loader())), first_of(iter(self.loader())))

    def test_a_pickled_loader_gives_the_same_stream(self) -> None:
        """What is pickled for a worker, also after it was used, gives the same elements."""
        loader = self.loader()
        first_of(iter(loader), 1)
        pickled = cloudpickle.loads(cloudpickle.dumps(loader))
        assert_equal(first_of(iter(pickled)), first_of(iter(self.loader())))

    def test_workers_give_the_same_stream(self) -> None:
        """The stream does not depend on the number of worker processes."""
        expected = first_of(iter(self.loader()))
        for worker_count in self.worker_counts:
            with iter(self.loader(worker_count=worker_count)) as iterator:
                assert_equal(first_of(iterator), expected)

    def test_workers_that_end_change_nothing(self) -> None:
        """Workers that end or come late, Ctrl-C and resumes from earlier states change nothing.

        The test makes 10 runs with simulated workers.
        """
        simulate(self.loader(), range(10))

    def test_a_state_of_any_step_continues_exactly(self) -> None:
        """A new iterator with the state of a step gives the elements that come after this step."""
        iterator, states = iter(self.loader()), []
        states.append(iterator.get_state())
        expected = []
        for element in first_of(iterator, each=lambda: states.append(iterator.get_state())):
            expected.append(element)
        for step, state in enumerate(states):
            again = iter(self.loader())
            again.set_state(state)
            assert_equal(first_of(again, len(expected) - step), expected[step:])

    def test_other_shards_deliver_what_is_left(self) -> None:
        """If the number of shards changes during a run, each row comes as often as on one shard."""
        if self.is_endless:
            pytest.skip("the stream has no end")
        before, after = self.shard_counts
        shards = [iter(self.loader(ShardOptions(shard, before))) for shard in range(before)]
        elements: list[Any] = [
            element for number, one in enumerate(shards) for element in first_of(one, 1 + number)
        ]
        states = [one.get_state() for one in shards]
        for shard in range(after):
            rest = iter(self.loader(ShardOptions(shard, after)))
            rest.set_states(states)
            elements += rest
        counts = Counter(comparable(row) for element in elements for row in self.rows(element))
        whole = Counter(comparable(row) for element in self.loader() for row in self.rows(element))
        assert counts == whole, {"missing": whole - counts, "too often": counts - whole}


def first_of(iterator: Any, count: int = STEPS, each: Any = None) -> list[Any]:
    """Return the first elements of an iterator, at most `count`.

    Args:
        iterator: the iterator.
        count: largest number of elements.
        each: function that is called after each element; None for none.
    """
    elements: list[Any] = []
    while len(elements) < count and (element := next(iterator, _END)) is not _END:
        elements.append(element)
        if each is not None:
            each()
    return elements


_END = object()
