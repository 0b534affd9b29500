"""Streams that come together run on the same engine: workers, states and other shards as for one
line of operations.
"""

import itertools

import pytest
from support.pipelines import stream
from support.trees import TREES, InTurn, Joined, ZipRows, apply, flat, iterate, mix, numbers, three

from headrace import Filter, NoSharding, ShardOptions, WindowShuffle
from headrace.errors import CheckpointError, JoinError

ONE = NoSharding()


@pytest.mark.long
@pytest.mark.one_in(36)
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize(
    ("worker_count", "worker_kind"), [(1, "process"), (2, "process"), (3, "thread")]
)
def test_the_stream_does_not_depend_on_workers(name, worker_count, worker_kind):
    """Byte for byte."""
    expected = stream(iterate(TREES[name](ONE)))
    with iterate(TREES[name](ONE), worker_count, worker_kind=worker_kind) as iterator:
        assert stream(iterator) == expected
    assert len(expected) > 3


@pytest.mark.slow
@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", TREES)
def test_a_state_at_every_step_goes_on_exactly(name):
    """Wherever it was taken."""
    expected = stream(iterate(TREES[name](ONE)))
    iterator = iterate(TREES[name](ONE))
    for step in range(len(expected) + 1):
        state = iterator.get_state()
        other = iterate(TREES[name](ONE))
        other.set_state(state)
        assert other.get_state() == state
        assert stream(other) == expected[step:]
        next(iterator, None)


LOSSY = ("random", "index", "flat map", "batch of batches")
"""What leaves out or changes elements by their place, which is another with other shards."""
REFUSES = ("zip", "limit", "repeat")
"""What goes on with other shards not at all, or from equal steps alone."""
EXACT = [name for name in TREES if not any(word in name for word in (*LOSSY, *REFUSES))]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(
    ("before", "after", "steps"), [(2, 3, (3, 5)), (3, 1, (2, 0, 4)), (1, 2, (6,))]
)
@pytest.mark.one_in(6)
def test_other_shards_go_on_with_each_record_once(name, before, after, steps):
    """Also where the former shards stand at unequal steps. A mix that ends with its first dataset
    leaves out some.
    """
    delivered, states = [], []
    for shard, count in enumerate(steps):
        iterator = iterate(TREES[name](ShardOptions(shard, before)))
        delivered += [element for _, element in zip(range(count), iterator)]
        states.append(iterator.get_state())
    for shard in range(after):
        iterator = iterate(TREES[name](ShardOptions(shard, after)))
        iterator.set_states(states)
        delivered += list(iterator)
    numbers_ = flat(delivered)
    if name == "mix":
        assert len(set(numbers_)) == len(numbers_)
    else:
        assert sorted(numbers_) == sorted(flat(_whole(name, before)))


def _whole(name, shards):
    return [
        element
        for shard in range(shards)
        for element in iterate(TREES[name](ShardOptions(shard, shards)))
    ]


def test_a_mix_ends_with_the_first_that_ends_or_goes_on_without_it():
    """As told."""
    first = [*iterate(mix(numbers(0, 10), numbers(100, 100), weights=[1, 1]))]
    every = [*iterate(mix(numbers(0, 10), numbers(100, 100), weights=[1, 1], goes_on=True))]
    assert len([x for x in first if x < 100]) == 10
    assert 20 <= len(first) <= 21
    assert sorted(every) == [*range(10), *range(100, 200)]


def test_a_mix_takes_rows_in_proportion():
    """At every step, within one."""
    elements = [*iterate(mix(numbers(0, 700), numbers(1000, 300), weights=[0.7, 0.3]))]
    for count in range(len(elements)):
        assert abs(sum(x < 1000 for x in elements[:count]) - 0.7 * count) <= 1


@pytest.mark.parametrize(
    ("counts", "wording"), [((5, 3), "argument 2 is shorter"), ((3, 5), "argument 1 is shorter")]
)
def test_a_strict_zip_of_unequal_lengths_says_which_is_shorter(counts, wording):
    """After the elements that there are."""
    node = apply(Joined((numbers(0, counts[0]), numbers(10, counts[1])), InTurn(2)), ZipRows(2))
    iterator = iterate(node)
    assert len([next(iterator) for _ in range(3)]) == 3
    with pytest.raises(JoinError, match=wording):
        next(iterator)


def test_last_records_of_a_mix_tells_them_by_dataset():
    """Each by its keys."""
    iterator = iterate(mix(numbers(0, 10, name="a"), numbers(100, 10, name="b"), weights=[1, 1]))
    element = next(iterator)
    keys = iterator.last_records()
    assert {name: found.tolist() for name, found in keys.items()} == (
        {"a": [element], "b": []} if element < 100 else {"a": [], "b": [element - 100]}
    )


@pytest.mark.parametrize(
    "steps", [[lambda x: x], [Filter(lambda x: x % 3), WindowShuffle(4, seed=1)]]
)
def test_last_records_of_an_element_of_a_group_are_its_own(steps):
    """Not those of all rows that one task was about: neither after a mix, nor in a window that is
    shuffled.
    """
    node = apply(mix(numbers(0, 40, name="a"), numbers(100, 40, name="b"), weights=[1, 1]), *steps)
    iterator = iterate(node)
    for element in itertools.islice(iterator, 20):
        found = iterator.last_records()
        assert found["a"].tolist() + (100 + found["b"]).tolist() == [element]


def test_a_failure_after_a_mix_names_dataset_and_key():
    """Whichever it came from."""

    def fail(x):
        if x == 105:
            raise ValueError("no")
        return x

    node = apply(mix(numbers(0, 10, name="a"), numbers(100, 10, name="b"), weights=[1, 1]), fail)
    with pytest.raises(ValueError, match="no") as raised:
        list(iterate(node))
    assert "record key 5 at position" in raised.value.__notes__[0]
    assert "of b" in raised.value.__notes__[0]


def test_a_limit_refuses_other_shards():
    """As it counts elements of one."""
    iterator = iterate(TREES["limit"](ShardOptions(0, 2)))
    next(iterator)
    other = iterate(TREES["limit"](ONE))
    states = [iterator.get_state(), iterate(TREES["limit"](ShardOptions(1, 2))).get_state()]
    with pytest.raises(CheckpointError, match="limit counts the elements of one shard"):
        other.set_states(states)


def test_on_error_skip_leaves_out_single_rows_of_a_mix():
    """Not the whole task."""
    from headrace.loader.iterator import DataLoaderIterator
    from headrace.loader.options import ExecutionOptions
    from headrace.loader.plan.compile import compiled

    node = apply(
        mix(*three(ONE), weights=[1, 1, 1], goes_on=True), lambda x: 1 / (x % 10 - 5) and x
    )
    iterator = DataLoaderIterator(compiled(node, skips_errors=True), ExecutionOptions())
    every = [*iterate(mix(*three(ONE), weights=[1, 1, 1], goes_on=True))]
    assert list(iterator) == [x for x in every if x % 10 != 5]
