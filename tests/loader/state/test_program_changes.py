"""Omitted records, weights of records, the batch size and the tokens of a batch change while a run
goes on.

A run that stops, and is restored in the changed program, is the oracle.
"""

from itertools import islice, product

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.growing_source import GrowingKeys, append
from support.pipelines import chosen, tries

import headrace
from headrace import (
    Batch,
    BudgetBatch,
    DataLoader,
    Filter,
    IndexSampler,
    MapDataset,
    MixSampler,
    Pack,
    ShardOptions,
    WeightedSampler,
    WindowShuffle,
)
from headrace.errors import CheckpointError, EmptyStreamError

RECORDS = 60
BEFORE, AFTER = np.ones(RECORDS), np.where(np.arange(RECORDS) % 3, 0.0, 1.0)
LENGTHS = np.random.default_rng(1).integers(1, 9, RECORDS)
PARTS = {"a": np.arange(40), "b": np.arange(100, 120)}


def _even(record):
    return record % 2 == 0


def _flat(iterator):
    return [int(record) for batch in iterator for record in np.asarray(batch).ravel()]


def _lists(iterator):
    return [
        np.asarray(batch["tokens"] if isinstance(batch, dict) else batch).tolist()
        for batch in iterator
    ]


def _loader(kind, change=None, shard=(0, 1), worker_count=0):
    """A loader of a program, or of the program that a change describes."""
    name, value = change or ("", None)
    size = value if name == "batch_size" else 4
    omit = value if name == "omit" else None
    if kind in ("planned", "windows"):
        return _budget_loader(kind, value if name == "max_tokens" else 16, shard, worker_count)
    operations = {
        "filter": [Filter(_even)],
        "window": [WindowShuffle(8)],
        "skip": [Filter(_even), WindowShuffle(5)],
    }.get(kind, [])
    source = PARTS if kind == "mix" else range(RECORDS)
    if kind == "mix":
        sampler = MixSampler(PARTS, shuffle=True, seed=3, when_exhausted="all")
        omit = None if omit is None else {"a": omit}
    elif kind == "weights":
        sampler = WeightedSampler(value if name == "weights" else BEFORE, num_epochs=2, seed=5)
    else:
        sampler = IndexSampler(RECORDS, shuffle=True, num_epochs=2, seed=7)
    return DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[*operations, Batch(size)],
        shard_options=ShardOptions(*shard),
        worker_count=worker_count,
        omit=omit,
    )


def _budget_loader(kind, max_tokens, shard=(0, 1), worker_count=0):
    """Each token of a record is its number, from 1; batches are planned by epoch, or by window of
    16 records.
    """
    records = [np.full(length, number + 1) for number, length in enumerate(LENGTHS)]
    return DataLoader(
        data_source=records,
        sampler=IndexSampler(RECORDS, shuffle=True, num_epochs=2, seed=7),
        operations=[
            BudgetBatch(
                max_tokens, pad_to=(4, 8), lengths=LENGTHS, window=16 if kind == "windows" else None
            )
        ],
        shard_options=ShardOptions(*shard),
        worker_count=worker_count,
    )


def _asked(kind, change):
    name, value = change
    return {name: {"a": value} if kind == "mix" and name == "omit" else value}


@st.composite
def _programs(draw):
    kind = draw(
        st.sampled_from(
            ["plain", "mix", "weights", "filter", "window", "skip", "planned", "windows"]
        )
    )
    of_kind = {
        "weights": ["weights", "batch_size"],
        "planned": ["max_tokens"],
        "windows": ["max_tokens"],
    }
    names = of_kind.get(kind, ["omit", "batch_size"])
    name = draw(st.sampled_from(names))
    value = {
        "omit": draw(st.lists(st.integers(0, 39), min_size=1, max_size=9, unique=True)),
        "batch_size": draw(st.integers(1, 9)),
        "weights": AFTER,
        "max_tokens": draw(st.integers(8, 64)),
    }[name]
    shards = 1 if kind in ("filter", "window", "skip") else draw(st.integers(1, 3))
    return kind, (name, value), shards


