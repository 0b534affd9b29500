"""Mixes whose parts take in what is appended while a run goes on, and shards that get to a change
one after another.
"""

from __future__ import annotations

import pytest
from support.growing_files import FORMATS
from support.growing_source import GrowingKeys, append, begin_writing

import headrace
from headrace import Batch, DataLoader, GrowthOptions, MixSampler, ShardOptions, load
from headrace.errors import CheckpointError
from headrace.loader.iterator import DataLoaderIterator

B = 1000
"""The first record of part "b"."""


@pytest.fixture
def folder(tmp_path):
    """Parts of four and six records."""
    append(tmp_path / "a.json", 4)
    append(tmp_path / "b.json", 6)
    return tmp_path


def _parts(folder, **generations):
    return {
        "a": GrowingKeys(folder / "a.json", generations.get("a")),
        "b": GrowingKeys(folder / "b.json", generations.get("b"), first=B),
    }


def _mix(parts, when="repeat", weights=None, batch=1, sampler=None, **options):
    order = MixSampler(parts, weights, when_exhausted=when, **(sampler or {}))
    return iter(DataLoader(data_source=parts, sampler=order, operations=[Batch(batch)], **options))


def _take(iterator, steps):
    return [key for _ in range(steps) for key in next(iterator).tolist()]


def _of(keys):
    return [key for key in keys if key < B], [key - B for key in keys if key >= B]


def test_trace_tells_the_generation_of_the_part_that_grew(folder):
    """By its name, whatever the order in which parts are listed."""
    append(folder / "a.json", 2)
    parts = dict(reversed(_parts(folder).items()))
    loader = DataLoader(data_source=parts, sampler=MixSampler(parts, when_exhausted="repeat"))
    told = {
        int(loader.records_at(step).keys() == {"a"}): headrace.trace(loader, step).generations
        for step in range(4)
    }
    assert told == {1: ("generation 1 of part 'a', which holds from its position 0 on",), 0: ()}


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_appended_to_a_part_comes_with_its_next_epoch(folder, workers):
    """Each part has epochs of its own; the proportions stay, and a state goes on with the same
    changes.
    """

    def make():
        return _mix(_parts(folder), sampler={"shuffle": True, "seed": 1}, worker_count=workers)

    with make() as iterator:
        keys = _take(iterator, 3)
        append(folder / "a.json", 2)
        keys += _take(iterator, 21)
        state = iterator.get_state()
        rest = _take(iterator, 12)
    a, b = _of(keys)
    assert [sorted(a[:4]), sorted(a[4:10])] == [[*range(4)], [*range(6)]]
    assert [sorted(b[:6]), sorted(b[6:12])] == [[*range(6)]] * 2
    assert all(abs(len(_of(keys[:count])[0]) - count / 2) <= 1 for count in range(len(keys)))
    with make() as iterator:
        iterator.set_state(state)
        assert _take(iterator, 12) == rest


@pytest.mark.parametrize(
    ("when", "growth", "a", "b"),
    [
        ("first", "epoch", 4, 4),
        ("first", GrowthOptions("now", every=5), 6, 6),
        ("all", "epoch", 4, 6),
        ("all", GrowthOptions("now", every=5), 6, 9),
    ],
    ids=str,
)
def test_a_mix_that_ends_reads_what_came_before_a_part_ended(folder, when, growth, a, b):
    """With "now" a part has what was appended in its only epoch; once it has left the mix, nothing
    more comes of it.
    """
    with _mix(_parts(folder), when, growth=growth) as iterator:
        keys = _take(iterator, 3)
        append(folder / "a.json", 2)
        append(folder / "b.json", 3)
        for batch in iterator:
            keys += batch.tolist()
            if len(keys) == 14:
                append(folder / "a.json", 5)
    assert [sorted(part) for part in _of(keys)] == [[*range(a)], [*range(b)]]


