"""Indices of chains at the limits of 64 bits, and what is no index."""

from __future__ import annotations

import re

import numpy as np
import pytest

from headrace import MapDataset


@pytest.mark.parametrize("index", [2**63, 2**64, 2**70, -(2**63) - 1, np.uint64(2**63)])
@pytest.mark.parametrize("method", ["shuffle", "map", "zip", "batch", "mix"])
def test_an_index_that_is_too_large_is_refused(index, method):
    """Alone, in a list, beside others, and in an array: an IndexError that tells the index and the
    limit.
    """
    numbers = MapDataset.range(10)
    dataset = {
        "shuffle": numbers.shuffle(1),
        "map": numbers.map(abs),
        "zip": MapDataset.zip([numbers, numbers]),
        "batch": numbers.batch(2),
        "mix": MapDataset.mix([numbers, numbers]),
    }[method]
    for given in (index, [index], [3, index], [index, -1], (np.int64(1), index), np.array([index])):
        with pytest.raises(
            IndexError, match=re.escape(str(index)) + r".* is too large.*2\*\*63 - 1"
        ):
            dataset[given]


@pytest.mark.parametrize("method", ["shuffle", "map", "batch", "filter", "repeat", "slice"])
def test_an_empty_dataset_has_no_element_at_any_index(method):
    """Alone, in a list or array, as a source, and asked for its records; no index has
    none of them.
    """
    empty = MapDataset.range(3)[:0]
    dataset = {
        "shuffle": lambda: empty.shuffle(1),
        "map": lambda: empty.map(abs),
        "batch": lambda: empty.batch(2),
        "filter": lambda: empty.filter(bool),
        "repeat": lambda: empty.repeat(2),
        "slice": lambda: empty,
    }[method]()
    for at in (
        lambda: dataset[0],
        lambda: dataset[[0]],
        lambda: dataset[np.array([-1])],
        lambda: dataset.made_of(0),
    ):
        with pytest.raises(IndexError, match="the dataset is empty"):
            at()
    with pytest.raises(IndexError, match="the dataset is empty"):
        dataset.__getitems__([0])
    assert dataset[[]] == []


@pytest.mark.parametrize("index", [2**62, 2**63 - 1, -(2**63)])
def test_the_largest_indices_have_the_elements_of_far_epochs(index):
    """The same alone and in a list; a batch whose elements would have larger indices is refused."""
    numbers = MapDataset.range(10)
    assert numbers[index] == numbers[[index]][0] == numbers[np.array([index])][0] == index % 10
    assert numbers.shuffle(1)[index] == numbers.shuffle(1)[[index]][0]
    for given in (index, [index]):
        with pytest.raises(IndexError, match=f"index {index} is too far from 0 for batches of 2"):
            numbers.batch(2)[given]


def test_indices_that_are_no_whole_numbers_are_refused():
    """A boolean is none either."""
    for given in ([1.5], ["a"], [True], np.array([True]), [[1]], [2**63, 1.5], [None]):
        with pytest.raises(TypeError, match="list of whole numbers"):
            MapDataset.range(10)[given]
