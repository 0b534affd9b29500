"""Users can test that their own pipelines resume exactly, and are told which operation does not."""

import itertools
import os
import random
import threading
from collections import Counter

import numpy as np
import pytest
from support.pipelines import PIPELINES, chosen, loader

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    RandomMapTransform,
    check_resume,
)
from headrace.errors import NotDeterministicError

pytestmark = pytest.mark.filterwarnings("ignore:operation .* draws from the global generator")


def _opened(*operations, source=range(30)):
    sampler = IndexSampler(len(source), shuffle=True, seed=2, num_epochs=2)
    return DataLoader(data_source=source, sampler=sampler, operations=operations)


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.one_in(4)
def test_every_kind_of_pipeline_passes(name):
    """What is deterministic is found to be, at every step; a short stream is compared as far as it
    goes.
    """
    report = check_resume(loader(name), steps=5, worker_counts=(0,))
    assert report.resumed == report.steps > 0


class Named:
    """An object without equality of its own."""

    def __init__(self, x):
        self.kind, self.x = "kind", x


STRANGE = [
    lambda x: {str(n) for n in range(x, x + 50)},
    lambda x: frozenset([float("nan"), x]),
    lambda x: float("nan"),
    Named,
    lambda x: lambda: x,
    lambda x: object(),
]


@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    ("number", "worker_counts"),
    [
        *((number, (0,)) for number in range(len(STRANGE))),
        *chosen([(n, (0, 1)) for n in range(5)], (1, (0, 1))),
    ],
)
def test_objects_of_any_kind_are_compared_by_what_they_hold(number, worker_counts):
    """Sets, NaN, objects without equality, functions: no false alarm, with a worker
    process either.
    """
    check_resume(_opened(STRANGE[number]), steps=4, worker_counts=worker_counts)


def test_an_end_that_comes_later_a_second_time_is_found():
    """The stream's end is compared like an element."""
    calls = Counter()

    def late(x):
        calls[x] += 1
        return x < 9 or calls[x] > 1

    sampler = IndexSampler(10, num_epochs=1)
    pipeline = DataLoader(data_source=range(10), sampler=sampler, operations=[Filter(late)])
    with pytest.raises(NotDeterministicError):
        check_resume(pipeline, steps=20, worker_counts=(0,))


def test_records_that_fail_are_counted_anew_after_each_resume():
    """A limit of errors is that of one run."""

    def fails(x):
        return 1 // (x - 3) or x

    sampler = IndexSampler(20, num_epochs=1)
    more = {"on_error": "skip", "max_errors": 1, "operations": [fails, Batch(4)]}
    check_resume(
        DataLoader(data_source=range(20), sampler=sampler, **more), steps=4, worker_counts=(0,)
    )


@pytest.mark.slow
def test_worker_processes_are_compared_too():
    """The report says with how many, and how often the stream was resumed."""
    report = check_resume(loader("filter, batch"), steps=8)
    assert (report.steps, report.resumed, report.worker_counts) == (8, 12, (0, 2))