@pytest.mark.long
@pytest.mark.one_in(2)
@pytest.mark.parametrize("former", ["hand", "plain"])
@pytest.mark.parametrize("later", ["hand", "epoch"])
def test_a_later_loader_has_more_records_from_each_parts_next_epoch_on(folder, former, later):
    """From a state of a run that took in none, or whose sources did not grow."""
    parts = _parts(folder) if former == "hand" else _parts(folder, a=0, b=0)
    with _mix(parts, growth="hand" if former == "hand" else None) as iterator:
        keys = _take(iterator, 5)
        append(folder / "a.json", 2)
        keys += _take(iterator, 4)
        state = iterator.get_state()
    assert _of(keys) == ([*range(4), 0], [*range(4)])
    with _mix(_parts(folder), growth=later) as iterator:
        iterator.set_state(state)
        a, b = _of(keys + _take(iterator, 13))
    assert a == [*range(4), *range(4), *range(3)]
    assert b == [*range(6), *range(5)]
    with _mix(_parts(folder), growth=later) as iterator:
        iterator.set_state(state)
        assert _of(keys + _take(iterator, 23))[0] == [*range(4), *range(4), *range(6), *range(2)]


def test_a_mix_over_files_that_were_replaced_refuses_the_state(folder):
    """A part that has as many records, and is said to be the same generation, but is another
    source.
    """
    with _mix(_parts(folder)) as iterator:
        next(iterator)
        state = iterator.get_state()
    (folder / "a.json").unlink()
    append(folder / "a.json", 5)
    with _mix(_parts(folder)) as iterator, pytest.raises(CheckpointError, match="records 4 → 5"):
        iterator.set_state(state)


def test_a_mix_waits_for_the_writer_of_a_part(folder):
    """What comes then belongs to the epoch of that part that it waited at the end of."""
    begin_writing(folder / "a.json")
    with _mix(_parts(folder), "all", weights={"a": 3, "b": 1}) as iterator:
        keys = _take(iterator, 5)
        assert len(_of(keys)[0]) == 4
        append(folder / "a.json", 3)
        keys += [key for batch in iterator for key in batch.tolist()]
    assert _of(keys) == ([*range(7)], [*range(6)])


@pytest.mark.long
def test_files_of_a_part_grow(tmp_path):
    """Token files beside a part of ArrayRecord that stays what it is; two shards, on workers."""
    tokens, records = FORMATS["tokens"], FORMATS["array_record"]
    (tmp_path / "t").mkdir()
    tokens.write(tmp_path / "t" / "0.npy", *range(4))
    records.write(tmp_path / "r.array_record", *range(B, B + 4))

    def shard(index):
        parts = {
            "t": tokens.source(tmp_path / "t", growing=True),
            "r": records.source(str(tmp_path / "r.array_record")),
        }
        read = [
            lambda row: tokens.number_of(row) if isinstance(row, dict) else records.number_of(row),
            Batch(2),
        ]
        order = MixSampler(parts, when_exhausted="repeat")
        options = {"shard_options": ShardOptions(index, 2), "worker_count": 2}
        return iter(DataLoader(data_source=parts, sampler=order, operations=read, **options))

    shards = [shard(index) for index in range(2)]
    keys = [_take(each, 1) for each in shards]
    tokens.write(tmp_path / "t" / "1.npy", *range(4, 6))
    for came, each in zip(keys, shards):
        came += _take(each, 4)
        each.close()
    assert sorted(_of([*keys[0], *keys[1]])[0]) == sorted([*range(4), *range(6)])


def test_what_cannot_grow_in_a_mix_is_refused(folder):
    """An order that cannot change, one of some records, a part made of what grows, a loop per
    epoch; with the remedy.
    """
    parts = _parts(folder)
    weighted = {"a": headrace.WeightedSampler([1.0] * 4, seed=1), "b": 6}
    with pytest.raises(ValueError, match="part 'a' of the mix: WeightedSampler"):
        DataLoader(data_source=parts, sampler=MixSampler(weighted))
    DataLoader(data_source=parts, sampler=MixSampler(weighted), growth="hand")
    with pytest.raises(ValueError, match=r"part 'a' of the mix: .*num_records=len"):
        DataLoader(data_source=parts, sampler=MixSampler({"a": 3, "b": 6}))
    subset = {"a": headrace.sources.Subset(parts["a"], [1, 2]), "b": parts["b"]}
    with pytest.raises(ValueError, match='Pass growth="hand" to read'):
        DataLoader(data_source=subset, sampler=MixSampler(subset))
    loader = DataLoader(data_source=parts, sampler=MixSampler(parts), operations=[Batch(2)])
    with pytest.raises(ValueError, match='pass growth="hand"') as raised:
        loader.epochs(2)
    assert len(str(raised.value)) < 500
    shared = {**parts, "a": GrowingKeys(folder / "a.json", writable=False)}
    with pytest.raises(
        ValueError, match=r'Pass growth=headrace\.GrowthOptions\(.epoch., log="a folder'
    ):
        DataLoader(data_source=shared, sampler=MixSampler(shared), shard_options=ShardOptions(0, 2))


