"""IterDatasets of a user's own class stand anywhere in a chain."""

import json
import os
import random

import pytest
from support.damage import sealed
from support.own_streams import Count, CountIterator
from support.pipelines import chosen, stream

from headrace import IterDataset, MapDataset, ShardOptions
from headrace.errors import CheckpointError, WorkerCrashedError
from headrace.loader.executors.local import InlineExecutor


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


def chain(kind):
    """Chains with a dataset of one's own in them."""
    numbers = MapDataset.range(100).shuffle(seed=1).to_iter_dataset()
    return {
        "below": lambda: Count(70).map(lambda x: x + 1),
        "below a batch": lambda: Count(70).filter(lambda x: x % 3).batch(4),
        "in the middle": lambda: Pairs(numbers.filter(lambda x: x % 3)).map(sum).batch(3),
        "on a dataset with workers": lambda: Pairs(numbers.mp_prefetch(2)).map(sum),
        "in a mix": lambda: IterDataset.mix(
            [Count(40), numbers, Pairs(numbers).map(sum)], when_exhausted="all"
        ).batch(5),
        "repeated": lambda: Count(40).flat_map(lambda x: [x] * (x % 3)).repeat(2),
    }[kind]()


KINDS = (
    "below",
    "below a batch",
    "in the middle",
    "on a dataset with workers",
    "in a mix",
    "repeated",
)


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worker_count", chosen([1, 2], 2))
def test_its_stream_does_not_depend_on_workers(kind, worker_count):
    """It is run through in one of them."""
    assert stream(chain(kind).mp_prefetch(worker_count)) == stream(chain(kind)) != []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_in(6)
