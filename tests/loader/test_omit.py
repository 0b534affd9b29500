"""Loaders from which records are left out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import headrace
from headrace import (
    Batch,
    BudgetBatch,
    DataLoader,
    Filter,
    IndexSampler,
    MixSampler,
    ShardOptions,
    Subset,
    load,
)
from headrace.errors import CheckpointError, EmptyStreamError, RecordKeyError

GONE = [3, 5, 17]


def _keys(loader, state=None, steps=None):
    """The records of a loader from a state on, and the state after them."""
    with iter(loader) as iterator:
        if state is not None:
            iterator.set_state(state) if isinstance(state, bytes) else iterator.set_states(state)
        keys = [
            key for batch in itertools.islice(iterator, steps) for key in np.ravel(batch).tolist()
        ]
        return keys, iterator.get_state()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["list", "array", "set", "npy", "text", "predicate"])
def test_records_are_left_out_however_they_are_named(name, tmp_path):
    """As convert takes them; the order of all others is what it was."""
    folder = tmp_path / "data"
    folder.mkdir()
    for file in range(4):
        (folder / f"{file}.jsonl").write_text("".join(f"{file * 5 + row}\n" for row in range(5)))
    np.save(tmp_path / "keys.npy", GONE)
    (tmp_path / "keys.txt").write_text("3\n5\n17\n")
    told = {
        "list": GONE,
        "array": np.array(GONE),
        "set": set(GONE),
        "npy": tmp_path / "keys.npy",
        "text": tmp_path / "keys.txt",
        "predicate": lambda file, row: int(file[-7]) * 5 + row in GONE,
    }
    source = headrace.JsonLinesDataSource(folder)
    whole, some = (
        _keys(load(source, shuffle=True, seed=1, num_epochs=2, batch_size=4, **options))[0]
        for options in ({}, {"omit": told[name]})
    )
    assert some == [key for key in whole if key not in GONE]
    assert len(some) == 34


def test_lengths_and_places_are_those_of_what_is_left():
    """Of the loader, its steps, its epochs."""
    loader = load(range(20), shuffle=True, seed=1, num_epochs=2, batch_size=4, omit=GONE)
    batches = list(loader)
    assert len(loader) == len(batches) == 9
    assert [loader.records_at(step).tolist() for step in range(9)] == [
        batch.tolist() for batch in batches
    ]
    for key, epoch in itertools.product({*range(20)} - {*GONE}, (0, 1)):
        step, row = loader.find(key, epoch)
        assert batches[step][row] == key
    with pytest.raises(LookupError, match="record 5 is never read: omit="):
        loader.find(5, 0)
    assert [record.key for record in headrace.trace(loader, 3).records] == batches[3].tolist()
    for number, epoch in enumerate(loader.epochs()):
        keys = [key for batch in epoch for key in batch.tolist()]
        assert sorted(keys) == sorted({*range(20)} - {*GONE})
        assert (
            keys
            == [key for batch in batches for key in batch.tolist()][17 * number : 17 * number + 17]
        )


PROGRAMS = {
    "batches": [Batch(3)],
    "records": [],
    "filter": [Filter(lambda key: key % 4 != 1), Batch(2)],
    "flat map": [headrace.FlatMap(lambda key: [key, key]), Batch(4)],
}


def _program(name, omit, shard=(0, 1), workers=0):
    return DataLoader(
        data_source=range(20),
        sampler=IndexSampler(20, shuffle=True, seed=1, num_epochs=2),
        operations=PROGRAMS[name],
        shard_options=ShardOptions(*shard),
        omit=omit,
        worker_count=workers,
    )


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.one_in(4)
def test_a_state_of_before_goes_on_from_each_step(name):
    """What is left of the former order comes, without the records; also from runs that left out
    others already.
    """
    for before in ([], [5]):
        whole, _ = _keys(_program(name, before))
        for step in itertools.count():
            done, state = _keys(_program(name, before), steps=step)
            if len(done) == len(whole):
                break
            rest, _ = _keys(_program(name, GONE), state)
            assert rest == [key for key in whole[len(done) :] if key not in GONE]


@pytest.mark.parametrize("source", [range(5), {"only": range(5)}], ids=["one source", "mix"])
def test_shards_that_ended_unevenly_go_on_to_the_same_end_with_more_left_out(source):
    """Three records on two shards: the first one has read a row more, so that it stands beyond the
    end.
    """

    def shard(index, omit):
        sampler = MixSampler(source) if isinstance(source, dict) else IndexSampler(5, num_epochs=1)
        omit = {"only": omit} if isinstance(source, dict) else omit
        return DataLoader(
            data_source=source, sampler=sampler, shard_options=ShardOptions(index, 2), omit=omit
        )

    runs = [_keys(shard(index, [0, 1])) for index in range(2)]
    assert [keys for keys, _ in runs] == [[2, 4], [3]]
    for index in range(2):
        assert _keys(shard(index, [0, 1, 2]), [state for _, state in runs])[0] == []


def test_more_shards_than_records_are_left_have_as_many_epochs():
    """Three epochs of two records on five shards: one row each, and the last one is dropped."""
    options = [ShardOptions(index, 5, drop_remainder=True) for index in range(5)]
    sampler = IndexSampler(3, num_epochs=3)
    loaders = [
        DataLoader(data_source=range(3), sampler=sampler, shard_options=each, omit=[0])
        for each in options
    ]
    assert [_keys(loader)[0] for loader in loaders] == [[1], [2], [1], [2], [1]]


def test_a_loop_per_epoch_goes_on_between_two_epochs():
    """Inside one, its batches would be other ones: that is refused, also with strict=False."""

    def epochs(omit):
        return load(range(20), shuffle=True, seed=1, batch_size=4, omit=omit).epochs(3)

    with epochs([5]) as loop:
        whole = [[key for batch in epoch for key in batch.tolist()] for epoch in loop]
    with epochs([5]) as loop:
        batches = next(loop)
        next(batches)
        inside = loop.get_state()
        list(batches)
        state = loop.get_state()
    with epochs(GONE) as loop:
        loop.set_state(state)
        rest = [[key for batch in epoch for key in batch.tolist()] for epoch in loop]
        assert rest == [[key for key in keys if key not in GONE] for keys in whole[1:]]
        for strict in (True, False):
            with pytest.raises(CheckpointError, match="between two epochs"):
                loop.set_state(inside, strict)
    with epochs([3]) as loop, pytest.raises(CheckpointError, match="1 records"):
        loop.set_state(state)


def test_fewer_records_left_out_than_the_state_knows_are_refused():
    """A program that forgot the list would read what was deleted."""
    _, state = _keys(load(range(20), batch_size=4, omit=GONE), steps=2)
    for others in (None, [3], [3, 5, 18]):
        with pytest.raises(
            CheckpointError,
            match=(
                r"omitted 3 records, but now .* Pass all records that were omitted before to omit="
            ),
        ):
            _keys(load(range(20), batch_size=4, omit=others), state, 1)


def test_files_written_anew_go_on_with_the_state_of_the_former_ones(tmp_path):
    """The loader leaves out what the files have no longer, by itself, and more if it is told."""
    for name, omit in (("former", None), ("now", GONE)):
        source = range(20) if omit is None else headrace.ArrayRecordDataSource(tmp_path / "former")
        records = [str(key).encode() for key in source] if omit is None else source
        headrace.convert(records, tmp_path / name, omit=omit, workers=0, progress=False)
    former = headrace.ArrayRecordDataSource(tmp_path / "former")
    now = headrace.FormerKeys(headrace.ArrayRecordDataSource(tmp_path / "now"))
    whole = [int(record) for record in load(former, shuffle=True, seed=1, num_epochs=2)]
    with iter(load(former, shuffle=True, seed=1, num_epochs=2)) as iterator:
        for _ in range(7):
            next(iterator)
        state = iterator.get_state()
    for omit in ((), [8]):
        with iter(load(now, shuffle=True, seed=1, num_epochs=2, omit=omit)) as iterator:
            iterator.set_state(state)
            assert [int(record) for record in iterator] == [
                key for key in whole[7:] if key not in {*GONE, *omit}
            ]
    weights = np.where(np.isin(np.arange(20), GONE), 0.0, 1.0)
    drawn = DataLoader(
        data_source=now, sampler=headrace.WeightedSampler(weights, num_samples=20, seed=0)
    )
    assert len(list(itertools.islice(drawn, 20))) == 20


def test_batches_planned_from_lengths_are_made_of_what_is_left():
    """Each living record comes once, and records_at and find know it."""
    tokens = [np.full(1 + key % 3, key) for key in range(20)]

    def make(omit):
        return load(
            [{"tokens": each} for each in tokens],
            transformations=[BudgetBatch(6, lengths=[len(each) for each in tokens])],
            shuffle=True,
            seed=0,
            num_epochs=1,
            omit=omit,
        )

    loader = make(GONE)
    keys = [key for step in range(len(loader)) for key in loader.records_at(step).tolist()]
    assert sorted(keys) == sorted({*range(20)} - {*GONE})
    assert loader.find(7, 0).step == next(
        step for step in range(len(loader)) if 7 in loader.records_at(step)
    )
    with pytest.raises(LookupError):
        loader.find(5, 0)
    with iter(loader) as iterator, pytest.raises(CheckpointError, match="another pipeline"):
        next(iterator)
        iter(make([*GONE, 7])).set_state(iterator.get_state())


def test_more_records_are_left_out_after_the_state_of_one_shard_at_equal_steps():
    """Also of a run that left out some already: no record comes twice or is lost."""
    runs = [
        iter(load(range(20), num_epochs=1, omit=[1], shard_options=ShardOptions(shard, 2)))
        for shard in range(2)
    ]
    had = [next(run) for _ in range(3) for run in runs]
    rest = iter(load(range(20), num_epochs=1, omit=[1, 19]))
    rest.set_states([runs[0].get_state()], equal_steps=True)
    assert sorted([*had, *rest]) == [0, *range(2, 19)]


def test_records_of_a_subset_are_named_by_its_own_keys():
    """As all keys that a loader knows."""
    loader = load(Subset(range(20), range(10, 20)), num_epochs=1, omit=[0, 9])
    assert list(loader) == [*range(11, 19)]


def test_what_cannot_leave_out_records_is_refused_when_the_loader_is_made():
    """With the remedy."""
    with pytest.raises(ValueError, match="balance= cannot be combined with records"):
        load(range(20), batch_size=4, balance=headrace.Balance(np.ones(20)), omit=GONE)
    with pytest.raises(ValueError, match="out records of a WeightedSampler, give them weight 0"):
        DataLoader(
            data_source=range(20), sampler=headrace.WeightedSampler(np.ones(20), seed=0), omit=GONE
        )
    with pytest.raises(RecordKeyError, match="20"):
        load(range(20), omit=[20])
    with pytest.raises(EmptyStreamError, match="all 20 records"):
        load(range(20), omit=range(20))
    with pytest.raises(TypeError, match="omit="):
        load(range(20), omit=3)


def test_a_function_is_not_asked_of_records_that_come_later(tmp_path):
    """So it is refused where some may come in on the way, and taken where none do."""
    with headrace.TokenWriter(tmp_path / "a.npy", dtype=np.uint16) as writer:
        writer.extend([[1], [2], [3]])
    source = headrace.TokenSource(tmp_path, growing=True)
    with pytest.raises(ValueError, match="or pass a list of record keys as omit="):
        load(source, omit=lambda file, row: row == 1)
    loader = load(source, omit=lambda file, row: row == 1, growth="hand", num_epochs=1)
    assert [record["tokens"].tolist() for record in loader] == [[1], [3]]


MIXES = {
    "until the first ends": {},
    "until all end": {"when_exhausted": "all"},
    "for ever": {"when_exhausted": "repeat"},
    "one leaves": {"when_exhausted": "repeat", "max_epochs": {"b": 2}},
    "scheduled": {
        "when_exhausted": "repeat",
        "weights": [(0, {"a": 1, "b": 1}), (20, {"a": 1, "b": 3})],
    },
}
PARTS = {"a": 0, "b": 100}  # the records of "a" are their keys, those of "b" 100 above


def _mix(name, omit, shard=(0, 1), workers=0, operations=None):
    parts = {"a": range(14), "b": range(100, 109)}
    return DataLoader(
        data_source=parts,
        sampler=headrace.MixSampler(
            parts, shuffle=True, seed=2, **{"weights": {"a": 2, "b": 1}, **MIXES[name]}
        ),
        operations=[Batch(3)] if operations is None else operations,
        shard_options=ShardOptions(*shard),
        omit=omit,
        worker_count=workers,
    )


def _of_parts(keys):
    return {
        name: [key for key in keys if first <= key < first + 100] for name, first in PARTS.items()
    }


def _left_of(before, omit):
    """The records of each part that are not left out."""
    return {
        name: [key for key in keys if key - PARTS[name] not in omit.get(name, ())]
        for name, keys in before.items()
    }


def _is_beginning(some, whole):
    return all(whole[name][: len(keys)] == keys for name, keys in some.items())


@pytest.mark.parametrize("name", MIXES)
def test_records_of_parts_of_a_mix_are_left_out(name):
    """Each part keeps its order, and is drawn in the proportions that it had."""
    whole, _ = _keys(_mix(name, {}), steps=60)
    omit = {"a": [0, 3, 4], "b": {8}}
    loader = _mix(name, omit)
    some, _ = _keys(loader, steps=30)
    kept = _left_of(_of_parts(whole), omit)
    assert _is_beginning(_of_parts(some), kept)
    if name in ("for ever", "scheduled"):
        assert [key < 100 for key in some] == [key < 100 for key in whole[: len(some)]]
        assert len(some) == 90
    elif name == "until all end":
        assert _of_parts(some) == kept
        assert len(loader) == 7
    elif name == "one leaves":
        assert len(_of_parts(some)["b"]) == 16
    records = loader.records_at(1)
    assert {part: (keys + PARTS[part]).tolist() for part, keys in records.items()} == _of_parts(
        some[3:6]
    )


@pytest.mark.long
def test_a_mix_goes_on_with_any_shards_and_refuses_fewer():
    """Two shards' states on three; each record of a mix that reads all parts once comes once, on
    workers too.
    """
    omit = {"a": [2, 5, 6], "b": [0, 8]}
    for step in (0, 1, 2):
        runs = [_keys(_mix("until all end", None, (shard, 2)), steps=step) for shard in range(2)]
        states = [state for _, state in runs]
        loaders = [_mix("until all end", omit, (shard, 3), 2 * (step == 1)) for shard in range(3)]
        came = [_keys(loader, states)[0] for loader in loaders]
        read = {key for keys, _ in runs for key in keys}
        gone = {2, 5, 6, 100, 108}
        assert sorted(itertools.chain(*came)) == sorted(
            {*range(14), *range(100, 109)} - read - gone
        )
        assert max(map(len, came)) - min(map(len, came)) <= 1
    _, state = _keys(_mix("for ever", omit), steps=2)
    for others in (None, {"a": [2, 5, 6]}, {**omit, "a": [2]}):
        with pytest.raises(CheckpointError, match=r"records of part.*but now"):
            _keys(_mix("for ever", others), state, 1)


def test_what_is_left_out_of_a_mix_is_named_by_part():
    """Anything else is refused, with the parts that there are; so are parts of other orders."""
    with pytest.raises(TypeError, match="pass a dict with the keys of each part"):
        _mix("for ever", [1])
    with pytest.raises(ValueError, match="names part 'c', but the parts of the mix are"):
        _mix("for ever", {"c": [1]})
    with pytest.raises(
        EmptyStreamError, match="part 'b' of the mix: all 9 records of the source are omitted"
    ):
        _mix("for ever", {"b": range(9)})
    parts = {"a": range(5), "b": range(5)}
    drawn = headrace.MixSampler({"a": headrace.WeightedSampler(np.ones(5), seed=0), "b": 5})
    with pytest.raises(ValueError, match="part 'a' of the mix: WeightedSampler"):
        DataLoader(data_source=parts, sampler=drawn, omit={"a": [1]})
