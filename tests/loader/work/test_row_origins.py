"""The records that rows were made of, and those that an error names."""

from __future__ import annotations

import numpy as np
import pytest

import headrace
from headrace import (
    Batch,
    BudgetBatch,
    DataLoader,
    IndexSampler,
    IterDataset,
    MapDataset,
    load,
)
from headrace.errors import StructureError


def test_a_budget_batch_of_batches_is_traced_to_the_records_of_each():
    """Each of its elements is made of two records."""

    def repeated(pair):
        return np.repeat(pair, 1 + int(pair[0]) % 4)

    operations = [Batch(2), repeated, BudgetBatch(12, window=4, pad_to=(4, 8))]
    loader = DataLoader(
        data_source=range(24), sampler=IndexSampler(24, num_epochs=1), operations=operations
    )
    for step, batch in enumerate(loader):
        rows = batch["tokens"][batch["lengths"] > 0]
        lengths = batch["lengths"].tolist()
        expected = [
            (key, at)
            for at, row in enumerate(rows)
            for key in np.unique(row[: lengths[at]]).tolist()
        ]
        assert [
            (record.key, record.row) for record in headrace.trace(loader, step).records
        ] == expected


def test_a_batch_of_batches_is_traced_to_the_rows_of_the_outer_one():
    """Each is a batch of two records."""
    loader = load(range(16), transformations=[Batch(2), Batch(4)])
    assert [record.row for record in headrace.trace(loader, 1).records] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("by", ["row", "batch"])
def test_random_numbers_after_a_join_do_not_depend_on_which_tasks_make_its_rows(by):
    """Where several rows of a record are joined. The first task of a run goes from row to row, and
    later ones make many in one call.
    """

    def twice(x):
        return [x, x + 1000]

    streams = [MapDataset.range(n, n + 20).to_iter_dataset().flat_map(twice) for n in (0, 100)]
    mixed = IterDataset.mix(streams).seed(3)
    rows = mixed if by == "row" else mixed.map(int).filter(lambda x: True).batch(3)
    dataset = rows.random_map(lambda row, rng: (str(row), rng.random()))
    iterator = iter(dataset)
    expected = [(element, iterator.get_state()) for element in iterator]
    resumed = iter(dataset)
    resumed.set_state(expected[5][1])
    assert list(resumed) == [element for element, _ in expected[6:]]


def test_the_error_of_a_row_that_does_not_fit_was_not_caused_by_a_later_record():
    """Rows wait to be copied into a batch; the first one that fails is told, without the error that
    came to light before.
    """

    def fails(x):
        if x == 3:
            raise LookupError("three")
        return np.zeros(2 if x == 1 else 3)

    with pytest.raises(StructureError, match=r"shape \(3,\) .* \(2,\)") as caught:
        list(headrace.load(range(8), transformations=[fails, Batch(4)], num_epochs=1))
    assert "record key 1 " in caught.value.__notes__[0]
    assert caught.value.__context__ is None
