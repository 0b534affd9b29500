"""Slices by indices, as Grain takes them since 0.2.19; the version here makes the same of a map of
its own.
"""

import grain as real
import numpy as np
import pytest
from support import both

import headrace.compat.grain as grain
from headrace.compat.grain import MapDataset
from headrace.compat.grain.experimental import (
    assert_equal_output_after_checkpoint,
    get_element_spec,
)

INDICES = {
    "list": [3, 1, 4, 1, 5],
    "tuple": (9, 8, 7),
    "array": np.array([2, 3], np.int32),
    "range": range(3),
    "dataset": MapDataset.range(5),
    "slice of a dataset": MapDataset.range(10)[::2],
    "past the end": [12, 9, 25],
    "none": [],
}


class Remapped(real.transforms.DatasetSelectionMap):
    """Elements of one dataset: in each of its epochs those at the same indices."""

    def __init__(self, indices, below):
        self.indices, self.below = indices, below

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        epoch, place = divmod(index, len(self))
        return 0, self.indices[place] + epoch * self.below


def below(g):
    """A dataset whose epochs differ, and tell which they are."""
    return (
        g.MapDataset.range(10)
        .seed(1)
        .shuffle()
        .map_with_index(lambda i, x: (x, i))
        .random_map(both_of)
    )


def both_of(x, rng):
    """An element, and what is drawn for it."""
    return (*x, rng.random())


@pytest.mark.parametrize("kind", INDICES)
def test_a_slice_takes_any_indices(kind):
    """In their order, of each epoch; at indices, in streams and under methods that come
    after it.
    """
    indices = INDICES[kind]
    listed = [int(index) for index in indices]
    ours = below(grain).slice(indices)
    assert len(ours) == len(listed)
    if not listed:
        assert list(ours) == []
        return
    with both.quiet():
        theirs = real.MapDataset.select_from_datasets([below(real)], Remapped(listed, 10))
        expected = [theirs[index] for index in range(3 * len(listed))]
        shuffled = list(theirs.shuffle(seed=3).repeat(2).to_iter_dataset().batch(2))
    assert [ours[index] for index in range(3 * len(listed))] == list(ours.repeat(3)) == expected
    assert both.told(list(ours.shuffle(seed=3).repeat(2).to_iter_dataset().batch(2))) == both.told(
        shuffled
    )
    assert_equal_output_after_checkpoint(ours.to_iter_dataset())


def test_slices_by_indices_are_datasets():
    """They are sliced, have specs of elements, and may be of what never ends."""
    some = MapDataset.range(10).slice([3, 1, 4, 1, 5])
    assert list(some[1:4]) == list(some.slice(slice(1, 4))) == [1, 4, 1]
    assert get_element_spec(some) == get_element_spec(MapDataset.range(10))
    assert list(MapDataset.range(3).repeat().slice([100, 1])) == [1, 1]


@pytest.mark.parametrize("part", [slice(4), [0, 1, 2, 3]])
def test_a_slice_that_wraps_around_has_the_first_epoch_again(part):
    """What shuffles below it puts no other elements into it later."""
    shuffled = MapDataset.range(10).seed(42).shuffle()
    kept, changing = shuffled.slice(part, wrap_around=True), shuffled.slice(part)
    assert list(kept) == list(changing) == [1, 7, 6, 9]
    assert list(kept.repeat(3)) == [kept[index] for index in range(12)] == [1, 7, 6, 9] * 3
    assert (
        list(changing.repeat(3))
        == [changing[index] for index in range(12)]
        == [1, 7, 6, 9, 4, 1, 3, 0, 1, 7, 8, 2]
    )
    assert sorted(list(kept.shuffle(seed=1).repeat(2))[4:]) == [1, 6, 7, 9]


@pytest.mark.parametrize("wrong", [5, "abc", [1.5], [[1]], np.array(3)])
def test_what_are_no_indices_is_a_type_error(wrong):
    """It says what was passed."""
    with pytest.raises(TypeError, match="list of whole numbers"):
        MapDataset.range(10).slice(wrong)


def test_a_part_of_what_never_ends_begins_again_after_its_end():
    """Grain goes on at index 2^63 - 1 of what is below, which has more than 64 bits
    from there on.
    """

    def part(g):
        return [g.MapDataset.range(2).repeat()[:8][index] for index in range(10)]

    with both.quiet():
        assert part(real) == [0, 1, 0, 1, 0, 1, 0, 1, 1, 0]
    assert part(grain) == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
