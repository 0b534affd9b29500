"""IterDatasets of a user's own class stand anywhere in a chain."""

import pytest
from pipelines import chosen, stream

from millrace import IterDataset, MapDataset, ShardOptions
from millrace.errors import CheckpointError


class Pairs(IterDataset):
    """Puts two elements together, and leaves out a last one."""

    def __init__(self, parent):
        super().__init__(parent)

    def __iter__(self):
        return PairsIterator(iter(self._parent))


class PairsIterator:
    """Its state is that of its parent, which is bytes."""

    def __init__(self, parent):
        self._parent = parent

    def __iter__(self):
        return self

    def __next__(self):
        return (next(self._parent), next(self._parent))

    def get_state(self):
        return {"parent": self._parent.get_state()}

    def set_state(self, state):
        self._parent.set_state(state["parent"])


class Count(IterDataset):
    """Made from nothing."""

    def __init__(self, stop, fail_at=None):
        super().__init__()
        self.stop, self.fail_at = stop, fail_at

    def __iter__(self):
        return CountIterator(self.stop, self.fail_at)


class CountIterator:
    """Its state is a number."""

    def __init__(self, stop, fail_at):
        self.stop, self.fail_at, self.number = stop, fail_at, 0

    def __next__(self):
        if self.number == self.stop:
            raise StopIteration
        if self.number == self.fail_at:
            raise ValueError("broken")
        self.number += 1
        return self.number - 1

    def get_state(self):
        return self.number

    def set_state(self, state):
        self.number = state


def chain(kind):
    """Chains with a dataset of one's own in them."""
    numbers = MapDataset.range(100).shuffle(seed=1).to_iter_dataset()
    return {
        "below": lambda: Count(70).map(lambda x: x + 1),
        "below a batch": lambda: Count(70).filter(lambda x: x % 3).batch(4),
        "in the middle": lambda: Pairs(numbers.filter(lambda x: x % 3)).map(sum).batch(3),
        "on a dataset with workers": lambda: Pairs(numbers.mp_prefetch(2)).map(sum),
        "in a mix": lambda: IterDataset.mix([Count(40), numbers, Pairs(numbers).map(sum)], when_exhausted="all").batch(
            5
        ),
        "repeated": lambda: Count(40).flat_map(lambda x: [x] * (x % 3)).repeat(2),
    }[kind]()


KINDS = ("below", "below a batch", "in the middle", "on a dataset with workers", "in a mix", "repeated")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worker_count", chosen([1, 2], 2))
def test_its_stream_does_not_depend_on_workers(kind, worker_count):
    """It is run through in one of them."""
    assert stream(chain(kind).mp_prefetch(worker_count)) == stream(chain(kind)) != []


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_at_every_step_goes_on_exactly(kind):
    """With the state of its iterator."""
    expected = stream(chain(kind))
    iterator = iter(chain(kind).map(lambda x: x))
    for step in range(len(expected) + 1):
        other = iter(chain(kind).map(lambda x: x))
        other.set_state(iterator.get_state())
        assert stream(other) == expected[step:]
        next(iterator, None)


def test_resuming_asks_for_few_elements_again():
    """No more than a task has."""
    asked = []

    class Told(Count):
        def __iter__(self):
            return ToldIterator(self.stop, None)

    class ToldIterator(CountIterator):
        def __next__(self):
            asked.append(self.number)
            return super().__next__()

    iterator = iter(Told(1000).map(lambda x: x))
    for _ in range(500):
        next(iterator)
    state = iterator.get_state()
    asked.clear()
    other = iter(Told(1000).map(lambda x: x))
    other.set_state(state)
    assert next(other) == 500
    assert min(asked) > 450


def test_alone_it_is_what_its_class_makes_it():
    """The engine runs it when something follows."""
    assert [number for number, _ in zip(Count(5), range(3))] == [0, 1, 2]


def test_shards_take_every_other_element_of_it():
    """As there is no other way."""
    parts = [list(Count(10).map(lambda x: x).shard(ShardOptions(shard, 3))) for shard in range(3)]
    assert parts == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    iterator = iter(Count(10).map(lambda x: x))
    next(iterator)
    other = iter(Count(10).map(lambda x: x).shard(ShardOptions(0, 2)))
    with pytest.raises(CheckpointError, match="keep their number"):
        other.set_states([iterator.get_state()])


@pytest.mark.parametrize("worker_count", [0, 1])
def test_its_own_error_comes_after_what_came_before(worker_count):
    """And says which element it was."""
    iterator = iter(Count(50, fail_at=37).map(lambda x: x).mp_prefetch(worker_count))
    assert [next(iterator) for _ in range(37)] == list(range(37))
    with pytest.raises(ValueError, match="broken") as raised:
        next(iterator)
    assert "element 37" in raised.value.__notes__[0]


def test_an_iterator_without_states_is_refused():
    """With what it lacks."""

    class Plain(IterDataset):
        def __iter__(self):
            return iter([1, 2])

    with pytest.raises(TypeError, match="without get_state"):
        list(Plain().map(lambda x: x))
    with pytest.raises(TypeError, match="has no __iter__"):
        type("Empty", (IterDataset,), {})().map(lambda x: x)


def test_a_mix_that_repeats_begins_it_anew():
    """From its beginning."""
    mixed = IterDataset.mix([Count(3), MapDataset.range(10, 90)], when_exhausted="repeat")
    assert [x for x in mixed.limit(18) if x < 10] == [0, 1, 2] * 3


def test_threads_run_through_it_once():
    """It need not go to a state for each task."""
    begun = []

    class Noted(Count):
        def __iter__(self):
            begun.append(self)
            return super().__iter__()

    dataset = Noted(3000).map(lambda x: x).batch(2).with_options(worker_count=3, worker_kind="thread")
    assert stream(dataset) == stream(Count(3000).batch(2))
    assert len(begun) == 1
