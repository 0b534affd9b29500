"""Records that end or hang their worker every time: what comes before them, and what is
left out.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from headrace import Batch, DataLoader, Filter, IndexSampler, IterDataset, MapDataset
from headrace.errors import TooManyErrorsError, WorkerCrashedError
from headrace.loader.plan.stages import Span, parts_of


def _opened(records: int, operations: list[Any], **more: Any) -> DataLoader:
    sampler = IndexSampler(records, num_epochs=1)
    return DataLoader(
        data_source=range(records), sampler=sampler, operations=operations, worker_count=2, **more
    )


def _values(elements: Iterable[Any]) -> list[int]:
    return list(
        itertools.chain.from_iterable(np.atleast_1d(element).tolist() for element in elements)
    )


def _ends_at(deadly: int) -> Any:
    def ends(x: int) -> int:
        if x == deadly:
            os._exit(3)
        return x

    return ends


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operations", "keys"),
    [
        ([Batch(4)], "5000"),
        ([Filter(lambda x: True), Batch(4)], "5000"),
        ([Filter(lambda x: True)], "5000"),
    ],
)
@pytest.mark.one_in(3)
def test_what_is_whole_before_a_deadly_record_comes_first(operations, keys):
    """Tasks have grown to many batches by then; all before the record are delivered, and the error
    is about it alone.
    """
    got: list[int] = []
    with pytest.raises(WorkerCrashedError, match=f"record keys? {keys} at .*exit code 3, 3 times"):
        for element in _opened(8000, [_ends_at(5000), *operations]):
            got += np.atleast_1d(element).tolist()
    assert got == list(range(5000))


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("joined", [False, True])
def test_a_deadly_record_of_a_window_is_named_alone(joined):
    """A window is tried element by element, and then input by input: the error names one key."""
    streams = [MapDataset.range(40).to_iter_dataset(), MapDataset.range(100, 140).to_iter_dataset()]
    stream = IterDataset.mix(streams) if joined else streams[0]
    with pytest.raises(WorkerCrashedError, match=r"record key 10.* at position 10: "):
        list(stream.window_shuffle(8, seed=1).map(_ends_at(10)).with_options(worker_count=1))


@pytest.mark.slow
@pytest.mark.parametrize("operations", [[], [Batch(4)], [Filter(lambda x: True), Batch(4)]])
@pytest.mark.one_in(3)
def test_a_record_that_ends_its_worker_can_be_skipped(operations, caplog):
    """It is left out alone, counted and logged like a record that fails, and the run resumes after
    it.
    """
    loader = _opened(60, [_ends_at(9), *operations], on_error="skip")
    with iter(loader) as iterator:
        first = _values(itertools.islice(iterator, 4))
        state = iterator.get_state()
        got = first + _values(iterator)
        assert iterator.skipped_count == 1
    assert got == [x for x in range(60) if x != 9]
    assert caplog.text.count("skipped: WorkerCrashedError") == 1
    assert "record key 9 at position 9: " in caplog.text
    with iter(loader) as iterator:
        iterator.set_state(state)
        assert first + _values(iterator) == got


@pytest.mark.slow
def test_a_record_that_hangs_its_worker_can_be_skipped(caplog):
    """After its tries, with a time limit."""

    def hangs(x: int) -> int:
        if x == 9:
            time.sleep(1000)
        return x

    loader = _opened(40, [hangs, Batch(4)], on_error="skip", timeout=0.5)
    assert np.concatenate(list(loader)).tolist() == [x for x in range(40) if x != 9]
    assert "timeout=0.5 s" in caplog.text


@pytest.mark.slow
def test_a_batch_that_ends_its_worker_can_be_skipped():
    """Behind a batch the whole batch is left out."""

    def ends(batch: np.ndarray) -> np.ndarray:
        if 9 in batch:
            os._exit(3)
        return batch

    loader = _opened(40, [Batch(4), ends], on_error="skip")
    assert np.concatenate(list(loader)).tolist() == [x for x in range(40) if not 8 <= x < 12]


@pytest.mark.slow
def test_deadly_records_count_towards_the_limit():
    """With max_errors=0 the first one is an error."""
    with pytest.raises(TooManyErrorsError, match="max_errors=0"):
        list(_opened(40, [_ends_at(9)], on_error="skip", max_errors=0))


@pytest.mark.parametrize("unit", [1, 3, 8])
def test_the_parts_of_a_task_are_the_task(unit):
    """In order, without a gap, of whole units, and smaller than the task unless that is a single
    unit.
    """
    for start, length in itertools.product((0, 24), (1, 2, 7, 8, 100, 5000)):
        parts = parts_of(Span(start, start + length), unit)
        assert [parts[0].start, *(part.stop for part in parts)] == [
            *(part.start for part in parts),
            start + length,
        ]
        assert len(parts) <= 32
        assert all((part.start - start) % unit == 0 for part in parts)
        assert (len(parts) == 1) == (length <= unit)