def test_a_state_at_every_step_goes_on_exactly(kind):
    """With the state of its iterator."""
    expected = stream(chain(kind))
    iterator = iter(chain(kind).map(lambda x: x))
    for step in range(len(expected) + 1):
        other = iter(chain(kind).map(lambda x: x))
        other.set_state(iterator.get_state())
        assert stream(other) == expected[step:]
        next(iterator, None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_in(6)
def test_its_stream_and_its_states_do_not_depend_on_how_much_a_task_takes(kind, monkeypatch):
    """A few elements or many, each time other ones."""
    expected = stream(chain(kind))
    chance = random.Random(1)

    def inputs(self, stage):
        limits = self._pace._limits[stage]
        return min(chance.choice([1, 1, 2, 5, 40]) * limits.least, limits.task)

    monkeypatch.setattr(InlineExecutor, "inputs", inputs)
    monkeypatch.setattr(InlineExecutor, "most_rows", lambda *_: chance.choice([1, 1, 2, 5, 40]))
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
    with pytest.raises(CheckpointError, match="Keep the number"):
        other.set_states([iterator.get_state()])


@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_its_own_error_comes_after_what_came_before(worker_count):
    """And says which element it was."""
    iterator = iter(Count(50, fail_at=37).map(lambda x: x).mp_prefetch(worker_count))
    assert [next(iterator) for _ in range(37)] == list(range(37))
    with pytest.raises(ValueError, match="broken") as raised:
        next(iterator)
    assert "element 37" in raised.value.__notes__[0]


@pytest.mark.parametrize("worker_count", [0, 1])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.one_in(4)
def test_an_error_of_its_own_comes_in_place_of_the_batch_that_it_stops(on_error, worker_count):
    """A batch that is not full comes at the end alone. Where a stream breaks, nothing can be
    skipped.
    """
    stream = (
        Count(50, fail_at=37)
        .map(lambda x: x)
        .batch(5)
        .with_options(worker_count=worker_count, on_error=on_error)
    )
    iterator = iter(stream)
    assert [next(iterator).tolist() for _ in range(7)] == [
        [*range(start, start + 5)] for start in range(0, 35, 5)
    ]
    with pytest.raises(ValueError, match="broken"):
        next(iterator)


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


@pytest.mark.parametrize("workers", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_threads_run_through_it_once(workers):
    """It need not go to a state for each task."""
    begun = []

    class Noted(Count):
        def __iter__(self):
            begun.append(self)
            return super().__iter__()

    dataset = Noted(600).map(lambda x: x).batch(2)
    dataset = dataset.with_options(worker_count=workers, worker_kind="thread")
    assert stream(dataset) == stream(Count(600).batch(2))
    assert len(begun) == 1


def on(parent):
    """A chain on a dataset of one's own."""
    return Pairs(parent).map(sum)


OTHER_PARENTS = {
    "a longer one": lambda: on(MapDataset.range(200).to_iter_dataset()),
    "another order": lambda: on(MapDataset.range(100).shuffle(1).to_iter_dataset()),
    "another operation": lambda: on(MapDataset.range(100).map(abs).to_iter_dataset()),
    "one of one's own": lambda: on(Count(100)),
    "another own one": lambda: on(Pairs(Count(100))),
    "a dataset with random access": lambda: on(MapDataset.range(100)),
}


@pytest.mark.parametrize("here", OTHER_PARENTS)
def test_a_state_of_another_parent_is_refused(here):
    """Its elements are others, however alike the classes are; the same parent, made again, is
    taken.
    """
    for there in OTHER_PARENTS:
        iterator = iter(OTHER_PARENTS[here]())
        state = iter(OTHER_PARENTS[there]()).get_state()
        if there == here:
            iterator.set_state(state)
            continue
        with pytest.raises(CheckpointError, match="parents"):
            iterator.set_state(state)


def test_parents_that_are_kept_under_another_name_count_too():
    """In a list, or in a dict."""

    class Either(Count):
        def __init__(self, kept):
            super().__init__(40)
            self.kept = kept

    numbers = [MapDataset.range(stop).to_iter_dataset() for stop in range(2, 80)]
    many = [
        numbers,
        numbers[:40],
        numbers[::-1],
        {"one": numbers[:1]},
        {"one": {"two": numbers[1]}},
        (),
        numbers[3],
    ]
    states = [iter(Either(kept).map(abs)).get_state() for kept in many]
    for number, state in enumerate(states):
        taken = []
        for other, kept in enumerate(many):
            try:
                iter(Either(kept).map(abs)).set_state(state)
            except CheckpointError:
                continue
            taken.append(other)
        assert taken == [number]


class Versioned(Count):
    """Tells its identity."""

    def __init__(self, stop, version):
        super().__init__(stop)
        self._version = [version]

    @property
    def fingerprint(self):
        return {"version": self._version}


def test_a_fingerprint_that_the_class_tells_is_its_identity():
    """In place of its attributes: another one is refused, the same one taken, whatever the
    attributes are.
    """
    state = iter(Versioned(40, "a").map(abs)).get_state()
    iter(Versioned(41, "a").map(abs)).set_state(state)
    with pytest.raises(CheckpointError, match="parameters"):
        iter(Versioned(40, "b").map(abs)).set_state(state)


@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("position", [40, 41, 1000, 10**15])
@pytest.mark.one_in(4)
def test_a_place_after_its_end_is_the_end(position, worker_count):
    """A damaged state, or one of a dataset that was longer, is none that anybody waits for."""
    dataset = Count(40).map(str).mp_prefetch(worker_count)
    iterator = iter(dataset)
    state = json.loads(iterator.get_state())
    state["cursor"][0][0] = position
    iterator.set_state(sealed(state))
    assert list(iterator) == []


def deadly(*elements):
    """An operation that ends its worker at some elements."""

    def ends(element):
        if element in elements:
            os._exit(3)
        return element

    return ends


@pytest.mark.long
def test_an_element_of_an_own_stream_that_ends_its_worker_is_lost_alone():
    """All others come, and states before and after it lead to what is left."""
    chain = Count(40).map(deadly(10, 25)).with_options(worker_count=1, on_error="skip")
    expected = [element for element in range(40) if element not in (10, 25)]
    got, states = [], []
    with iter(chain) as iterator:
        for element in iterator:
            got.append(element)
            states.append(iterator.get_state())
        assert iterator.skipped_count == 2
    assert got == expected
    for place in (9, 10, 11):
        assert list(_resumed(chain, states[place])) == expected[place + 1 :]


def _resumed(chain, state):
    with iter(chain) as iterator:
        iterator.set_state(state)
        yield from iterator


class EndsItself(Count):
    """Its own iterator ends the worker at element 5."""

    def __iter__(self):
        return EndsItselfIterator(self.stop, None)


class EndsItselfIterator(CountIterator):
    """Says nothing before it ends."""

    def __next__(self):
        if self.number == 5:
            os._exit(3)
        return super().__next__()


def test_an_own_stream_whose_iterator_ends_its_worker_says_so():
    """Nothing after that element can be reached: an error, once what comes before it was given."""
    got = []
    with pytest.raises(WorkerCrashedError, match="elements 5 and 6"):
        for element in EndsItself(20).with_options(worker_count=1, on_error="skip"):
            got.append(element)
    assert got == [0, 1, 2, 3, 4]


def test_records_of_an_own_stream_cannot_be_omitted():
    """They have no keys; the remedy is a filter."""
    with pytest.raises(ValueError, match=r"records have no keys\. Use filter\(\)"):
        Pairs(MapDataset.range(4).to_iter_dataset()).omit([1])