@tries(100)
@given(program=_programs(), step=st.integers(0, 8), early=st.integers(0, 8))
def test_a_change_in_a_run_is_a_restore_in_the_changed_program(program, step, early):
    """On every shard, for any step of the call; and states of later steps are those of the changed
    program.
    """
    kind, change, shards = program
    for shard in range(shards):
        plain = iter(_loader(kind, shard=(shard, shards)))
        before = _lists(islice(plain, step))
        restored = iter(_loader(kind, change, (shard, shards)))
        run = iter(_loader(kind, shard=(shard, shards)))
        began = _lists(islice(run, min(early, step)))
        try:
            if change[0] == "batch_size":
                restored.set_state(plain.get_state(), strict=False)
            else:
                restored.set_states([plain.get_state()], strict=False, equal_steps=True)
        except CheckpointError:
            with pytest.raises(ValueError, match=f"cannot be changed at step {step}"):
                run.change(**_asked(kind, change), at_step=step)
                _lists(run)
            continue
        run.change(**_asked(kind, change), at_step=step)
        assert began + _lists(islice(run, len(before) - len(began))) == before
        third = _lists(islice(run, 3))
        assert third == _lists(islice(restored, 3))
        again = iter(_loader(kind, change, (shard, shards)))
        if third:
            again.set_state(run.get_state())
            assert _lists(again) == _lists(run)


