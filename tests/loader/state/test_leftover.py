"""What former shards had begun inside a window passes through the operations of the new ones, as
all rows do.
"""

import functools
import itertools
import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import ODD_VALUES, paths_in, sealed, with_value
from support.pipelines import tries

from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    IterDataset,
    MapDataset,
    Pack,
    RandomMapTransform,
    ShardOptions,
)
from headrace.errors import CheckpointError


class Documents:
    """Of two to five tokens each; counts what is read."""

    def __init__(self, count):
        self.count, self.reads = count, 0

    def __len__(self):
        return self.count

    def __getitem__(self, key):
        self.reads += 1
        return np.arange(10 * key + 1, 10 * key + 3 + int(key) % 4)


TOKENS = Counter(
    int(token) for document in map(Documents(48).__getitem__, range(48)) for token in document
)
KEEP = Filter(lambda document: len(document) > 0)
PIPELINES = {
    "window of documents": [Pack(8, window=7), Batch(3)],
    "window of rows": [KEEP, Pack(8, window=7), Batch(3)],
    "windows in windows": [
        Pack(8, window=5),
        lambda row: row["tokens"][row["tokens"] > 0],
        Pack(20, window=2),
        Batch(2),
    ],
    "batches taken apart": [
        KEEP,
        Batch(4, batch_fn=list),
        FlatMap(list),
        Pack(9, window=3),
        Batch(2),
    ],
}


def shards(operations, count, source=None, **options):
    """The iterators of all shards."""
    source = source or Documents(48)
    for index in range(count):
        sampler = IndexSampler(
            len(source), ShardOptions(index, count), shuffle=True, seed=3, num_epochs=1
        )
        yield iter(
            DataLoader(data_source=source, sampler=sampler, operations=operations, **options)
        )


def tokens(batches):
    """How often each token is in them."""
    every = (batch["tokens"][batch["tokens_segment_ids"] > 0] for batch in batches)
    return Counter(int(token) for some in every for token in np.ravel(some))


def begun(operations, steps):
    """Some batches of shards that each stop at a step of their own, and their states."""
    former = list(shards(operations, len(steps)))
    seen = [batch for iterator, count in zip(former, steps) for batch in islice(iterator, count)]
    return seen, [iterator.get_state() for iterator in former]


@pytest.mark.slow
@pytest.mark.one_in(16)
@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("name", PIPELINES)
def test_batches_stay_full_and_each_token_comes_once(name, first):
    """Wherever in its windows each shard stood, and taken up anew after each batch, by other shards
    once more, too.
    """
    operations = PIPELINES[name]
    size = operations[-1].takes
    for steps in itertools.product([first], range(4)):
        seen, states = begun(operations, steps)
        for iterator in shards(operations, 3):
            iterator.set_states(states)
            batches = []
            for step in itertools.count():
                state = iterator.get_state()
                (again,) = islice(shards(operations, 3), json.loads(state)["shard"][0], None, 3)
                again.set_state(state)
                assert again.get_state() == state
                if (batch := next(again, None)) is None:
                    break
                assert tokens([batch]) == tokens([next(iterator)]), step
                batches.append(batch)
            assert {len(batch["tokens"]) for batch in batches[:-1]} <= {size}
            seen += batches
        assert tokens(seen) == TOKENS


def test_windows_of_documents_are_taken_up_without_reading_in_vain():
    """Where they end is known: nothing is read when they are taken up, and no document after them
    before its turn.
    """
    operations = PIPELINES["window of documents"]
    seen, states = begun(operations, (2, 1))
    source = Documents(48)
    (one,) = shards(operations, 1, source)
    one.set_states(states)
    assert source.reads == 0
    assert tokens([*seen, *one]) == TOKENS
    assert source.reads <= 48


