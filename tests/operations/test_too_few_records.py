"""With drop_remainder=True, a stream that would be empty is an error; one that only
ends is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace
from headrace import Batch, DataLoader, Filter, FlatMap, IndexSampler, ShardOptions, load
from headrace.errors import EmptyStreamError


@pytest.mark.parametrize(
    "make",
    [
        lambda: load(range(3), batch_size=4, drop_remainder=True, num_epochs=1),
        lambda: load({"x": np.arange(3)}, batch_size=4, drop_remainder=True, num_epochs=1),
        lambda: load(
            range(11), transformations=[Batch(4), Batch(4, drop_remainder=True)], num_epochs=1
        ),
        lambda: load(
            range(3), transformations=[Batch(4, True), Filter(lambda b: True)], num_epochs=1
        ),
        lambda: load(range(8), batch_size=2, drop_remainder=True, num_epochs=1).with_batch_size(9),
        lambda: load(range(6), batch_size=9, drop_remainder=True).epochs(3),
        lambda: load(
            range(6),
            batch_size=9,
            drop_remainder=True,
            num_epochs=1,
            shard_options=headrace.ShardByJaxProcess(),
        ),
        lambda: load(
            range(6),
            batch_size=4,
            drop_remainder=True,
            num_epochs=1,
            shard_options=ShardOptions(0, 2, drop_remainder=True),
        ),
    ],
)
def test_too_few_records_for_a_batch_are_an_error_when_the_loader_is_made(make: Any):
    """The message says how many there are, and what to change."""
    with pytest.raises(
        EmptyStreamError, match=r"records, .*too few for a batch of .*drop_remainder=False"
    ):
        make()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rows", [Filter(lambda x: x < 3), FlatMap(lambda x: [x] if x < 3 else [])])
def test_too_few_rows_for_a_batch_are_an_error_at_the_end(workers: int, rows: Any):
    """How many there are is known only then."""
    loader = load(
        range(20),
        transformations=[rows],
        batch_size=4,
        drop_remainder=True,
        num_epochs=1,
        worker_count=workers,
    )
    with (
        iter(loader) as iterator,
        pytest.raises(EmptyStreamError, match="only 3 rows were made for a batch of 4"),
    ):
        next(iterator)


def test_records_that_all_fail_but_few_are_told_likewise():
    """With on_error="skip" no Filter is needed for it."""

    def fails(x: int) -> int:
        return 1 // max(3 - x, 0)

    loader = DataLoader(
        data_source=range(20),
        sampler=IndexSampler(20, num_epochs=1),
        operations=[fails, Batch(4, drop_remainder=True)],
        on_error="skip",
    )
    with pytest.raises(EmptyStreamError, match="only 3 rows"):
        list(loader)


def test_a_stream_that_ends_with_a_remainder_is_no_error():
    """Here, and where it is resumed right before the remainder."""
    for operations in ([], [Filter(lambda x: True)]):
        loader = load(
            range(7), transformations=operations, batch_size=4, drop_remainder=True, num_epochs=1
        )
        iterator = iter(loader)
        assert next(iterator).tolist() == [0, 1, 2, 3]
        state = iterator.get_state()
        assert list(iterator) == []
        again = iter(loader)
        again.set_state(state)
        assert list(again) == []


def test_a_filter_that_drops_everything_of_a_finite_stream_is_no_error():
    """Nothing was left out but by the filter."""
    assert (
        list(
            load(
                range(7),
                transformations=[Filter(lambda x: False)],
                batch_size=4,
                drop_remainder=True,
                num_epochs=1,
            )
        )
        == []
    )


def test_a_shard_with_a_record_less_is_no_error_of_its_own():
    """The shards agree on how to end."""
    lengths = [
        len(
            load(
                range(7),
                batch_size=4,
                drop_remainder=True,
                num_epochs=1,
                shard_options=headrace.ShardOptions(shard, 2),
            )
        )
        for shard in range(2)
    ]
    assert lengths == [1, 0]


@pytest.mark.parametrize("before", [[], [Filter(lambda x: x < 33)]])
def test_what_the_remainder_would_be_made_of_need_not_fit_together(before: Any):
    """The last batch of 2 has one record, and is among those that are too few for a batch of 3: it
    is not even made.
    """
    operations = [*before, Batch(2), Batch(3, drop_remainder=True), Batch(2)]
    loader = load(range(34 if before else 33), transformations=operations, num_epochs=1)
    batches = list(loader)
    assert [batch.shape for batch in batches] == [(2, 3, 2), (2, 3, 2), (1, 3, 2)]
    assert np.concatenate(batches).ravel().tolist() == list(range(30))
    if not before:
        assert loader.records_at(2).tolist() == list(range(24, 30))