@pytest.mark.parametrize("worker_count", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_records_omitted_in_a_run_do_not_come_any_more_and_all_others_do(worker_count):
    """Each of the others once an epoch; what was prefetched is dropped."""
    run = iter(_loader("plain", worker_count=worker_count))
    before = _flat(islice(run, 5))
    omitted = [key for key in range(RECORDS) if key not in before][:7]
    run.change(omit=omitted)
    rest = _flat(run)
    assert sorted(before + rest[: RECORDS - len(before) - 7]) == sorted(
        set(range(RECORDS)) - {*omitted}
    )
    assert sorted(rest[RECORDS - len(before) - 7 :]) == sorted(set(range(RECORDS)) - {*omitted})


@pytest.mark.parametrize("worker_count", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_several_changes_come_one_after_another(worker_count):
    """Whatever the order of the calls; two of one step in that order."""
    run = iter(_loader("plain", worker_count=worker_count))
    run.change(batch_size=5, at_step=6)
    run.change(omit=[1, 2], at_step=3)
    run.change(batch_size=2, at_step=3)
    run.change(omit=[3], at_step=3)
    sizes = [len(next(run)) for _ in range(9)]
    assert sizes == [4, 4, 4, 2, 2, 2, 5, 5, 5]
    assert not {1, 2, 3} & {*_flat(run)}


def test_records_that_are_omitted_stay_omitted_by_a_later_change():
    """`omit` adds to what is omitted."""
    run = iter(_loader("plain", ("omit", [1, 2])))
    run.change(omit=[3, 4])
    assert not {1, 2, 3, 4} & {*_flat(run)}


def test_shards_that_make_the_same_call_resume_on_other_numbers_of_shards():
    """The states of all shards, at the same step or not, restored in the changed program."""
    omitted = list(range(0, RECORDS, 5))
    shards = [iter(_loader("plain", shard=(shard, 2))) for shard in range(2)]
    for shard in shards:
        shard.change(omit=omitted, at_step=3)
    came = _flat(islice(shards[0], 5)) + _flat(islice(shards[1], 4))
    whole = iter(_loader("plain", ("omit", omitted)))
    whole.set_states([shard.get_state() for shard in shards])
    came += _flat(whole)
    early = {*_flat(islice(iter(_loader("plain")), 6))}
    for key in range(RECORDS):
        assert came.count(key) == (2 if key not in omitted else int(key in early))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("worker_count", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shards", [1, 2])
def test_batches_may_have_more_tokens_from_the_next_window_on(shards, worker_count):
    """Each record comes once an epoch, a state of a later step is one of a program with the new
    size, on other shards too.
    """
    runs = [
        iter(_budget_loader("windows", 16, (shard, shards), worker_count))
        for shard in range(shards)
    ]
    batches = []
    for run in runs:
        run.change(max_tokens=64, at_step=3)
        batches += islice(run, 9)
    sizes = [batch["tokens"].size for batch in batches]
    assert sizes[:3] == [16] * 3
    assert sizes[-1] == 64
    whole = iter(_budget_loader("windows", 64))
    whole.set_states([run.get_state() for run in runs])
    batches += whole
    came = np.concatenate([batch["tokens"][:, 0][batch["lengths"] > 0] for batch in batches])
    assert np.bincount(came).tolist() == [0] + [2] * RECORDS


def test_a_run_whose_tokens_changed_may_go_back_to_its_beginning():
    """The state of the beginning has nothing of the former plan: all windows have the
    new tokens.
    """
    run = iter(_budget_loader("windows", 16))
    first = run.get_state()
    run.change(max_tokens=64, at_step=3)
    _lists(islice(run, 12))
    run.set_state(first, strict=False)
    assert _lists(run) == _lists(iter(_budget_loader("windows", 64)))


def _few_planned(max_tokens, shard, shards):
    """Three records, of which each makes a batch of its own on one of the shards."""
    return iter(
        DataLoader(
            data_source=[np.full(number, number) for number in (1, 2, 3)],
            sampler=IndexSampler(3, shuffle=True, num_epochs=3, seed=3),
            operations=[BudgetBatch(max_tokens, pad_to=(2, 4), lengths=[1, 2, 3], seed=1)],
            shard_options=ShardOptions(shard, shards),
        )
    )


def test_shards_with_planned_batches_that_others_left_give_the_same_answer_to_a_change():
    """All have equally many batches, so none of them is at its end before the others."""
    former = [_few_planned(4, shard, 2) for shard in range(2)]
    batches = [batch for run in former for batch in islice(run, 3)]
    left = [run.get_state() for run in former]
    for shard in range(3):
        run, changed = _few_planned(4, shard, 3), _few_planned(12, shard, 3)
        run.set_states(left)
        changed.set_states([run.get_state()], strict=False, equal_steps=True)
        run.change(max_tokens=12)
        rest = [*run]
        assert _lists(changed) == _lists(rest)
        batches += rest
    came = np.concatenate([batch["tokens"][:, 0][batch["lengths"] > 0] for batch in batches])
    assert np.bincount(came).tolist() == [0, 3, 3, 3]


def test_tokens_may_change_at_the_step_after_those_that_the_run_leaves_out():
    """Refused where such steps are still to come; not where they have just ended."""
    plain = iter(_budget_loader("windows", 16))
    left_out = iter(_budget_loader("windows", 16).skip([(1, 3)]))
    for step in (1, 2, 3):
        next(plain)
        left_out.set_state(plain.get_state())
        now = iter(_budget_loader("windows", 64))
        if step < 3:
            with pytest.raises(CheckpointError, match="are still to come"):
                now.set_state(left_out.get_state(), strict=False)
    now.set_state(left_out.get_state(), strict=False)
    assert now.step == 3


@pytest.mark.parametrize("steps", [(2, 5), (5, 2), (9, 10)])
@pytest.mark.parametrize("kind", ["plain", "mix", "weights"])
def test_shards_on_both_sides_of_a_change_of_the_batch_size_go_together(kind, steps):
    """The order is the same before and after: some shards have not yet come to the step, or ended
    before.
    """
    shards = [iter(_loader(kind, shard=(shard, 2))) for shard in range(2)]
    for shard in shards:
        shard.change(batch_size=3, at_step=3)
    came = [key for shard, count in zip(shards, steps) for key in _flat(islice(shard, count))]
    states = [shard.get_state() for shard in shards]
    for count in (1, 2, 3):
        resumed = [iter(_loader(kind, shard=(shard, count))) for shard in range(count)]
        for each in resumed:
            each.set_states(states)
        assert sorted(came + [key for each in resumed for key in _flat(each)]) == sorted(
            _flat(iter(_loader(kind)))
        )


def test_shards_on_both_sides_of_a_change_of_the_batch_size_with_skipped_steps():
    """A step contains other records in each shard."""
    shards = [iter(_loader("plain", shard=(shard, 2)).skip([(6, 8)])) for shard in range(2)]
    for shard, count in zip(shards, (2, 5)):
        shard.change(batch_size=3, at_step=3)
        _flat(islice(shard, count))
    whole = iter(_loader("plain"))
    with pytest.raises(CheckpointError, match="a step contains other records in each shard"):
        whole.set_states([shard.get_state() for shard in shards])


def test_a_change_where_some_shards_have_ended_is_refused_on_all():
    """Otherwise some shards would change, and others not: those at their end do not know where the
    others are.
    """
    for kind, change, records in (
        ("mix", {"weights": {"a": 1, "b": 2}}, 60),
        ("plain", {"omit": [3]}, 120),
    ):
        for batch in range(1, 6):
            shards = [iter(_loader(kind, ("batch_size", batch), (shard, 7))) for shard in range(7)]
            steps = records // 7 // batch
            for shard in shards:
                _flat(islice(shard, steps))
            answers = {str(_answer(shard, **change)) for shard in shards}
            whole = records // 7 % batch  # records of the next step that all shards have
            expected = (
                "None"
                if whole
                else (
                    f"at_step={steps} is after the end of the stream on some shards. Pass a "
                    "smaller step."
                )
            )
            assert answers == {expected}


def _answer(iterator, **change):
    try:
        return iterator.change(**change)
    except ValueError as error:
        return error


def test_the_batch_size_may_change_at_a_step_that_other_shards_do_not_have():
    """Each shard changes it for itself, as the order of the records stays as it is."""
    shards = [
        iter(headrace.load(range(5), batch_size=1, num_epochs=1, shard_options=ShardOptions(s, 2)))
        for s in range(2)
    ]
    for shard in shards:
        list(islice(shard, 2))
        shard.change(batch_size=2)
    assert [_flat(shard) for shard in shards] == [[4], []]


def test_a_change_in_a_run_of_a_chain():
    """Chains give the same iterator."""
    stream = MapDataset.source(range(20)).shuffle(seed=1).batch(4)
    run = iter(stream.to_iter_dataset())
    first = _flat(islice(run, 2))
    run.change(batch_size=3, at_step=3)
    assert [len(batch) for batch in run] == [4, 3, 3, 2]
    assert len(first) == 8


def test_a_state_set_later_has_no_waiting_changes():
    """`set_state` drops the changes whose steps have not come."""
    run = iter(_loader("plain"))
    state = run.get_state()
    run.change(batch_size=2, at_step=3)
    run.set_state(state)
    assert [len(next(run)) for _ in range(5)] == [4] * 5


def test_statistics_and_skipped_records_go_on_after_a_change():
    """They count since the start of the run."""
    run = iter(_loader("plain"))
    _lists(islice(run, 3))
    run.change(batch_size=2)
    next(run)
    assert run.stats().steps == 4
    assert run.step == 4


@pytest.mark.slow
def test_a_change_of_a_step_after_the_end_has_no_effect():
    """Also on shards of unequal lengths."""
    lengths = []
    for shard in range(7):
        run = iter(_loader("plain", shard=(shard, 7)))
        steps = len(_lists(iter(_loader("plain", shard=(shard, 7)))))
        run.change(omit=[3], at_step=steps)
        lengths.append(len(_flat(run)))
    assert sum(lengths) == 2 * RECORDS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "by_feeder"), chosen(product(["plain", "weights"], [False, True]), ("weights", True))
)
def test_a_coming_change_of_a_step_that_some_shards_do_not_have_has_no_effect_on_any(
    kind, by_feeder
):
    """The other shards have at most one record more. They deliver it as if there had
    been no call.
    """
    change = {"omit": [3]} if kind == "plain" else {"weights": AFTER}
    for batch in range(1, 6):
        steps = 2 * RECORDS // 7 // batch
        for shard in (0, 1, 6):  # the first one is longer
            loader = _loader(kind, ("batch_size", batch), (shard, 7))
            if by_feeder:
                loader = loader.to_device(jax.devices("cpu")[0], host_buffer=1, device_buffer=1)
            for step in (steps + (2 * RECORDS // 7 % batch > 0), steps + 1, steps + 2):
                with iter(loader) as run:
                    run.change(**change, at_step=step)
                    assert _flat(run) == _flat(iter(loader))


def _refusal(call, kind):
    with pytest.raises(kind) as caught:
        call()
    assert len(str(caught.value)) < 500
    return str(caught.value)


def test_changes_that_are_not_possible_are_refused(tmp_path):
    """At the call, and the run continues as if there had been none."""
    run = iter(_loader("plain"))
    next(run)
    assert "one change a call, but was given no argument" in _refusal(run.change, TypeError)
    assert "given omit and batch_size" in _refusal(
        lambda: run.change(omit=[1], batch_size=2), TypeError
    )
    assert "at_step=0 is too early: the next step is 1" in _refusal(
        lambda: run.change(omit=[1], at_step=0), ValueError
    )
    assert "has no weights" in _refusal(lambda: run.change(weights=AFTER), TypeError)
    for step in (None, 3):  # not only at the step
        assert "record key 60 is out of range" in _refusal(
            lambda step=step: run.change(omit=[60], at_step=step), headrace.errors.RecordKeyError
        )
        assert "records of the source are omitted" in _refusal(
            lambda step=step: run.change(omit=range(RECORDS), at_step=step), EmptyStreamError
        )
        assert "batch_size=0" in _refusal(
            lambda step=step: run.change(batch_size=0, at_step=step), ValueError
        )
    assert "needs a BudgetBatch" in _refusal(lambda: run.change(max_tokens=64), TypeError)
    planned = _budget_loader("planned", 16)
    assert "more than max_tokens=7" in _refusal(
        lambda: iter(planned).change(max_tokens=7), ValueError
    )
    assert "loader.epochs()" in _refusal(
        lambda: iter(next(planned.epochs())).change(max_tokens=64), TypeError
    )
    assert _flat(run) == _flat(iter(_loader("plain")))[4:]
    weighted = iter(_loader("weights"))
    assert "60 records" in _refusal(
        lambda: weighted.change(weights=np.ones(RECORDS - 1)), ValueError
    )
    assert "cannot be used with" in _refusal(lambda: weighted.change(omit=[1]), ValueError)
    for loader, what in (
        (_loader("filter", shard=(0, 2)), "on several shards needs a pipeline in which each step"),
        (next(iter(_loader("plain").epochs())), "does not work for loader.epochs()"),
    ):
        assert what in _refusal(lambda loader=loader: iter(loader).change(omit=[1]), TypeError)
    streams = headrace.IterDataset.zip([MapDataset.source(range(9)).to_iter_dataset()] * 2)
    assert "does not work for joined streams" in _refusal(
        lambda: iter(streams).change(omit=[1]), TypeError
    )


@pytest.mark.parametrize("pack", [[], [Pack(8)]], ids=["records", "packed"])
@pytest.mark.parametrize("shards", [1, 2])
def test_an_error_says_that_balanced_records_cannot_be_omitted_whatever_the_keys(pack, shards):
    """Keys of documents may be larger than the number of rows that are packed from them."""
    documents = [np.arange(4)] * 40
    loader = headrace.load(
        documents,
        num_epochs=1,
        transformations=pack,
        batch_size=2,
        balance=True,
        lengths=[4] * 40,
        shard_options=ShardOptions(0, shards),
    )
    for key in (3, 30, 50):
        assert "balance= cannot be combined" in _refusal(
            lambda key=key: iter(loader).change(omit=[key]), ValueError
        )


def test_records_are_omitted_from_a_source_that_grows_in_the_run(tmp_path):
    """On one shard, before and after records were appended."""
    path = tmp_path / "sizes.json"
    append(path, 20)
    source = GrowingKeys(path)
    run = iter(
        DataLoader(
            data_source=source,
            sampler=IndexSampler(20, num_epochs=3),
            operations=[Batch(4)],
            growth="epoch",
        )
    )
    first = _flat(islice(run, 2))
    run.change(omit=[9, 10])
    append(path, 30)
    rest = _flat(run)
    assert first == list(range(8))
    assert rest[:10] == [8, *range(11, 20)]
    assert not {9, 10} & {*rest}
    assert rest.count(25) == 2
