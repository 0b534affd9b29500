"""Values that look right, and would be taken for something else: each is refused where it is
passed, or first seen.
"""

from __future__ import annotations

import numpy as np
import pytest

import headrace
from headrace import Batch, DataLoader, IndexSampler, MapDataset, RecordMetadata, ShardOptions, load
from headrace.errors import BatchError, RecordKeyError


@pytest.mark.parametrize("shuffle", [(16, 4), "False", 16, None])
def test_shuffle_is_a_bool_or_a_block_shuffle(shuffle):
    """What is true in Python, but says something else than True, shuffles nothing: it is an error
    that names BlockShuffle.
    """
    with pytest.raises(TypeError, match=r"Pass True, False or headrace\.BlockShuffle\(…\)"):
        load(range(20), shuffle=shuffle, seed=0)
    with pytest.raises(TypeError, match="shuffle="):
        IndexSampler(20, shuffle=shuffle, seed=0)


def test_numpy_says_true_and_false_as_python_does():
    """A bool of NumPy's is a bool, and gives the same stream and the same state."""
    ours, numpys = (load(range(9), shuffle=yes, seed=1, num_epochs=1) for yes in (True, np.True_))
    assert iter(ours).get_state() == iter(numpys).get_state()
    assert list(ours) == list(numpys)


@pytest.mark.parametrize(
    "make",
    [
        lambda value: load(range(9), drop_remainder=value),
        lambda value: load(range(9), batch_size=2, drop_remainder=value),
        lambda value: Batch(2, drop_remainder=value),
        lambda value: ShardOptions(0, 2, drop_remainder=value),
        lambda value: MapDataset.range(9).batch(2, drop_remainder=value),
        lambda value: MapDataset.range(9).to_iter_dataset().batch(2, drop_remainder=value),
    ],
)
def test_drop_remainder_is_a_bool(make):
    """A text such as "no" is true in Python: wherever a remainder may be dropped, it is refused."""
    with pytest.raises(TypeError, match=r"drop_remainder='no' is a str\. Pass True or False"):
        make("no")


@pytest.mark.parametrize("method", ["shuffle", "repeat"])
def test_reseed_each_epoch_is_a_bool(method):
    """Likewise whether each epoch has an order of its own."""
    with pytest.raises(TypeError, match=r"reseed_each_epoch='False' is a str\. Pass True or False"):
        getattr(MapDataset.range(9).seed(1), method)(reseed_each_epoch="False")


class Keys:
    """A sampler that gives these keys."""

    def __init__(self, *keys):
        self.keys = keys

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        return RecordMetadata(index, self.keys[index])


@pytest.mark.parametrize("key", [1.5, "1", np.float32(0.5)])
def test_a_record_key_between_two_records_is_refused(key):
    """A sampler's key is a whole number; 1.5 is not cut to 1, wherever in the order it stands."""
    for keys in ((key, 0), (0, 1, key)):
        with pytest.raises(RecordKeyError, match="Keys returned"):
            list(DataLoader(data_source=range(4), sampler=Keys(*keys)))


def test_whole_record_keys_are_taken_as_what_they_are():
    """Ints of NumPy's, and floats that are whole, name their records."""
    assert list(DataLoader(data_source=range(4), sampler=Keys(np.int32(2), 3.0, np.uint8(1)))) == [
        2,
        3,
        1,
    ]


def lazily(record):
    """A generator where a record is meant."""
    yield record


async def later(record):
    """A coroutine where a record is meant."""
    return record


async def lazily_later(record):
    """Both."""
    yield record


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("function", [lazily, later, lazily_later])
@pytest.mark.parametrize("nested", [False, True])
def test_what_is_still_to_be_made_cannot_be_batched(function, nested):
    """A generator or a coroutine is no value: Batch says which operation gave it, and what to
    write; wherever it stands.
    """
    made = (
        (lambda record: {"a": record, "b": function(record) if record > 1 else "b"})
        if nested
        else function
    )
    with pytest.raises(BatchError, match="no value yet") as caught:
        list(load(range(4), transformations=[made], batch_size=4, num_epochs=1))
    assert "on record key" in caught.value.__notes__[0]
    assert len(str(caught.value)) < 500


def test_single_elements_may_still_be_made():
    """Without a batch, elements are the user's own: a generator comes as it is."""
    assert [next(one) for one in load(range(3), transformations=[lazily], num_epochs=1)] == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda ragged: headrace.WeightedSampler(ragged, seed=0),
        lambda ragged: headrace.BalancedSampler(ragged, seed=0),
        lambda ragged: headrace.split(list(range(2)), {"a": 1, "b": 1}, seed=0, stratify=ragged),
        lambda ragged: headrace.Windows({"x": np.arange(2)}, length=1, episodes=ragged),
        lambda ragged: headrace.OffsetWindows({"x": np.arange(2)}, {"x": ragged}, episodes=[0, 0]),
        lambda ragged: headrace.TokenSource("tokens.npy", offsets=ragged),
        lambda ragged: headrace.Subset([1, 2], ragged),
        lambda ragged: load([1, 2], omit=ragged),
        lambda ragged: MapDataset.source([np.arange(2)] * 2).pack(4, lengths=ragged),
        lambda ragged: MapDataset.source([1, 2]).budget_batch(
            lengths=ragged, max_tokens=4, pad_to=(4,)
        ),
        lambda ragged: MapDataset.source([1, 2]).select(ragged),
    ],
)
@pytest.mark.parametrize("ragged", [[[1], [1, 2]], [[[1], [1, 2]], [[1], [1, 2]]]])
def test_lists_of_unequal_lengths_are_refused(make, ragged):
    """By headrace's message, which names the list: NumPy's own names neither argument nor value."""
    with pytest.raises(TypeError, match=r"\[\[?1\]"):
        make(ragged)


class Pairs:
    """A sampler of a kind that is no longer known: it returns pairs."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return (index, index)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: list(DataLoader(data_source=range(3), sampler=Pairs())),
            TypeError,
            r"Pairs\[0\] returned \(0, 0\)",
        ),
        (
            lambda: headrace.MixSampler({"a": IndexSampler(4, algorithm="grain"), "b": 4}),
            ValueError,
            "part 'a' of the mix has algorithm=\"grain\"",
        ),
        (
            lambda: headrace.MixSampler({"a": 4, "b": 4}, weights=[(0, 3), (8, 1)]),
            TypeError,
            "read as a schedule of pairs",
        ),
        (
            lambda: headrace.BalancedSampler([0, 1, 1], class_weights=3, seed=0),
            TypeError,
            r"class_weights=3 is an int\. Pass a dict",
        ),
        (
            lambda: list(
                DataLoader(
                    data_source=range(9),
                    sampler=IndexSampler(9, balance=headrace.Balance([1] * 8)),
                    operations=[Batch(3)],
                )
            ),
            ValueError,
            "balance= has 8 lengths",
        ),
        (
            lambda: DataLoader(
                data_source=range(9),
                sampler=IndexSampler(
                    9, ShardOptions(0, 2), balance=headrace.Balance([1] * 9, batches=1 << 20)
                ),
                operations=[Batch(3)],
            ),
            ValueError,
            "on all shards together",
        ),
    ],
    ids=["pairs", "grain", "schedule", "classes", "lengths", "group"],
)
def test_an_argument_of_a_sampler_is_refused_with_what_to_pass(make, error, message):
    """When it is made, or at the first record."""
    with pytest.raises(error, match=message):
        make()
