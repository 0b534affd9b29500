"""Chains from which records are left out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import headrace
from headrace import MapDataset
from headrace.errors import CheckpointError, RecordKeyError

GONE = [2, 5, 17]


def _stream(dataset, state=None, steps=None):
    """The elements of a stream from a state on, and the state after them."""
    with iter(dataset.to_iter_dataset()) as iterator:
        if state is not None:
            iterator.set_state(state)
        taken = [key for batch in itertools.islice(iterator, steps) for key in np.ravel(batch).tolist()]
        return taken, iterator.get_state()


def _left(keys, gone=GONE):
    return [key for key in keys if key not in gone]


ARRANGED = {
    "as it is": lambda source: source,
    "shuffled": lambda source: source.shuffle(),
    "repeated": lambda source: source.shuffle().repeat(3),
    "alike": lambda source: source.shuffle().repeat(3, reseed_each_epoch=False),
    "mapped": lambda source: source.map(lambda key: key).shuffle().repeat(2),
    "for ever": lambda source: source.shuffle().repeat(),
}


@pytest.mark.parametrize("name", ARRANGED)
def test_a_chain_without_some_records_keeps_its_order_and_goes_on(name):
    """By index and as a stream, alone and after operations; from states of before at each step, and left out twice."""
    dataset = ARRANGED[name](MapDataset.source(range(20)).seed(3))
    whole = [dataset[index] for index in range(min(len(dataset), 100) if name != "for ever" else 100)]
    some = dataset.omit(GONE)
    assert name == "for ever" or len(some) == len(_left(whole))
    left = _left(whole)
    assert [some[index] for index in range(len(left))] == left
    assert list(some[3:9]) == left[3:9]
    drawn = some.random_map(lambda key, rng: key + int(rng.integers(100)))
    assert _stream(drawn, steps=20)[0][:17] == [drawn[index] for index in range(17)]
    for steps in range(4):
        done, state = _stream(dataset.batch(3), steps=steps)
        more, after = _stream(dataset.omit([5]).batch(3), state, 1)
        assert more == _left(whole[len(done) :], [5])[:3]
        rest, _ = _stream(some.batch(3), after, 9)
        expected = _left(_left(whole[len(done) :], [5])[3:])
        assert rest == expected[: len(rest)]
        assert len(rest) >= min(27, len(expected))
    _, state = _stream(some.batch(3), steps=2)
    with pytest.raises(CheckpointError, match="left out 3 records, and now 0"):
        _stream(dataset.batch(3), state)
    assert [dataset.omit([5]).omit({2, 17})[index] for index in range(9)] == left[:9]
    assert not headrace.find_omitted(some.batch(3))


def test_datasets_without_some_records_are_mixed_and_arranged():
    """In a mix each keeps its order; a shuffle after it arranges what is left."""
    one = MapDataset.source(range(20)).seed(3).shuffle().repeat().omit(GONE)
    other = MapDataset.source(range(100, 110)).seed(1).shuffle().repeat()
    mixed = MapDataset.mix({"a": one, "b": other}, {"a": 2, "b": 1})
    keys, _ = _stream(mixed, steps=60)
    assert keys == [mixed[index] for index in range(60)]
    assert [key for key in keys if key < 100] == [one[index] for index in range(40)]
    shuffled = MapDataset.source(range(20)).omit(GONE).shuffle(seed=1)
    assert sorted(shuffled) == _left(range(20))


def test_files_written_anew_are_read_without_what_they_lack(tmp_path):
    """`omit()` alone leaves out what the source says is gone."""
    headrace.convert([str(key).encode() for key in range(20)], tmp_path, omit=GONE, workers=0, progress=False)
    now = headrace.FormerKeys(headrace.ArrayRecordDataSource(tmp_path))
    whole = MapDataset.source(range(20)).seed(3).shuffle().repeat(2)
    some = MapDataset.source(now).seed(3).shuffle().repeat(2).omit([8])
    assert [int(record) for record in some] == _left(whole, [*GONE, 8])


def test_what_is_no_order_of_records_is_refused():
    """Batches, parts of a source, mixes, and maps that look at the index, with the remedy."""
    source = MapDataset.source(range(20))
    for dataset in (source.batch(2), source.map_with_index(lambda index, key: key), MapDataset.mix([source, source])):
        with pytest.raises(ValueError, match="put it right after the source, or after its shuffle"):
            dataset.omit([1])
    for dataset in (
        source[:9],
        source.repeat(2).shuffle(seed=1),
        source.window_shuffle(3, seed=1),
        source.select([1, 4]),
    ):
        with pytest.raises(ValueError, match="leave them out before slices"):
            dataset.omit([1])
    with pytest.raises(RecordKeyError, match="77"):
        source.omit([77])
