"""Parts of a dataset that are to be kept apart, as for training and validation: slices before a
shuffle, and after it.
"""

from __future__ import annotations

import pytest

from headrace import MapDataset

SHUFFLES = {
    "shuffle": lambda dataset: dataset.shuffle(seed=1),
    "window_shuffle": lambda dataset: dataset.window_shuffle(9, seed=1),
    "block_shuffle": lambda dataset: dataset.block_shuffle(3, seed=1),
    "shuffle, then more": lambda dataset: dataset.shuffle(seed=1).map(lambda x: x)[::-1],
    "of one part": lambda dataset: MapDataset.concatenate(
        [dataset[:18].shuffle(seed=1), dataset[18:]]
    ),
}


@pytest.mark.parametrize("shuffle", SHUFFLES.values(), ids=list(SHUFFLES))
def test_a_slice_of_what_is_shuffled_anew_warns_when_it_is_repeated(shuffle):
    """The second epoch has what another slice had in the first: repeat says so, and names the
    remedy of today and split.
    """
    order = shuffle(MapDataset.range(20))
    train, validation = order[:16], order[16:]
    with pytest.warns(
        UserWarning, match=r"Slice before shuffle: dataset\[:n\]\.shuffle.*split"
    ) as told:
        repeated = train.repeat(8)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert len(str(told[0].message)) < 500
    assert set(repeated) & set(validation), "the warning is of something that happens"


def test_what_is_put_on_top_of_the_slice_does_not_hide_it():
    """Maps, filters, batches, another shuffle, zip and concatenate of such slices: repeat warns all
    the same.
    """
    train = MapDataset.range(20).shuffle(seed=1)[:16]
    for dataset in (
        train.map(lambda x: x).filter(bool),
        train.batch(2),
        train.shuffle(seed=2),
        MapDataset.zip([train, train]),
        MapDataset.concatenate([MapDataset.range(3), train]),
    ):
        with pytest.warns(UserWarning, match="Slice before shuffle"):
            dataset.repeat()


@pytest.mark.parametrize("index", [16, -1, [3, 16], [-2]])
def test_an_index_in_another_epoch_warns_too(index):
    """Of a slice of what is shuffled, an index past the end or before the beginning is one of
    another epoch.
    """
    train = MapDataset.range(20).shuffle(seed=1)[:16]
    assert len([train[i] for i in range(16)] + train[[0, 15]]) == 18
    with pytest.warns(UserWarning, match=r"of 16 elements: this is a slice of a shuffled dataset"):
        train[index]


@pytest.mark.parametrize(
    "dataset",
    [
        MapDataset.range(20)[:16].shuffle(seed=1),
        MapDataset.range(20).shuffle(seed=1, reseed_each_epoch=False)[:16],
        MapDataset.range(20).shuffle(seed=1).repeat(2, reseed_each_epoch=False)[:16],
        MapDataset.range(20).shuffle(seed=1)[:20],
        MapDataset.range(20).shuffle(seed=1)[::-1],
        MapDataset.range(20).shuffle(seed=1)[1::4],
        MapDataset.range(20).shuffle(seed=1),
        MapDataset.range(20)[3:7],
    ],
)
def test_what_keeps_its_elements_apart_is_repeated_in_silence(dataset):
    """Sliced before the shuffle, shuffled alike in all epochs, cut to the whole, or shared out to
    hosts: no warning.
    """
    assert len(dataset.repeat(3)) == 3 * len(dataset)
    dataset[len(dataset)], dataset[[-1]]


def test_one_epoch_of_a_slice_is_no_mistake():
    """A slice of what is shuffled is a random part: run once, or the same part again and again,
    there is no warning.
    """
    part = MapDataset.range(20).shuffle(seed=1)[:4]
    assert len(list(part)) == len(list(part.repeat(1))) == 4
    assert list(part.repeat(3, reseed_each_epoch=False)) == 3 * list(part)