def test_more_records_are_left_out_before_a_part_that_has_changed_is_drawn_again(folder):
    """Its change is known from the record before it on, however far the next one is."""
    weights, first = {"a": 50, "b": 1}, {"a": [0], "b": [5]}
    with _mix(_parts(folder), weights=weights) as iterator:
        _take(iterator, 5)
        state = iterator.get_state()
    with _mix(_parts(folder), weights=weights, omit=first) as iterator:
        iterator.set_state(state)
        _take(iterator, 3)
        state = iterator.get_state()
    with _mix(_parts(folder), weights=weights, omit={"a": [0, 2], "b": [4, 5]}) as iterator:
        iterator.set_state(state)
        a, _ = _of(_take(iterator, 10))
    assert {*a} == {1, 3}


def test_an_epoch_that_begins_where_records_are_left_out_has_what_was_appended(tmp_path):
    """The rest of the epoch before is all left out: the run looks there, though the order has
    changed there already.
    """
    path = tmp_path / "sizes.json"
    append(path, 10)
    with iter(load(GrowingKeys(path), batch_size=1)) as iterator:
        _take(iterator, 8)
        state = iterator.get_state()
    append(path, 5)
    with iter(load(GrowingKeys(path), batch_size=1, omit=[8, 9])) as iterator:
        iterator.set_state(state)
        assert _take(iterator, 14) == [*range(8), *range(10, 15), 0]


def _three_shards(path, growth):
    options = {"batch_size": 1, "shuffle": True, "seed": 1, "growth": growth}
    return [
        iter(load(GrowingKeys(path), shard_options=ShardOptions(index, 3), **options))
        for index in range(3)
    ]


def test_two_changes_within_a_step_are_the_same_for_all_shards(tmp_path):
    """The first shard has read beyond none of them, also where it learns of both when it comes
    there last.
    """
    path = tmp_path / "sizes.json"
    append(path, 20)
    shards = _three_shards(path, GrowthOptions("now", every=1, log=tmp_path / "log"))
    keys = [_take(shards[0], 1), [], []]
    for shard in (1, 2):
        append(path, 2)
        keys[shard] += _take(shards[shard], 1)
    for shard in range(3):
        keys[shard] += _take(shards[shard], 7)
    assert sorted(key for of_shard in keys for key in of_shard) == [*range(24)]
    written = [file.name for file in (tmp_path / "log").rglob("*") if file.is_file()]
    assert written
    assert not [name for name in written if "unfinished" in name]


@pytest.mark.slow
def test_each_shard_goes_on_alone_where_another_one_knows_of_a_change(tmp_path):
    """The epoch ends between their rows of the last step."""
    path = tmp_path / "sizes.json"
    append(path, 10)
    shards = _three_shards(path, GrowthOptions(log=tmp_path / "log"))
    for shard in shards:
        _take(shard, 3)
    append(path, 5)
    for shard in shards:
        _take(shard, 1)
    states = [shard.get_state() for shard in shards]
    keys = [_take(shard, 9) for shard in shards]
    again = _three_shards(path, GrowthOptions(log=tmp_path / "log"))
    for shard, state in zip(again, states):
        shard.set_state(state)
    assert [_take(shard, 9) for shard in again] == keys


