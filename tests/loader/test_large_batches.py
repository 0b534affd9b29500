"""Batches that cannot be, or never come: said at once, with shape and bytes, and no
record blamed.
"""

from __future__ import annotations

import numpy as np
import pytest

from headrace import Batch, Filter, FlatMap, IterDataset, MapDataset, load
from headrace.errors import BatchMemoryError
from headrace.operations.protocol import ArraySpec
from headrace.operations.stacking import allocated

SIDE = 1 << 13  # an element of 0.5 GB that takes none: all of it is one number
LARGE = 1 << 20


def large(record):
    """A row of 512 MiB."""
    return np.broadcast_to(np.float64(record), (SIDE, SIDE))


def arguments(worker_count, **more):
    """Twenty rows, in batches of a million."""
    return {"batch_size": LARGE, "transformations": [large], "worker_count": worker_count} | more


@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_batch_without_memory_is_told_by_shape_and_bytes(worker_count):
    """The first batch fails with its shape and bytes; the operation is named, no record is."""
    iterator = iter(load(range(20), **arguments(worker_count, num_epochs=LARGE)))
    shape, size = rf"\({LARGE}, {SIDE}, {SIDE}\)", f"{LARGE * SIDE * SIDE * 8:,}"
    with (
        iterator,
        pytest.raises(
            BatchMemoryError, match=rf"{size} bytes: .*{shape} and dtype float64.*batch_size"
        ) as caught,
    ):
        next(iterator)
    assert caught.value.__notes__ == [
        f"headrace: operation 1, Batch({LARGE}), failed for want of memory."
    ]
    assert isinstance(caught.value, MemoryError)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_batch_of_columns_without_memory_reads_no_record_to_find_a_culprit(worker_count):
    """A source with columns is not searched, record by record, for one that fails:
    there is none.
    """
    columns = {"x": np.ones((20, 1024, 1024), np.float32), "y": np.zeros(20, np.int8)}
    with pytest.raises(
        BatchMemoryError, match=rf"leaf \['x'\] has shape \({LARGE}, .*of these"
    ) as caught:
        next(iter(load(columns, batch_size=LARGE, worker_count=worker_count)))
    assert "want of memory" in caught.value.__notes__[0]


def of_8_mib(record):
    """A row of 8 MiB."""
    return np.broadcast_to(np.float64(record), (LARGE,))


def rows_of(worker_count, kind):
    """Rows of 8 MiB that are to become batches of a million, as each pipeline makes them."""
    options = {"worker_count": worker_count}
    if kind == "join":
        streams = [MapDataset.range(20).repeat().map(of_8_mib).to_iter_dataset() for _ in range(2)]
        return IterDataset.mix(streams).batch(LARGE).with_options(**options)
    if kind == "skip":
        return load(
            range(20),
            **arguments(num_epochs=LARGE, transformations=[of_8_mib], on_error="skip", **options),
        )
    return load(
        range(20),
        **arguments(**options) | {"transformations": [of_8_mib, Filter(lambda row: True)]},
    )


@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["skip", "ragged", "join"])
@pytest.mark.one_in(3)
def test_the_size_of_a_batch_is_told_with_its_first_row_in_any_pipeline(worker_count, kind):
    """Where rows are gathered before a batch is made of them, the first one tells what all will
    take.
    """
    size = f"{LARGE * LARGE * 8:,}"
    told = rf"{size} bytes: .*{LARGE}, {LARGE}"
    with (
        iter(rows_of(worker_count, kind)) as iterator,
        pytest.raises(BatchMemoryError, match=told) as caught,
    ):
        next(iterator)
    assert f"Batch({LARGE}), failed for want of memory" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "operations", [[Filter(lambda record: record == 3)], [FlatMap(lambda record: [record])]]
)
def test_a_batch_of_what_passes_is_not_refused_for_what_might(operations):
    """Who takes all that a filter lets pass in one batch may say a number far above it."""
    loader = load(range(4), batch_size=LARGE, num_epochs=1, transformations=[*operations, str])
    assert len(next(iter(loader))) in (1, 4)