NOISE = RandomMapTransform(lambda document, rng: document + 100_000 * int(rng.integers(1, 9)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("worker_count", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("before", [[], [KEEP]], ids=["documents", "rows"])
def test_workers_finish_what_others_had_begun(worker_count, before):
    """With the same random numbers, and the records are known."""
    operations = [*before, NOISE, Pack(8, window=7), Batch(3)]
    seen, states = begun(operations, (2, 3, 1))
    for iterator in shards(operations, 2, worker_count=worker_count):
        iterator.set_states(states)
        for batch in iterator:
            seen.append(batch)
            assert {token % 100_000 // 10 for token in tokens([batch])} <= set(
                iterator.last_records().tolist()
            )
    (whole,) = shards(operations, 1)
    assert tokens(seen) == tokens(whole)


@pytest.mark.long
def test_the_state_of_hundreds_of_windows_is_small():
    """A hundred bytes for each window that is still to be finished, and none after them."""
    many = list(shards([Pack(8, window=7), Batch(3)], 300, Documents(6000)))
    for iterator in many:
        next(iterator)
    states = [iterator.get_state() for iterator in many]
    (one,) = shards([Pack(8, window=7), Batch(3)], 1, Documents(6000))
    one.set_states(states)
    assert len(one.get_state()) < 300 * 100
    for _ in islice(one, 300):
        pass
    assert len(one.get_state()) < 1000


@pytest.mark.slow
def test_rows_that_are_zipped_stay_together_when_others_finish_their_windows():
    """One shard finishes both, however many there are then, and again."""

    def zipped(index, count):
        documents = (
            MapDataset.source(Documents(48))
            .shuffle(seed=1)
            .to_iter_dataset()
            .filter(lambda x: len(x) > 2)
        )
        rows = documents.pack(8, window=7).map(lambda row: row["tokens"])
        return iter(
            IterDataset.zip([rows, rows.map(np.negative)]).shard(ShardOptions(index, count))
        )

    for counts, steps in [((1, 2, 3), (5, 2)), ((2, 4, 1), (3, 3)), ((3, 1, 2), (4, 7))]:
        iterators = [zipped(index, counts[0]) for index in range(counts[0])]
        seen = []
        for count, step in zip(counts[1:], steps):
            seen += [pair for iterator in iterators for pair in islice(iterator, step)]
            states = [iterator.get_state() for iterator in iterators]
            iterators = [zipped(index, count) for index in range(count)]
            for iterator in iterators:
                iterator.set_states(states)
        seen += itertools.chain.from_iterable(iterators)
        assert all(np.array_equal(one, -other) for one, other in seen)
        kept = Counter({token: 1 for token in TOKENS if len(Documents(48)[token // 10]) > 2})
        assert Counter(token for one, _ in seen for token in one.tolist() if token) == kept


def test_a_part_of_a_mix_that_stands_in_an_unfinished_window_cannot_be_removed():
    """That is told when the state is set, not when the window comes."""

    def mixed(names, index, count):
        parts = {
            name: MapDataset.range(100 * len(name), 100 * len(name) + 20).map(
                lambda x: np.full(3, x)
            )
            for name in names
        }
        weights = {"a": 3, "bb": 1} if "bb" in names else None
        stream = (
            MapDataset.mix(parts, weights, when_exhausted="all").to_iter_dataset().pack(8, window=8)
        )
        return iter(stream.shard(ShardOptions(index, count)))

    former = [mixed(["a", "bb"], index, 2) for index in range(2)]
    next(former[0])
    now = mixed(["a", "bb"], 0, 1)
    now.set_states([iterator.get_state() for iterator in former])
    with pytest.raises(CheckpointError, match="part 'bb' was removed"):
        mixed(["a"], 0, 1).set_state(now.get_state(), strict=False)


@tries(150)
@given(name=st.sampled_from(sorted(PIPELINES)), data=st.data())
def test_a_damaged_state_is_refused_or_a_place_in_the_stream(name, data):
    """Whatever stands in what is unfinished: a CheckpointError, or elements come; no other
    exception.
    """
    state = unfinished_in(name)
    path = data.draw(st.sampled_from(list(paths_in(state["unfinished"]))))
    damaged = with_value(state["unfinished"], path, data.draw(st.sampled_from(ODD_VALUES)))
    (one,) = shards(PIPELINES[name], 1)
    try:
        one.set_state(sealed({**state, "unfinished": damaged}))
    except CheckpointError:
        return
    for _ in islice(one, 3):
        one.set_state(one.get_state())


@functools.cache
def unfinished_in(name):
    """A state with something unfinished in it."""
    (one,) = shards(PIPELINES[name], 1)
    one.set_states(begun(PIPELINES[name], (2, 3))[1])
    return json.loads(one.get_state())
