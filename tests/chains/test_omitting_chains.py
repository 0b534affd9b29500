"""Chains from which records are left out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.growing_source import GrowingKeys, append

import headrace
from headrace import GrowthOptions, IterDataset, MapDataset, ShardOptions, load
from headrace.errors import CheckpointError, EmptyStreamError, RecordKeyError

GONE = [2, 5, 17]


def _stream(dataset, state=None, steps=None):
    """The elements of a stream from a state on, and the state after them."""
    with iter(dataset.to_iter_dataset()) as iterator:
        if state is not None:
            iterator.set_state(state)
        taken = [
            key for batch in itertools.islice(iterator, steps) for key in np.ravel(batch).tolist()
        ]
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


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ARRANGED)
def test_a_chain_without_some_records_keeps_its_order_and_goes_on(name):
    """By index and as a stream, alone and after operations; from states of before at each step, and
    left out twice.
    """
    dataset = ARRANGED[name](MapDataset.source(range(20)).seed(3))
    whole = [
        dataset[index] for index in range(min(len(dataset), 100) if name != "for ever" else 100)
    ]
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
    with pytest.raises(CheckpointError, match="3 records, but now 0"):
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
    headrace.convert(
        [str(key).encode() for key in range(20)], tmp_path, omit=GONE, workers=0, progress=False
    )
    now = headrace.FormerKeys(headrace.ArrayRecordDataSource(tmp_path))
    whole = MapDataset.source(range(20)).seed(3).shuffle().repeat(2)
    some = MapDataset.source(now).seed(3).shuffle().repeat(2).omit([8])
    assert [int(record) for record in some] == _left(whole, [*GONE, 8])


def test_what_is_no_order_of_records_is_refused():
    """Batches, parts of a source, mixes, and maps that look at the index, with the remedy."""
    source = MapDataset.source(range(20))
    for dataset in (
        source.batch(2),
        source.map_with_index(lambda index, key: key),
        MapDataset.mix([source, source]),
    ):
        with pytest.raises(ValueError, match=r"after the source, or after its shuffle\(\)"):
            dataset.omit([1])
    for dataset in (
        source[:9],
        source.repeat(2).shuffle(seed=1),
        source.window_shuffle(3, seed=1),
        source.select([1, 4]),
    ):
        with pytest.raises(ValueError, match="before slices"):
            dataset.omit([1])
    with pytest.raises(RecordKeyError, match="77"):
        source.omit([77])


def _of_stream(stream, state=None, steps=None):
    """Likewise, of a stream."""
    with iter(stream) as iterator:
        if state is not None:
            iterator.set_state(state)
        taken = [
            key for batch in itertools.islice(iterator, steps) for key in np.ravel(batch).tolist()
        ]
        return taken, iterator.get_state()


@pytest.mark.long
@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ARRANGED)
def test_a_stream_leaves_out_records_of_its_source(name):
    """With maps, filters and batches before it and after it; states of before go on at
    each step.
    """
    stream = ARRANGED[name](MapDataset.source(range(20)).seed(3)).to_iter_dataset()
    whole = _of_stream(stream, steps=100)[0]

    def made(gone=None, early=False):
        some = stream.filter(lambda key: key != 11)
        some = (some.omit(gone) if gone and early else some).batch(3).map(lambda batch: batch)
        return some.omit(gone) if gone and not early else some

    kept, early = _left(whole, [11]), False
    for steps in range(5):
        done, state = _of_stream(made(), steps=steps)
        early = not early
        rest = _left(kept[len(done) :])
        more, after = _of_stream(made(GONE, early), state, 2)
        assert more == rest[: len(more)]
        assert len(more) == min(6, len(rest))
        assert _of_stream(made({*GONE, 9}, early), after, 2)[0] == _left(rest[len(more) :], [9])[:6]
    with pytest.raises(CheckpointError, match="3 records, but now 1"):
        _of_stream(made([9], True), after)
    assert _of_stream(stream.omit([5]).omit([2, 17]), steps=9)[0] == _left(whole)[:9]
    assert not headrace.find_omitted(stream.omit(GONE).batch(3))


@pytest.mark.long
def test_shards_of_a_stream_stay_even_whatever_is_left_out():
    """Told before `omit` or after it: together they read what is left, in equal numbers."""
    stream = MapDataset.source(range(30)).shuffle(seed=1).repeat(2).to_iter_dataset()
    whole = _of_stream(stream)[0]
    for early in (True, False):
        shards = []
        for shard in (ShardOptions(0, 3, True), ShardOptions(1, 3, True), ShardOptions(2, 3, True)):
            some = stream.shard(shard).omit(GONE) if early else stream.omit(GONE).shard(shard)
            shards.append(_of_stream(some.mp_prefetch(shard.shard_index))[0])
        assert [key for keys in zip(*shards, strict=True) for key in keys] == _left(whole)


@pytest.mark.slow
def test_mixes_leave_out_records_by_dataset_and_keep_the_orders():
    """Of streams that repeat, each goes on with its next epochs; a mix of datasets takes a dict,
    and goes on from before.
    """
    one, other = (
        MapDataset.source(range(20)).shuffle(seed=3),
        MapDataset.source(range(100, 110)).shuffle(seed=1),
    )
    for some in (
        one.omit(GONE).to_iter_dataset(),
        one.to_iter_dataset().filter(lambda key: True).omit(GONE),
    ):
        streams = (
            IterDataset.mix([each, other.to_iter_dataset()], when_exhausted="repeat")
            for each in (one.to_iter_dataset(), some)
        )
        whole, left = (
            [key for key in _of_stream(each, steps=120)[0] if key < 100] for each in streams
        )
        assert left[: len(_left(whole))] == _left(whole)
    parts = {"a": one.repeat(), "b": other.repeat()}
    before = MapDataset.mix(parts, {"a": 2, "b": 1}).to_iter_dataset()
    done, state = _of_stream(before, steps=20)
    whole = _of_stream(before, steps=200)[0]
    inside = MapDataset.mix(
        {**parts, "a": parts["a"].omit(GONE)}, {"a": 2, "b": 1}
    ).to_iter_dataset()
    for mix in (before.omit({"a": GONE}), inside):
        rest = _of_stream(mix, state, 60)[0]
        of_a = [key for key in rest if key < 100]
        assert of_a == _left([key for key in whole[len(done) :] if key < 100])[: len(of_a)]
        assert len(of_a) == 40
        assert not headrace.find_omitted(mix)


def test_a_record_of_a_mixed_stream_that_was_delivered_in_part_cannot_be_left_out():
    """The next one can."""

    def mix(*gone):
        twice = MapDataset.source(range(4)).to_iter_dataset().omit(gone).flat_map(lambda x: [x, x])
        return IterDataset.mix([MapDataset.range(100, 110).to_iter_dataset(), twice])

    _, state = _of_stream(mix(), steps=4)  # 100 0 101 0
    _, begun = _of_stream(mix(), steps=6)  # and 102 1
    assert _of_stream(mix(1), state, 3)[0] == [102, 2, 103]
    assert _of_stream(mix(2), begun, 4)[0] == [103, 1, 104, 3]
    with pytest.raises(CheckpointError, match="record 1 is omitted now"):
        _of_stream(mix(1), begun, 1)


def test_streams_without_a_source_of_their_own_are_refused():
    """Joined, limited, evaluated; keys that are none, and all of them."""
    dataset = MapDataset.source(range(20))
    stream = dataset.to_iter_dataset()
    several = (IterDataset.mix([stream, stream]), stream.limit(3), stream.repeat(2), stream.cache())
    for each in (
        *several,
        dataset.random_map(lambda key, rng: key, seed=1).shuffle(seed=1).to_iter_dataset(),
    ):
        with pytest.raises(ValueError, match="before mix, zip, interleave"):
            each.omit([1])
    with pytest.raises(ValueError, match="before slices"):
        dataset[:9].to_iter_dataset().omit([1])
    with pytest.raises(RecordKeyError, match="77"):
        stream.omit([77])
    with pytest.raises(EmptyStreamError):
        stream.omit(range(20))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("growth", [None, GrowthOptions("now", every=4)], ids=["epoch", "now"])
@pytest.mark.parametrize("early", [True, False])
def test_a_chain_that_grows_leaves_records_out(tmp_path, growth, early):
    """As a loader does, before and after the stream is made; a function, which would not be asked
    again, is refused.
    """
    path = tmp_path / "sizes.json"

    def run(make):
        append(path, 10)
        with iter(make()) as iterator:
            keys = [key for _ in range(2) for key in next(iterator).tolist()]
            append(path, 5)
            keys += [key for _ in range(2) for key in next(iterator).tolist()]
            state = iterator.get_state()
            keys += [key for _ in range(5) for key in next(iterator).tolist()]
        with iter(make()) as iterator:
            iterator.set_state(state)
            assert [key for _ in range(5) for key in next(iterator).tolist()] == keys[12:]
        path.unlink()
        return keys

    def chain(omit=(2, 5)):
        dataset = MapDataset.source(GrowingKeys(path)).shuffle(3).repeat()
        if early:
            return dataset.omit(omit).to_iter_dataset(growth=growth).batch(3)
        return dataset.to_iter_dataset(growth=growth).batch(3).omit(omit)

    keys = run(chain)
    assert keys == run(
        lambda: load(
            GrowingKeys(path), batch_size=3, shuffle=True, seed=3, growth=growth, omit=[2, 5]
        )
    )
    assert {*keys} == {*range(15)} - {2, 5}
    (tmp_path / "a.jsonl").write_text("1\n2\n3\n")
    source = headrace.JsonLinesDataSource(tmp_path / "*.jsonl", growing=tmp_path / "generations")
    with pytest.raises(ValueError, match="would not be"):
        MapDataset.source(source).omit(lambda file, row: row == 1).to_iter_dataset()
    stream = (
        MapDataset.source(source).omit(lambda file, row: row == 1).to_iter_dataset(growth="hand")
    )
    assert _of_stream(stream)[0] == [1, 3]


def _is_odd(key):
    return key % 2 == 1


def _mix_of_streams(gone=(), gone_too=(), more=False, shard=(0, 1), **options):
    """A mix of two streams, of three with `more`, that go on with their next epochs."""
    options = {"when_exhausted": "repeat", **options}
    one = MapDataset.source(range(40)).shuffle(seed=3).to_iter_dataset().filter(_is_odd)
    other = MapDataset.source(range(100, 130)).shuffle(seed=1).to_iter_dataset()
    streams = {
        "one": one.omit(gone) if gone else one,
        "other": other.omit(gone_too) if gone_too else other,
    }
    if more:
        streams["more"] = MapDataset.source(range(200, 210)).to_iter_dataset()
    return IterDataset.mix(streams, [2, 1, 1] if more else None, **options).shard(
        ShardOptions(*shard)
    )


def _parts(keys):
    return [[key for key in keys if first <= key < first + 100] for first in (0, 100)]


def _check_rest(keys, expected, *gone):
    """Those of each stream are what comes next of it, without what is left out."""
    for mine, whole, omitted in zip(_parts(keys), _parts(expected), gone):
        left = _left(whole, omitted)
        assert mine == left[: len(mine)]
        assert len(mine) >= 10


@pytest.mark.long
@pytest.mark.parametrize("steps", range(0, 80, 13))
@pytest.mark.one_in(3)
def test_streams_that_are_mixed_go_on_without_more_records(steps):
    """From a state of before, and from one of a run that left out some; limited; with other weights
    and streams.
    """
    whole, _ = _of_stream(_mix_of_streams(), steps=400)
    _, state = _of_stream(_mix_of_streams(), steps=steps)
    more, after = _of_stream(_mix_of_streams([5, 17], [3]), state, 31)
    _check_rest(more, whole[steps:], [5, 17], [103])
    again = _of_stream(_mix_of_streams([5, 17, 9], [3, 8]), after, 31)[0]
    left = [
        part[len(taken) :]
        for part, taken in zip(_parts(_left(whole[steps:], [5, 17, 103])), _parts(more))
    ]
    _check_rest(again, [*left[0], *left[1]], [9], [108])
    with pytest.raises(CheckpointError, match="2 records of one, but now 0"):
        _of_stream(_mix_of_streams((), [3]), after)
    _, state_of_limited = _of_stream(_mix_of_streams().limit(90), steps=steps)
    limited = _of_stream(_mix_of_streams([5, 17]).limit(90), state_of_limited)[0]
    assert len(limited) == 90 - steps
    assert limited[:20] == _of_stream(_mix_of_streams([5, 17]), state, 20)[0][: len(limited)]
    with iter(_mix_of_streams([5, 17], [3], more=True)) as iterator:
        iterator.set_state(state, strict=False)
        _check_rest([*itertools.islice(iterator, 50)], whole[steps:], [5, 17], [103])


def test_shards_of_mixed_streams_go_on_on_others_without_more_records():
    """Two shards, three, one: each record that is left once in each epoch of its stream."""
    states = [
        _of_stream(_mix_of_streams(shard=(index, 2), when_exhausted="all"), steps=12)
        for index in range(2)
    ]
    done = [key for keys, _ in states for key in keys]
    rest = []
    for index in range(3):
        with iter(
            _mix_of_streams([5, 17], [3], shard=(index, 3), when_exhausted="all")
        ) as iterator:
            iterator.set_states([state for _, state in states])
            rest += [int(key) for key in iterator]
    every = [*filter(_is_odd, range(40)), *range(100, 130)]
    assert sorted([*done, *rest]) == sorted(
        [*_left(every, [5, 17, 103]), *({5, 17, 103} & {*done})]
    )


def test_joined_streams_that_would_read_a_former_order_again_are_refused():
    """Repeated from the beginning; in the middle of a window above the mix. Between two windows
    they go on.
    """
    stream = MapDataset.source(range(20)).to_iter_dataset()
    _, state = _of_stream(stream.repeat(3), steps=4)
    with pytest.raises(CheckpointError, match=r"a stream that repeat\(\) reads again"):
        _of_stream(stream.omit(GONE).repeat(3), state)
    _, state = _of_stream(stream.repeat(3), steps=0)
    assert _of_stream(stream.omit(GONE).repeat(3), state)[0] == _left(range(20)) * 3
    _, state = _of_stream(_mix_of_streams().window_shuffle(8, seed=1), steps=12)
    with pytest.raises(CheckpointError, match="after streams were joined"):
        _of_stream(_mix_of_streams([5]).window_shuffle(8, seed=1), state)
    _, state = _of_stream(_mix_of_streams().window_shuffle(8, seed=1), steps=16)
    more, _ = _of_stream(_mix_of_streams([5]).window_shuffle(8, seed=1), state, 16)
    expected = [key for key in _of_stream(_mix_of_streams(), steps=60)[0][16:] if key != 5]
    assert {*_parts(more)[1]} == {*_parts(expected)[1][:8]}