class Counts:
    """A map that remembers how often it was called."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x + self.calls


class Overwrites:
    """A source whose records an operation changes in place."""

    def __init__(self):
        self.records = [np.full(3, index) for index in range(60)]

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        return self.records[index]


def _add_one(array):
    array += 1
    return array


def _lists():
    return [list(range(60)) for _ in range(60)]


def _drop_half(numbers):
    del numbers[len(numbers) // 2 :]
    return len(numbers)


FINE = lambda x: x * 2  # noqa: E731


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (lambda: _opened(FINE, Counts(), Batch(4)), "operation 1, .*Counts"),
        (lambda: _opened(FINE, lambda x: x + random.random(), Batch(4)), "operation 1, "),
        (
            lambda: _opened(FINE, Filter(lambda x: random.random() < 0.5), Batch(4)),
            "operation 1, Filter",
        ),
        (
            lambda: _opened(FlatMap(lambda x: [x] * random.randint(1, 3)), FINE),
            "operation 0, FlatMap",
        ),
        (
            lambda: _opened(RandomMapTransform(lambda x, rng: x + np.random.rand()), Batch(4)),
            "operation 0, RandomMap",
        ),
        (
            lambda: _opened(_add_one, FINE, Batch(4), source=Overwrites()),
            "operation 0, .*_add_one.* in place",
        ),
        (
            lambda: _opened(lambda x: x, _drop_half, source=_lists()),
            "operation 1, .*_drop_half.* in place",
        ),
    ],
)
@pytest.mark.one_in(7)
def test_the_first_operation_that_is_not_deterministic_is_named(pipeline, message):
    """State between calls, random numbers of its own, changed records."""
    with pytest.raises(NotDeterministicError, match=message) as caught:
        check_resume(pipeline(), steps=6, worker_counts=(0,))
    assert "record" in str(caught.value)


@pytest.mark.long
def test_what_depends_on_the_process_is_found_with_workers():
    """It is the same twice in one process, and another thing in a worker."""
    pipeline = _opened(FINE, lambda x: (x, os.getpid()), Batch(4))
    check_resume(pipeline, steps=3, worker_counts=(0,))
    with pytest.raises(NotDeterministicError, match=r"worker_count=1.*operation 1"):
        check_resume(pipeline, steps=3, worker_counts=(0, 1))


class Forgets:
    """A source that gives other records every time."""

    def __len__(self):
        return 60

    def __getitem__(self, index):
        return random.random()


def _numbered():
    """A map that gives each word a number, in the order in which words come."""
    numbers = {}
    return lambda word: numbers.setdefault(word, len(numbers))


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("operations", [(), (FINE,), (FINE, Filter(lambda x: x % 3))])
def test_what_an_operation_learns_from_the_records_before_is_found(operations):
    """A resumed run, which has not seen these records, numbers words otherwise; the same run a
    second time does not.
    """
    with pytest.raises(
        NotDeterministicError, match=rf"operation {len(operations)}, .*keep nothing from one call"
    ):
        check_resume(_opened(*operations, _numbered(), Batch(4)), steps=6, worker_counts=(0,))


def test_a_pipeline_that_cannot_be_pickled_is_checked_without_copies():
    """Its operations are those of the loader."""
    lock = threading.Lock()
    assert (
        check_resume(_opened(lambda x: (lock.locked(), x)), steps=4, worker_counts=(0,)).resumed
        == 4
    )


@pytest.mark.slow
def test_a_source_that_changes_is_named():
    """The operations are not to blame then."""
    with pytest.raises(NotDeterministicError, match="the source"):
        check_resume(_opened(FINE, Batch(4), source=Forgets()), steps=3, worker_counts=(0,))


@pytest.mark.parametrize("arguments", [{"steps": 0}, {"worker_counts": (-1,)}])
def test_impossible_arguments_are_refused(arguments):
    """The message names the argument."""
    with pytest.raises(ValueError, match=next(iter(arguments))):
        check_resume(headrace.load(range(5)), **arguments)


COUNT = itertools.count()


def test_records_of_a_mix_are_named_by_their_part():
    """Where several sources are mixed, the message says which record of which."""
    parts = {"web": [1, 2, 3], "books": [4, 5]}
    loader = headrace.DataLoader(
        data_source=parts,
        sampler=headrace.MixSampler(parts, when_exhausted="all"),
        operations=[lambda record: (record, next(COUNT))],
    )
    with pytest.raises(
        NotDeterministicError, match=r"operation 0, .* gave another result for record 0 of 'books'"
    ):
        headrace.check_resume(loader)


@pytest.mark.slow
def test_chains_are_checked_as_loaders_are():
    """Both kinds of datasets; the first operation at fault is named, or, of joined datasets, what
    to check next.
    """
    whole = headrace.MapDataset.range(30).shuffle(1).map(lambda x: x + 1)
    assert check_resume(whole.batch(4), worker_counts=[0]).steps == 8
    mixed = headrace.IterDataset.mix(
        [whole.to_iter_dataset().filter(bool), whole.to_iter_dataset()]
    )
    assert check_resume(mixed.batch(4), steps=6, worker_counts=[0]).resumed == 6
    calls = []
    forgetful = whole.map(lambda x: calls.append(x) or len(calls))
    with pytest.raises(NotDeterministicError, match="operation 1"):
        check_resume(forgetful, worker_counts=[0])
    with pytest.raises(NotDeterministicError, match="one by one"):
        check_resume(headrace.IterDataset.mix([forgetful.to_iter_dataset()]), worker_counts=[0])


def test_a_single_number_of_workers_is_refused():
    """With what to pass."""
    with pytest.raises(
        TypeError, match=r"worker_counts=2 is not a list\. Pass a list of numbers of workers"
    ):
        check_resume(_opened(), worker_counts=2)