@pytest.mark.slow
def test_a_trace_tells_the_generation_of_each_part(folder):
    """Of the part that grew and is drawn; what did not grow tells none."""

    def loader():
        return DataLoader(
            data_source=_parts(folder), sampler=MixSampler(_parts(folder), when_exhausted="repeat")
        )

    with iter(loader()) as iterator:
        keys = [next(iterator)]
        append(folder / "a.json", 2)
        keys += [next(iterator) for _ in range(15)]
        state = iterator.get_state()
    told = [headrace.trace(loader(), step, state).generations for step in range(16)]
    of_a = [told[step] for step, key in enumerate(keys) if key < B]
    assert [told[step] for step, key in enumerate(keys) if key >= B] == [()] * 8
    assert of_a[0] == ("generation 0 of part 'a', which holds from its position 0 on",)
    assert of_a[4:] == [("generation 1 of part 'a', which holds from its position 4 on",)] * 4


@pytest.mark.slow
def test_a_part_that_was_not_drawn_yet_grows_between_two_looks_of_one_step(folder, monkeypatch):
    """A run does not go back to a look at which the part was smaller, from there to the later one,
    and so on for ever.
    """
    taken = []
    take_in = DataLoaderIterator._take_in

    def counted(iterator, change):
        taken.append(change.position)
        assert len(taken) < 20, f"the run goes back and forth: {taken}"
        return take_in(iterator, change)

    monkeypatch.setattr(DataLoaderIterator, "_take_in", counted)
    sources = _parts(folder)
    looks = sources["b"].newest_generation

    def grows_at_the_third_look():
        grows_at_the_third_look.count += 1
        if grows_at_the_third_look.count == 3:
            append(folder / "b.json", 3)
        return looks()

    grows_at_the_third_look.count = 0
    monkeypatch.setattr(sources["b"], "newest_generation", grows_at_the_third_look)
    growth = GrowthOptions(at="now", every=2, log=folder / "log")
    weights, keys = {"a": 30, "b": 1}, []
    shards = [
        _mix(parts, weights=weights, batch=4, growth=growth, shard_options=ShardOptions(shard, 2))
        for shard, parts in enumerate((sources, _parts(folder)))
    ]
    for _ in range(40):
        keys += [key for shard in shards for key in _take(shard, 1)]
    for shard in shards:
        shard.close()
    assert taken
    assert set(_of(keys)[1]) == {*range(9)}


@pytest.mark.parametrize("mixed", [False, True])
def test_states_of_a_shard_that_has_not_stepped_and_of_one_that_took_in_records_go_together(
    folder, mixed
):
    """What came before the first record was read is no change, but another beginning: both are
    states of one run.
    """

    def shard(index, shards):
        options = {
            "growth": GrowthOptions(at="now", every=4, log=folder / "log"),
            "shard_options": ShardOptions(index, shards),
        }
        if mixed:
            return _mix(_parts(folder), when="all", batch=2, **options)
        source = _parts(folder)["a"]
        return iter(load(source, batch_size=2, shuffle=True, seed=1, num_epochs=1, **options))

    first, other = shard(0, 2), shard(1, 2)
    append(folder / "a.json", 4)
    seen = _take(first, 1)
    states = [iterator.get_state() for iterator in (other, first)]
    with shard(0, 1) as whole:
        whole.set_states(states)
        seen += [key for batch in whole for key in batch.tolist()]
    assert sorted(seen) == [*range(8), *(range(B, B + 6) if mixed else ())]
    first.close()
    other.close()


def test_records_that_are_appended_after_a_shard_had_ended_and_shards_changed_come_once(folder):
    """They come after what the former shards left."""

    def shard(index, shards):
        growth = GrowthOptions(at="now", every=8, log=folder / "log")
        source = GrowingKeys(folder / "c.json")
        return iter(
            load(
                source,
                batch_size=1,
                num_epochs=1,
                growth=growth,
                shard_options=ShardOptions(index, shards),
            )
        )

    append(folder / "c.json", 7)
    with shard(0, 3) as first, shard(1, 3) as second, shard(2, 3) as third, shard(0, 1) as whole:
        seen = [*_take(first, 3), *_take(second, 1), *_take(third, 1)]
        whole.set_states([iterator.get_state() for iterator in (first, second, third)])
        append(folder / "c.json", 7)
        seen += [batch[0] for batch in whole]
    assert seen[:7] == [0, 3, 6, 1, 2, 4, 5]
    assert sorted(seen) == list(range(14))
