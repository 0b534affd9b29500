"""What chains say to those who look for something elsewhere."""

from __future__ import annotations

import cloudpickle
import pytest

from millrace import IterDataset, MapDataset

NUMBERS = MapDataset.range(6)


@pytest.mark.parametrize(
    ("dataset", "name", "remedy"),
    [
        (NUMBERS, "mp_prefetch", r"MapDataset has no mp_prefetch\(\); use dataset.to_iter_dataset\(\).mp_prefetch"),
        (NUMBERS.map(abs), "to_device", r"to_iter_dataset\(\).to_device"),
        (NUMBERS, "take", r"dataset\[:count\]"),
        (NUMBERS.to_iter_dataset(), "shuffle", r"IterDataset has no shuffle\(\); shuffle the MapDataset"),
        (NUMBERS.to_iter_dataset(), "take", r"limit\(count\)"),
    ],
)
def test_a_method_of_the_other_kind_of_dataset_is_pointed_to(dataset, name, remedy):
    """An AttributeError says what to write; a pickled dataset says the same."""
    assert not hasattr(dataset, name)
    with pytest.raises(AttributeError, match=remedy):
        getattr(cloudpickle.loads(cloudpickle.dumps(dataset)), name)
    with pytest.raises(AttributeError, match="no attribute 'shufle'"):
        _ = dataset.shufle


class Broken(MapDataset):
    """A dataset of the user's with an error in a property."""

    @property
    def size(self):
        """Asks for what is not there."""
        return self.missing

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index


def test_an_error_in_a_property_of_ones_own_dataset_is_told_as_it_is():
    """It names the attribute that is missing, not the property that asked for it."""
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        len(Broken())


def test_what_cannot_be_done_to_an_endless_dataset_is_said_with_a_remedy():
    """To repeat it again, to pack it, or to shuffle it."""
    endless = MapDataset.mix([NUMBERS, NUMBERS], when_exhausted="repeat")
    with pytest.raises(ValueError, match=r"repeat: the dataset never ends, .*; repeat it once"):
        NUMBERS.repeat().repeat()
    with pytest.raises(ValueError, match=r"shuffle: .* when_exhausted=\"repeat\"; shuffle first, then repeat"):
        endless.shuffle(seed=0)
    with pytest.raises(ValueError, match=r"pack: .* to_iter_dataset\(\).pack"):
        endless.pack(8)


@pytest.mark.parametrize("joined", [MapDataset.mix, IterDataset.mix, IterDataset.zip])
def test_names_of_datasets_are_text(joined):
    """Numbers would be other names in weights and elements than were given."""
    with pytest.raises(TypeError, match=r"the name 1 is a int; pass a dict with names of type str"):
        joined({1: NUMBERS, 2: NUMBERS})


def test_the_length_of_streams_that_come_together_is_said_to_be_unknown():
    """With the reason."""
    with pytest.raises(TypeError, match=r"streams that come together \(mix, zip, limit"):
        len(IterDataset.zip([NUMBERS, NUMBERS]))


def test_a_window_shuffle_takes_its_seed_by_place_too():
    """As that of a MapDataset."""
    stream = NUMBERS.to_iter_dataset()
    assert list(stream.window_shuffle(3, 1)) == list(stream.window_shuffle(3, seed=1))
