"""What actors of a Ray cluster do with each record: global generators, rows that cannot be sent,
records that end them.
"""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from support.global_generators import OPERATIONS, SEEN, numpys, seeded

from headrace import Batch, DataLoader, Filter, IndexSampler, load
from headrace.errors import WorkerCrashedError

ON_RAY = {"worker_count": 2, "worker_kind": "ray"}

pytestmark = [pytest.mark.ray, pytest.mark.long]


def _loader(records, operations, **more):
    sampler = IndexSampler(records, num_epochs=1)
    return DataLoader(
        data_source=range(records), sampler=sampler, operations=operations, **ON_RAY, **more
    )


@pytest.mark.filterwarnings(SEEN)
def test_no_two_actors_have_the_same_numbers():
    """What draws from NumPy's global generator draws other numbers in each, and the user is warned
    once.
    """
    loader = load(range(400), transformations=[numpys], batch_size=4, num_epochs=1, **ON_RAY)
    with pytest.warns(UserWarning, match="draws from the global generator") as caught:
        drawn = np.concatenate(list(loader)).tolist()
    assert len(set(drawn)) == 400
    assert len(caught) == 1


@pytest.mark.parametrize("name", ["map, batch", "of batches of rows", "flat map"])
def test_with_seed_globals_actors_draw_what_is_drawn_without_workers(name):
    """For maps, what comes after groups of rows, and flat maps."""
    expected = [str(element) for element in seeded(OPERATIONS[name])]
    assert [str(element) for element in seeded(OPERATIONS[name], **ON_RAY)] == expected


def _holds_a_lock(record):
    return (record, threading.Lock()) if record == 9 else (record, None)


def test_a_row_that_cannot_be_sent_is_a_failure_of_its_operation():
    """What comes before it comes first; the error names operation and record. Or it is left out,
    that alone.
    """
    got = []
    with pytest.raises(TypeError) as raised:
        got.extend(record for record, _ in _loader(40, [_holds_a_lock, Filter(lambda row: True)]))
    assert got == list(range(9))
    told = "\n".join([str(raised.value), *raised.value.__notes__])
    assert "_holds_a_lock" in told or "Filter" in told
    assert "9" in told
    with iter(_loader(40, [_holds_a_lock, Filter(lambda row: True)], on_error="skip")) as iterator:
        assert [record for record, _ in iterator] == [x for x in range(40) if x != 9]
        assert iterator.skipped_count == 1


class OwnError(ValueError):
    """A constructor that wants other arguments than `args` has."""

    def __init__(self, code, *, detail):
        super().__init__(f"code {code}: {detail}")
        self.code = code


def test_except_theirs_works_with_actors():
    """An exception of the user's own comes back as its own type, with its attributes."""

    def fails(record):
        if record == 9:
            raise OwnError(4, detail="bad")
        return record

    with pytest.raises(OwnError, match="code 4: bad") as raised:
        list(_loader(40, [fails, Batch(4)]))
    assert raised.value.code == 4


@pytest.mark.parametrize(
    "operations", [[Batch(8)], [Filter(lambda x: True), Batch(8)]], ids=["batch", "rows, batch"]
)
def test_of_a_batch_that_ends_its_actors_the_record_at_fault_is_named(operations):
    """Not one that an actor did just before, whose answer was lost with it; what is whole before it
    comes first.
    """

    def ends(record):
        if record == 21:
            os._exit(3)
        return record

    got = []
    with pytest.raises(WorkerCrashedError, match=r"record key 21 at .*3 times\."):
        for batch in _loader(60, [ends, *operations]):
            got += batch.tolist()
    assert got[:16] == list(range(16))
    assert got == list(range(len(got)))
