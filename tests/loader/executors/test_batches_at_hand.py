"""Batches of rows that lie side by side in shared memory: they are parts of it, and no worker
copies them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support.pipelines import plain

from headrace import MapDataset

ROW = 16
"""Tokens of a row: 64 bytes of int32, so that every row begins at a multiple of a cache line."""


def _rows(window=40, row=ROW):
    lengths = np.random.default_rng(0).integers(1, 14, 400)
    documents = [
        np.full(length, number, np.int32) for number, length in enumerate(lengths.tolist())
    ]
    return MapDataset.source(documents).shuffle(seed=1).to_iter_dataset().pack(row, window=window)


CHAINS = {
    "batches": lambda: _rows().batch(3),
    "the last one is dropped": lambda: _rows().batch(7, drop_remainder=True),
    "batches as large as windows": lambda: _rows(window=10).batch(6),
    "limited": lambda: _rows().limit(50).batch(4),
    "mixed": lambda: type(_rows()).mix([_rows(), _rows(window=30)], weights=[2, 1]).batch(4),
    "again": lambda: _rows().cache().repeat(2).batch(5),
    "records that fail are left out": lambda: _rows().with_options(on_error="skip").batch(3),
    "rows of no whole cache lines": lambda: _rows(row=15).batch(3),
    "and an operation on batches": lambda: _rows().batch(3).map(lambda batch: batch["tokens"] + 1),
}


def _address(array):
    return array.__array_interface__["data"][0]


def test_batches_of_packed_rows_are_parts_of_the_memory_of_these():
    """One after the other; but those of rows of two windows are copies."""
    with iter(_rows().batch(3).mp_prefetch(1)) as iterator:
        batches = [batch["tokens"] for batch in iterator]
    whole = [batch for batch in batches if len(batch) == 3]
    steps = [_address(after) - _address(before) for before, after in pairwise(whole)]
    assert steps.count(3 * ROW * 4) > len(steps) / 2


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.slow
def test_the_stream_and_all_states_are_those_of_the_loop_without_workers(name):
    """Whoever makes a batch: at each step the elements and the state are the same, and each state
    can be gone on from.
    """
    here, there = iter(CHAINS[name]()), iter(CHAINS[name]().mp_prefetch(1))
    elements, states = [], []
    with there:
        for element, other in zip(here, there, strict=True):
            assert plain(other) == plain(element)
            assert there.get_state() == here.get_state()
            elements.append(plain(element))
            states.append(here.get_state())
        for step in range(1, len(states), len(states) // 3):
            there.set_state(states[step])
            assert list(map(plain, there)) == elements[step + 1 :]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["batches", "again", "mixed"])
def test_a_batch_that_is_written_to_changes_no_other(name):
    """The user may write to each batch, also where rows are kept to be given again."""
    expected = list(map(plain, CHAINS[name]()))
    with iter(CHAINS[name]().mp_prefetch(2)) as iterator:
        for batch, one in zip(iterator, expected, strict=True):
            assert plain(batch) == one
            for array in batch.values():
                array[...] = -1


@pytest.mark.slow
def test_batches_that_are_kept_stay_as_they_are():
    """Memory of a window is used again only once nobody has a batch of it any more."""

    def chain():
        return _rows().batch(3)

    expected = list(map(plain, chain()))[::5]
    with iter(chain().mp_prefetch(2)) as iterator:
        kept = [batch for number, batch in enumerate(iterator) if number % 5 == 0]
    assert list(map(plain, kept)) == expected
