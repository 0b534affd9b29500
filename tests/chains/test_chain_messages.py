"""What chains say to those who look for something elsewhere."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pytest

import headrace
from headrace import IterDataset, MapDataset
from headrace.errors import BatchError, CheckpointError, PackError

NUMBERS = MapDataset.range(6)


@pytest.mark.parametrize(
    ("dataset", "name", "remedy"),
    [
        (
            NUMBERS,
            "mp_prefetch",
            r"MapDataset has no mp_prefetch\(\); use dataset.to_iter_dataset\(\).mp_prefetch",
        ),
        (NUMBERS.map(abs), "to_device", r"to_iter_dataset\(\).to_device"),
        (NUMBERS, "take", r"dataset\[:count\]"),
        (
            NUMBERS.to_iter_dataset(),
            "shuffle",
            r"IterDataset has no shuffle\(\); shuffle the MapDataset",
        ),
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
    """To repeat it again, to pack it, to shuffle it, or to put another one after it."""
    endless = MapDataset.mix([NUMBERS, NUMBERS], when_exhausted="repeat")
    with pytest.raises(
        ValueError,
        match=(
            r"repeat: the dataset never ends, because of repeat\(\) without num_epochs= or a mix "
            r".*\. Call repeat only once"
        ),
    ):
        NUMBERS.repeat().repeat()
    with pytest.raises(ValueError, match="shuffle: the dataset never"):
        endless.shuffle(seed=0)
    with pytest.raises(ValueError, match=r"pack: .* to_iter_dataset\(\).pack"):
        endless.pack(8)
    with pytest.raises(
        ValueError,
        match=r"concatenate \(dataset 0\): .* Call repeat\(\) of the concatenated dataset",
    ):
        MapDataset.concatenate([NUMBERS.repeat(), NUMBERS])


@pytest.mark.parametrize("joined", [MapDataset.mix, IterDataset.mix, IterDataset.zip])
def test_names_of_datasets_are_text(joined):
    """Numbers would be other names in weights and elements than were given."""
    with pytest.raises(
        TypeError,
        match=(
            r"the name 1 of a dataset is an int, not a string\. Pass a dict whose keys are strings"
        ),
    ):
        joined({1: NUMBERS, 2: NUMBERS})


def test_datasets_that_are_joined_in_a_dict_keep_their_names():
    """In elements of a zip, at an index and in a stream; in the records of what is interleaved."""
    zipped = MapDataset.zip({"x": NUMBERS, "y": NUMBERS.map(lambda x: x * 10)})
    assert zipped[2] == list(zipped)[2] == zipped[[2]][0] == {"x": 2, "y": 20}
    with pytest.raises(CheckpointError, match="chain"):
        iter(MapDataset.zip([NUMBERS, NUMBERS.map(abs)])).set_state(iter(zipped).get_state())
    iterator = iter(IterDataset.interleave({"a": NUMBERS, "b": NUMBERS}))
    assert next(iterator) == 0
    assert iterator.last_records().keys() == {"a", "b"}


def test_a_dataset_is_not_left_out_of_what_it_is_joined_with():
    """A join that is called of one of them is an error, which says how to write it."""
    for dataset, name in (
        (NUMBERS, "mix"),
        (NUMBERS.map(abs), "zip"),
        (NUMBERS, "concatenate"),
        (NUMBERS.to_iter_dataset(), "interleave"),
    ):
        with pytest.raises(
            AttributeError,
            match=(
                rf"{name} joins the datasets of a list, .* Write \w+Dataset.{name}\(\[dataset, …\]"
            ),
        ):
            getattr(dataset, name)([NUMBERS])


def test_streams_are_not_joined_as_datasets_with_random_access():
    """The error says whose method does it."""
    with pytest.raises(
        TypeError, match=r"dataset 1 is an IterDataset, not a MapDataset\. Pass what"
    ):
        MapDataset.mix([NUMBERS, NUMBERS.to_iter_dataset()])


def test_the_length_of_streams_that_come_together_is_said_to_be_unknown():
    """With the reason."""
    with pytest.raises(TypeError, match=r"streams \(mix, zip and so on"):
        len(IterDataset.zip([NUMBERS, NUMBERS]))


def test_a_window_shuffle_takes_its_seed_by_place_too():
    """As that of a MapDataset."""
    stream = NUMBERS.to_iter_dataset()
    assert list(stream.window_shuffle(3, 1)) == list(stream.window_shuffle(3, seed=1))


@pytest.mark.parametrize("mix", [MapDataset.mix, IterDataset.mix])
def test_a_schedule_counts_as_many_elements_for_a_step_as_it_is_told(mix):
    """Of batches, where that is their size; one element where nothing is said."""
    parts = {"a": MapDataset.source(["a"] * 40), "b": MapDataset.source(["b"] * 40)}
    schedule = [(0, {"a": 1, "b": 0}), (3, {"a": 0, "b": 1})]
    assert "".join(list(mix(parts, schedule))[:6]) == "aaabbb"
    batches = list(mix(parts, schedule, records_per_step=4).batch(4, batch_fn="".join))
    assert batches[:5] == ["aaaa", "aaaa", "aaaa", "bbbb", "bbbb"]
    with pytest.raises(ValueError, match="records_per_step=0"):
        mix(parts, schedule, records_per_step=0)


@pytest.mark.parametrize("as_streams", [False, True])
@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ({"web": 1, "books": -1}, ValueError, r"weight of 'books' is -1\. Pass a number from 0"),
        ({"web": 1, "books": float("nan")}, ValueError, "weight of 'books' is nan"),
        ({"web": float("inf"), "books": 1}, ValueError, "weight of 'web' is inf"),
        (
            {"web": 0, "books": 0},
            ValueError,
            r"all weights are 0, so nothing could be drawn\. Pass at least one weight above 0",
        ),
        ({"web": 1, "news": 1}, ValueError, "'news', but the parts are 'web', 'books'"),
        ({"web": 1}, ValueError, r"'books'\. Pass a weight for each part"),
        ({"web": "a", "books": 1}, TypeError, r"weight of 'web' is 'a', a str"),
        ([1, 2, 3], ValueError, "has 3 values, but there are 2 parts"),
        (3, TypeError, r"weights=3 is an int\. Pass a list of numbers"),
        (
            [(5, {"web": 1, "books": 1})],
            ValueError,
            r"first step of the schedule is 5\. Begin it with",
        ),
        ([(0, [1, 1]), (9, [1, 1]), (4, [1, 1])], ValueError, "0, 9, 4, but each must be larger"),
        ([(0, [1, 1]), (9, [0, 0])], ValueError, "all weights are 0"),
    ],
)
def test_bad_weights_are_refused_when_the_mix_is_made(as_streams, weights, error, message):
    """By the name of the dataset, with what to pass."""
    parts = {"web": NUMBERS, "books": NUMBERS}
    mix = IterDataset.mix if as_streams else MapDataset.mix
    with pytest.raises(error, match=message) as caught:
        mix(parts, weights)
    assert len(str(caught.value)) < 500


def _of_kind(leaves, width):
    return MapDataset.source([{name: np.ones(width) for name in leaves}] * 8)


UNLIKE = {
    "leaves": (_of_kind("xy", 3), _of_kind("x", 3)),
    "shape": (_of_kind("x", 3), _of_kind("x", 4)),
}
TOGETHER = {
    "mix": lambda parts: MapDataset.mix(parts),
    "mix of filtered": lambda parts: MapDataset.mix(parts).filter(bool).to_iter_dataset(),
    "concatenate": lambda parts: MapDataset.concatenate(list(parts.values()))[6:],
    "mix of streams": lambda parts: IterDataset.mix(parts),
    "mix of streams, filtered": lambda parts: IterDataset.mix(parts).map(dict).filter(bool),
    "interleave": lambda parts: IterDataset.interleave(list(parts.values())),
}


@pytest.mark.parametrize("unlike", UNLIKE)
@pytest.mark.parametrize("together", TOGETHER)
def test_datasets_whose_elements_do_not_fit_together_are_both_named(together, unlike):
    """In a stream and at an index, beside what differs."""
    dataset = TOGETHER[together](dict(zip(("web", "books"), UNLIKE[unlike])))
    one, other = ("web", "books") if "mix" in together else ("0", "1")
    takes = [
        lambda: list(dataset.batch(4)),
        *([lambda: dataset.batch(4)[0]] if hasattr(dataset, "to_iter_dataset") else ()),
    ]
    for take in takes:
        with pytest.raises(BatchError, match=r"different structures|has shape") as caught:
            take()
        (note,) = caught.value.__notes__
        assert one in note
        assert other in note


def test_documents_of_datasets_that_do_not_fit_together_are_told_by_both_names():
    """Before anything is read, where lengths are known; in a stream, and where they are passed,
    with a note.
    """
    web, books = UNLIKE["leaves"]
    with pytest.raises(
        PackError,
        match=(
            r"dataset web have the leaves \['x'\], \['y'\], but elements of dataset books have the "
            r"leaves \['x'\]\. Map"
        ),
    ):
        MapDataset.mix({"web": web, "books": books}).pack(16)
    mixed = MapDataset.mix({"web": books, "books": web})
    for packed in (
        mixed.to_iter_dataset().pack(16),
        mixed.map(dict).pack(16, lengths={"x": [3] * 16}),
    ):
        with pytest.raises(PackError, match="the first has") as caught:
            list(packed)
        assert all(name in caught.value.__notes__[0] for name in ("web", "books"))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            lambda x: x,
            r"leaf \['tokens'\] is 0, an int, but only arrays can be packed\. Map it to one",
        ),
        (lambda x: [x], r"is \[0\], a list, but only arrays can be packed"),
        (str, "is '0', a str, but only arrays"),
        (lambda x: None, "is None, a NoneType"),
        (
            lambda x: np.array(x),
            r"dtype int64 and shape \(\), but packing needs numbers along a first axis",
        ),
        (lambda x: np.array([None]), "dtype object and shape"),
        (
            lambda x: {"text": np.arange(x)},
            r"which elements do not have, or which is in meta_features\. .*: \['text'\]",
        ),
        (
            lambda x: np.arange(x + 3),
            r"5 tokens in leaf \['tokens'\], over length=4.*'split' or 'cut'",
        ),
        (lambda x: {"tokens" if x % 2 else "text": np.arange(2)}, "'text'"),
        (
            lambda x: np.arange(2, dtype=[np.int32, np.int64][x % 2]),
            r"int64\[2\] in one document, but int32\[…\] in the first",
        ),
        (
            lambda x: np.zeros((2, 3) if x % 2 else 2),
            r"float64\[2, 3\] in one document, but float64\[…\] in the first",
        ),
    ],
)
def test_what_cannot_be_packed_is_told(document, message):
    """With its leaf, what it is, and what to do; and where it stands."""
    stream = NUMBERS.to_iter_dataset().map(document).pack({"tokens": 4}, too_long="error")
    with pytest.raises(PackError, match=message) as caught:
        list(stream)
    assert len(str(caught.value)) < 500
    assert "record key" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            lambda x: {"a": x},
            lambda x: {"b": x},
            r"\{'b': \*\} \(\* is a leaf\)\. Map them to one structure",
        ),
        (lambda x: {"a": x}, lambda x: x, r"\{'a': \*\}, but this one is \*"),
        (
            lambda x: np.arange(2),
            lambda x: np.arange(3),
            r"shape \(2,\) in one element of the batch and \(3,\) in another\. Make the shapes equal before Batch",
        ),
        (lambda x: x, str, r"dtype int64 in one element of the batch and object \(str\)"),
    ],
)
@pytest.mark.parametrize("as_streams", [False, True])
def test_datasets_whose_elements_differ_cannot_be_mixed_in_a_batch(
    first, second, message, as_streams
):
    """The error names both kinds, and the record and dataset of the other one."""
    parts = {"books": NUMBERS.map(first), "web": NUMBERS.map(second)}
    if as_streams:
        mixed = IterDataset.mix(
            {name: part.to_iter_dataset() for name, part in parts.items()}, [2, 1]
        )
    else:
        mixed = MapDataset.mix(parts, [2, 1]).to_iter_dataset()
    with pytest.raises(BatchError, match=message) as caught:
        list(mixed.batch(3))
    assert "web" in caught.value.__notes__[0]
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: NUMBERS.apply(headrace.Batch), r"apply\(Batch\): .* Pass an instance, Batch\(…\)"),
        (
            lambda: NUMBERS.apply(headrace.Filter),
            r"apply\(Filter\): .* Pass an instance, Filter\(…\)",
        ),
        (
            lambda: NUMBERS.filter(headrace.Filter),
            r"filter\(Filter\): .* Pass an instance, Filter\(…\)",
        ),
        (lambda: NUMBERS.map(headrace.Batch), r"Pass a function, a headrace\.MapTransform"),
    ],
)
def test_a_class_in_place_of_a_transform_is_refused(use, message):
    """It would be called with each element otherwise, as functions are."""
    with pytest.raises(TypeError, match=message):
        use()