def test_a_limit_bounds_what_a_batch_takes():
    """A join that ends before its inputs do says nothing of how many rows come."""
    stream = (
        MapDataset.range(20)
        .repeat()
        .map(lambda record: np.full((8, 8), record))
        .to_iter_dataset()
        .limit(3)
    )
    assert len(next(iter(stream.batch(1 << 40)))) == 3


def test_a_users_own_memory_error_stays_one_of_a_record():
    """A MemoryError of an operation is the user's: it keeps its type and names its record."""

    def fails(record):
        raise MemoryError("mine")

    with pytest.raises(MemoryError, match="mine") as caught:
        list(load(range(4), transformations=[fails], batch_size=2, num_epochs=1))
    assert type(caught.value) is MemoryError
    assert "on record key 0" in caught.value.__notes__[0]


def test_a_want_of_descriptors_is_no_want_of_memory():
    """What the system says of other limits than memory stays what it is."""

    def no_descriptor(specs):
        raise OSError(24, "too many open files")

    def no_memory(specs):
        raise OSError(12, "Cannot allocate memory")

    specs = [ArraySpec((3, 2), np.dtype(np.int64))]
    with pytest.raises(OSError, match="too many open files"):
        allocated(specs, [""], no_descriptor)
    with pytest.raises(
        BatchMemoryError, match=r"48 bytes: leaf of the element has shape .3, 2. and dtype int64"
    ):
        allocated(specs, [""], no_memory)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operations", [[], [str], [Filter(lambda record: record != 3)]])
def test_a_batch_larger_than_the_stream_takes_memory_for_the_stream(worker_count, operations):
    """One batch of all records, by a size far above them: it comes, and stands on memory for as
    many rows as there are.
    """
    loader = load(
        range(20),
        batch_size=10**9,
        num_epochs=1,
        transformations=operations,
        worker_count=worker_count,
    )
    (batch,) = loader
    assert len(batch) == (19 if operations and operations != [str] else 20)
    base = batch
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert base.nbytes <= 1 << 20


def test_batches_before_a_short_one_and_after_it_are_whole():
    """Room for a short batch is made for it alone: what comes after it in the same worker has room
    again.
    """
    iterator = iter(load(range(10), batch_size=4, num_epochs=1))
    begin = iterator.get_state()
    for _ in range(2):
        assert [batch.tolist() for batch in iterator] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        iterator.set_state(begin)
    sizes = [
        len(batch)
        for batch in load(range(10), batch_size=3, num_epochs=1, transformations=[Batch(2)])
    ]
    assert sizes == [3, 2]


@pytest.mark.parametrize("num_epochs", [None, 10**9])
def test_a_batch_of_millions_of_epochs_is_refused(num_epochs):
    """load(range(20), batch_size=10**9) would read 20 records 50,000,000 times: an error that says
    so, when it is made.
    """
    with pytest.raises(
        ValueError, match=r"1,000,000,000 records is too large.*at most 16,777,216.*num_epochs=1"
    ) as caught:
        load(range(20), batch_size=10**9, num_epochs=num_epochs)
    assert len(str(caught.value)) < 500
    with pytest.raises(ValueError, match="1,000,000,000 records is too large"):
        load(range(20), batch_size=2).with_batch_size(10**9)
    with pytest.raises(ValueError, match="1,000,000,000 records is too large"):
        iter(MapDataset.range(20).repeat(num_epochs).batch(10**9))


def test_batches_of_some_epochs_and_of_all_records_are_made():
    """A batch of several epochs of a small source, and one of all of a large source, are nobody's
    mistake.
    """
    assert len(next(iter(load(range(3), batch_size=1000)))) == 1000
    assert repr(load(range(10**10), batch_size=10**9)).endswith("worker_count=0)")


@pytest.mark.parametrize("worker_count", [0, 1])
def test_rows_that_room_was_looked_for_become_a_batch(worker_count):
    """Of an endless stream, whose filter's rows are regrouped: the look at the first one leaves
    them where they are.
    """
    loader = load(
        range(9000), transformations=[Filter(bool)], batch_size=2048, worker_count=worker_count
    )
    with iter(loader) as iterator:
        assert next(iterator).tolist() == list(range(1, 2049))
