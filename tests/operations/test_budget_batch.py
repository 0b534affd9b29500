"""BudgetBatch: records of unequal length in batches of few shapes, each within a budget
of tokens.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from contextlib import suppress
from itertools import combinations, islice, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import sealed
from support.pipelines import tries

import headrace
from headrace import (
    BalancedSampler,
    BudgetBatch,
    DataLoader,
    Filter,
    MapDataset,
    RandomMapTransform,
    RecordMetadata,
    SequentialSampler,
    ShardOptions,
    WeightedSampler,
    load,
)
from headrace.errors import BatchError, CheckpointError, LengthsError, NoElementError, ShardingError
from headrace.operations.budget.shapes import BatchShapes, chosen_lengths
from headrace.operations.budget.windows import BudgetWindows
from headrace.planned.budget.order import BudgetOrder
from headrace.samplers.protocol import ENDLESS

LENGTHS = np.clip(np.random.default_rng(0).lognormal(3, 1, 60).astype(int), 1, 64)
RECORDS = [
    {"tokens": np.full(length, number + 1), "id": number} for number, length in enumerate(LENGTHS)
]
SETTINGS = {"max_tokens": 128, "pad_to": 3, "lengths": LENGTHS}


def batches_of(records=RECORDS, shard=None, num_epochs=1, operations=(), **more):
    """A loader of batches by budget."""
    settings = {**SETTINGS, **{name: more.pop(name) for name in [*more] if name in BUDGET}}
    transformations = [*operations, BudgetBatch(**settings)]
    shard = None if shard is None else ShardOptions(*shard)
    return load(
        records,
        transformations=transformations,
        shuffle=True,
        seed=1,
        num_epochs=num_epochs,
        shard_options=shard,
        **more,
    )


BUDGET = (
    "max_tokens",
    "pad_to",
    "max_records",
    "multiple_of",
    "window",
    "lengths",
    "too_long",
    "pad_value",
    "seed",
)


def ids(batches):
    """How often each record is there."""
    return Counter(
        number
        for batch in batches
        for number, there in zip(batch["id"].tolist(), batch["lengths"])
        if there
    )


def check_batches(batches, max_tokens=128, shapes=3):
    """Each record whole in its row, all else padding; within the budget; few shapes."""
    for batch in batches:
        assert batch["tokens"].shape == batch["mask"].shape
        assert batch["mask"].size <= max_tokens
        np.testing.assert_array_equal(batch["mask"].sum(axis=1), batch["lengths"])
        for row, number, length in zip(
            batch["tokens"], batch["id"].tolist(), batch["lengths"].tolist()
        ):
            assert length in (0, LENGTHS[number])
            np.testing.assert_array_equal(row, [number + 1] * length + [0] * (len(row) - length))
    assert len({batch["mask"].shape for batch in batches}) <= shapes


LONG = pytest.mark.long


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "window", [None, 7, pytest.param(1, marks=LONG), pytest.param(25, marks=LONG)]
)
@pytest.mark.parametrize("shards", [1, 2, 7, pytest.param(64, marks=LONG)])
def test_each_record_is_once_in_an_epoch_and_shards_have_equal_shapes(window, shards):
    """On any number of shards, in windows of any size: equally many batches, and at each step one
    shape.
    """
    loaders = [
        batches_of(shard=(shard, shards), window=window, num_epochs=2) for shard in range(shards)
    ]
    found = [list(loader) for loader in loaders]
    assert {len(loader) for loader in loaders} == {len(each) for each in found}
    for step in zip(*found):
        assert len({batch["mask"].shape for batch in step}) == 1
        check_batches(step)
    epochs = len(found[0]) // 2
    for part in (slice(epochs), slice(epochs, None)):
        assert ids(batch for each in found for batch in each[part]) == Counter(range(60))
    if epochs > 5 and window != 1:  # with windows of one record there is nothing to be drawn
        both = [pair for each in found for pair in zip(each, each[epochs:])]
        assert any(one["id"].tolist() != two["id"].tolist() for one, two in both)


@tries(60)
@given(
    st.lists(st.integers(0, 12), max_size=40),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(12, 40),
)
def test_no_fewer_steps_would_do(lengths, shards, count, budget):
    """By trying all numbers of steps of each shape: every record must find room in a step that is
    long enough.
    """
    shapes = BatchShapes.of([12, 7, 4, 2][:count][::-1], budget, None, 1)
    windows = BudgetWindows(np.array(lengths, np.int64), shapes, max(len(lengths), 1))
    rows = [each * shards for each in shapes.rows]
    least = [-(-len(lengths) // each) for each in rows]
    needed = [sum(length > shorter for length in lengths) for shorter in (-1, *shapes.lengths[:-1])]

    def holds(steps):
        room = [
            sum(number * each for number, each in list(zip(steps, rows))[at:])
            for at in range(count)
        ]
        return all(there >= wanted for there, wanted in zip(room, needed))

    best = min(
        sum(steps) for steps in product(*(range(most + 1) for most in least)) if holds(steps)
    )
    assert windows.steps_on(shards).before[-1] == (best if lengths else 0)


@tries(60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.integers(1, 4))
def test_padded_lengths_are_chosen_so_that_padding_is_least(lengths, count):
    """By trying all choices."""

    def cost(chosen):
        return sum(min(one for one in chosen if one >= length) for length in lengths)

    chosen = chosen_lengths(np.array(lengths), count)
    present = sorted({max(length, 1) for length in lengths})
    others = [
        (*some, present[-1]) for size in range(count) for some in combinations(present[:-1], size)
    ]
    assert len(chosen) <= count
    assert chosen[-1] == present[-1]
    assert list(chosen) == sorted(chosen)
    assert cost(chosen) == min(map(cost, others))


def test_many_lengths_are_chosen_from_soon_and_well():
    """A hundred thousand different lengths: no choice takes seconds, and none is far
    from the best.
    """
    lengths = np.arange(1, 100_001)
    chosen = np.array(chosen_lengths(lengths, 4))
    padded = chosen[np.searchsorted(chosen, lengths)].sum()
    assert len(chosen) == 4
    assert chosen[-1] == 100_000
    assert padded <= 1.01 * sum(part * 25_000 for part in (25_000, 50_000, 75_000, 100_000))


@pytest.mark.slow
def test_the_padding_is_the_least_that_so_few_lengths_allow():
    """Of 100,000 records of lognormal lengths; the last steps of an epoch add a little on many
    shards.
    """
    lengths = np.clip(np.round(np.random.default_rng(0).lognormal(5, 1, 100_000)), 16, 1024).astype(
        np.int64
    )
    for count, least, most in ((4, 0.302, 0.31), (8, 0.164, 0.18), (32, 0.04, 0.06)):
        windows = BudgetBatch(16_384, pad_to=count).windows(lengths)
        chosen = np.array(windows.shapes.lengths)
        bound = 1 - lengths.sum() / chosen[windows.shapes.numbers(lengths)].sum()
        size = np.array(windows.shapes.lengths) * windows.shapes.rows
        steps = np.diff(windows.steps_on(1).steps[0], prepend=0)[::-1]
        padding = 1 - lengths.sum() / (steps * size).sum()
        assert least - 0.003 < bound <= padding < most


@pytest.mark.parametrize("shards", [1, 3])
def test_where_records_are_is_known_before_anything_is_read(shards):
    """`len`, `records_at` and `find` agree with what comes; and `last_records` with both."""
    for shard in range(shards):
        loader = batches_of(shard=(shard, shards), num_epochs=2, window=50)
        iterator = iter(loader)
        for step in range(len(loader)):
            batch = next(iterator)
            there = batch["id"][batch["lengths"] > 0].tolist()
            assert loader.records_at(step).tolist() == iterator.last_records().tolist() == there
            for row, number in enumerate(there):
                epoch = step // (len(loader) // 2)
                assert loader.find(number, epoch) == (step, row)
        assert next(iterator, None) is None
    with pytest.raises(LookupError, match="epoch 2"):
        loader.find(1, 2)


def test_a_far_step_is_as_near_as_the_first():
    """No batch before it is looked at."""
    loader = batches_of(num_epochs=None)
    assert len(loader.records_at(10**9)) > 0
    state = iter(loader)
    next(state)
    moved = (
        state.get_state()
        .replace(b'"cursor":[[1]', b'"cursor":[[1000000000]')
        .replace(b'"step":1', b'"step":1000000000')
    )
    again = iter(loader)
    again.set_state(sealed(json.loads(moved)))
    batch = next(again)
    assert batch["id"][batch["lengths"] > 0].tolist() == loader.records_at(10**9).tolist()


def run(history, ragged=False, num_epochs=2, **more):
    """What the shards of runs one after the other give; each goes on from the states of the one
    before.
    """
    found, states = [], None
    for shards, steps in history:
        iterators = [
            iter(batches_of(shard=(shard, shards), num_epochs=num_epochs, **more))
            for shard in range(shards)
        ]
        for iterator in iterators if states else ():
            iterator.set_states(states)
        counts = [None if steps is None else steps + ragged * shard for shard in range(shards)]
        rows = [list(islice(iterator, count)) for iterator, count in zip(iterators, counts)]
        if len({*counts}) == 1:
            assert len({len(each) for each in rows}) == 1
            assert all(len({batch["mask"].shape for batch in step}) == 1 for step in zip(*rows))
        states = [iterator.get_state() for iterator in iterators]
        found += [batch for each in rows for batch in each]
    return found, states


def test_the_history_of_a_window_ends_with_it():
    """A state does not grow with the number of runs."""
    order = BudgetOrder(BudgetBatch(128, pad_to=3).windows(LENGTHS), None, 1, {})
    layers = ()
    for number in range(9):
        shards = 2 + number % 3
        layers = order.after(layers, ShardOptions(0, shards)).layers_after([30] * shards)
        assert len(layers) <= 3


def test_shards_that_stopped_too_far_apart_are_not_called_damaged():
    """The message says so, and what states to pass; a step after the end is damage."""
    order = BudgetOrder(BudgetBatch(128, pad_to=3).windows(LENGTHS), None, 1, {})
    layers = order.after((), ShardOptions(0, 2)).layers_after([20_000, 3])
    with pytest.raises(
        CheckpointError,
        match=r"at steps 3 to 20000, but they may be at most 16384 steps apart\. Pass states",
    ):
        order.after(layers, ShardOptions(0, 1))
    with pytest.raises(CheckpointError, match="the state is damaged"):
        dataclasses.replace(order, epochs=1).after(((0, 0), (900, 3)), ShardOptions(0, 1))


@tries(500)
@given(
    st.lists(
        st.lists(st.sampled_from([0, 1, 2, 30, 10**6, 10**12, 2**62]), max_size=3), max_size=4
    ),
    st.booleans(),
)
def test_a_damaged_history_is_refused(layers, endless):
    """By an error of checkpoints, soon; or it happens to be one that could be."""
    order = BudgetOrder(
        BudgetBatch(128, pad_to=3, window=25).windows(LENGTHS), None if endless else 2, 1, {}
    )
    with suppress(CheckpointError):
        assert len(order.after(tuple(map(tuple, layers)), ShardOptions(0, 3))) >= 0


@pytest.mark.slow
def test_epochs_are_loops_of_their_own():
    """Each has all records, on shards of equal length."""
    for shard in range(2):
        loops = [list(epoch) for epoch in batches_of(shard=(shard, 2), num_epochs=None).epochs(3)]
        whole = list(islice(batches_of(shard=(shard, 2), num_epochs=None), sum(map(len, loops))))
        np.testing.assert_equal([batch for loop in loops for batch in loop], whole)
    noisy = load(
        RECORDS,
        transformations=[
            BudgetBatch(**SETTINGS),
            RandomMapTransform(lambda batch, rng: rng.integers(1 << 60)),
        ],
        shuffle=True,
        seed=1,
    )
    one, two = (list(epoch) for epoch in noisy.epochs(2))
    assert len({*one, *two}) == len(one) + len(two)


# ---- too long, lies, none


def test_a_record_that_is_too_long_is_refused_dropped_or_cut():
    """Over all lengths to pad to, whether these are given or chosen."""
    too_long = Counter(np.flatnonzero(LENGTHS > 32).tolist())
    for pad_to in ((8, 32), 2):
        budget = 128 if pad_to != 2 else 32
        with pytest.raises(LengthsError, match="too_long="):
            batches_of(pad_to=pad_to, max_tokens=budget)
        kept = list(batches_of(pad_to=pad_to, max_tokens=budget, too_long="drop"))
        assert ids(kept) == Counter(range(60)) - too_long
        cut = list(batches_of(pad_to=pad_to, max_tokens=budget, too_long="truncate"))
        assert ids(cut) == Counter(range(60))
        assert max(batch["lengths"].max() for batch in cut) == 32
    with pytest.raises(
        LengthsError,
        match="over 32, the largest length of batches of max_tokens=128 and multiple_of=4",
    ):
        batches_of(multiple_of=4)
    with pytest.raises(
        LengthsError, match=r"over 8, the largest padded length\..* pad_to=\(8, \d+\)"
    ):
        batches_of(pad_to=(8,), max_tokens=128)


def test_the_limit_is_that_of_the_tokens_if_no_record_fits():
    """It is not the error of the shapes, which would have no lengths to be chosen from."""
    operation = headrace.BudgetBatch(16, lengths=[50])
    with pytest.raises(
        LengthsError,
        match=r"record 0, counted from 0 among 1 records, is 50 long, over 16, the largest",
    ):
        list(headrace.load([np.ones(50, np.int32)], transformations=[operation], num_epochs=1))


def test_a_record_that_is_longer_than_its_length_says_is_named():
    """Nothing is cut in silence."""
    lengths = LENGTHS.copy()
    lengths[17] -= 1
    with pytest.raises(
        LengthsError,
        match=rf"record 17 is {LENGTHS[17]} long, but its length was given as {lengths[17]}",
    ):
        list(batches_of(lengths=lengths))


def test_nothing_one_and_all_too_long():
    """The ends of what there may be."""
    one = list(batches_of([RECORDS[3]], lengths=LENGTHS[3:4], pad_to=(64,)))
    assert ids(one) == Counter([3])
    shards = [
        list(batches_of([RECORDS[3]], lengths=LENGTHS[3:4], pad_to=(64,), shard=(shard, 3)))
        for shard in range(3)
    ]
    assert [len(each) for each in shards] == [1, 1, 1]
    assert ids(batch for each in shards for batch in each) == Counter([3])
    assert sum(int(each[0]["mask"].sum()) for each in shards) == LENGTHS[3]
    none = MapDataset.source(RECORDS)[:0].budget_batch(128, lengths=[])
    assert (len(none), list(none.to_iter_dataset())) == (0, [])
    gone = batches_of(lengths=np.full(60, 1000), too_long="drop", pad_to=(8,))
    assert (len(gone), list(gone)) == (0, [])
    stream = MapDataset.source(RECORDS).to_iter_dataset()
    assert list(stream.filter(lambda record: False).budget_batch(128, pad_to=(64,))) == []


@pytest.mark.parametrize("records", [[1, 2], ["ab", "c"], [{"id": 1}], [{"tokens": np.zeros(3)}]])
def test_records_without_tokens_are_told(records):
    """Each would be 0 long, and its mask empty."""
    operation = headrace.BudgetBatch(
        16, pad_to=(2, 4), meta_features=["tokens"] if isinstance(records[0], dict) else []
    )
    with pytest.raises(BatchError, match="has no array of tokens"):
        list(headrace.load(records, transformations=[operation], num_epochs=1))


def test_planned_batches_are_not_balanced():
    """Shards have as much to do already: `balance=` is an error, of loaders and chains, that names
    both.
    """
    lengths = [3, 1, 4, 1, 5, 9, 2, 6]
    records = [np.zeros(length) for length in lengths]
    operation = headrace.BudgetBatch(18, pad_to=(3, 9), lengths=lengths)
    planned = headrace.MapDataset.source(records).budget_batch(18, pad_to=(3, 9))
    for balance in (True, headrace.attention(0, 1), headrace.Balance(lengths, global_batch=4)):
        with pytest.raises(ValueError, match="balance= has no effect with BudgetBatch"):
            headrace.load(records, transformations=[operation], num_epochs=1, balance=balance)
        for dataset in (planned, planned.repeat(2), planned.map(len)):
            with pytest.raises(ValueError, match="balance= has no effect with BudgetBatch"):
                dataset.to_iter_dataset(balance=balance)


def test_arguments_that_cannot_be_are_refused():
    """With what to pass instead."""
    with pytest.raises(ValueError, match=r"256 tokens.*, more than max_tokens=128"):
        BudgetBatch(128, pad_to=(64, 256))
    for most in (128, 32):  # tokens of several batches, and of one
        with pytest.raises(ValueError, match="is more than max_records=2"):
            BudgetBatch(most, pad_to=(8,), max_records=2, multiple_of=4)
    with pytest.raises(ValueError, match=r"\(512,\)"):
        BudgetBatch(1024, pad_to=512)
    with pytest.raises(ValueError, match="is empty"):
        BudgetBatch(128, pad_to=())
    with pytest.raises(TypeError, match="meta_features"):
        BudgetBatch(128, meta_features="id")
    with pytest.raises(TypeError, match="pad_value"):
        BudgetBatch(128, pad_value="x")
    with pytest.raises(ValueError, match="Leave balance= out"):
        batches_of(balance=headrace.attention(1, 1))
    with pytest.raises(LengthsError, match="changes the number"):
        batches_of(operations=[Filter(lambda record: True)])


def test_rows_are_a_multiple_of_what_is_asked_for():
    """So that they can be put on devices; and no more than `max_records`."""
    found = list(batches_of(multiple_of=2, max_records=5))
    assert {len(batch["mask"]) for batch in found} == {2, 4}
    assert ids(found) == Counter(range(60))


# ---- arrays


def test_records_may_have_several_arrays_text_and_features():
    """Each array is padded by its own length, with its own value; numbers, text and features are
    stacked.
    """
    records = [
        {
            "x": np.arange(length),
            "y": np.ones((length - 1, 2), np.float32),
            "name": f"n{length}",
            "box": np.zeros(4),
            "n": length,
            "words": np.array([f"a{length}", "b"]),
        }
        for length in (3, 2)
    ]
    dataset = MapDataset.source(records).budget_batch(
        16, pad_to=(4,), lengths=[3, 2], pad_value={"x": -1}, meta_features=["box", "words"]
    )
    (batch,) = dataset
    order = [batch["n"].tolist().index(n) for n in (3, 2)]
    assert batch["x"][order].tolist() == [[0, 1, 2, -1], [0, 1, -1, -1]]
    assert [batch[key].shape for key in ("x", "y", "box", "mask")] == [
        (4, 4),
        (4, 4, 2),
        (4, 4),
        (4, 4),
    ]
    assert (batch["y"].dtype, batch["y"].sum()) == (np.float32, 6)
    assert [batch["name"][row] for row in order] == ["n3", "n2"]
    assert batch["words"][order].tolist() == [["a3", "b"], ["a2", "b"]]
    assert sorted(batch["lengths"].tolist()) == [0, 0, 2, 3]
    (bare,) = MapDataset.source([np.arange(3)]).budget_batch(4, pad_to=(4,), lengths=[3])
    assert bare["tokens"].tolist() == [[0, 1, 2, 0]]


def test_records_that_cannot_be_in_one_batch_are_told():
    """Of another structure, with lists, or with a key that a batch has."""
    for records, words in (
        ([{"x": np.ones(2)}, {"y": np.ones(2)}], "structure before BudgetBatch"),
        ([{"x": [1, 2]}, {"x": [1, 2]}], "is a list"),
        ([{"mask": np.ones(2)}, {"mask": np.ones(2)}], r"adds\. Rename the"),
        ([{"x": np.ones((2, 3))}, {"x": np.ones((2, 4))}], "Map all records to one shape"),
    ):
        with pytest.raises(BatchError, match=words):
            list(MapDataset.source(records).budget_batch(16, pad_to=(4,), lengths=[2, 2]))


def test_a_failing_map_before_the_batches_is_named():
    """With the record."""

    def fail(record):
        if record["id"] == 5:
            raise RuntimeError("no")
        return record

    with pytest.raises(RuntimeError) as error:
        list(batches_of(operations=[fail]))
    assert any("record key 5" in note for note in error.value.__notes__)


# ---- streams


@pytest.mark.slow
@pytest.mark.parametrize("window", [9, 60])
def test_a_stream_of_unknown_lengths_is_batched_in_windows(window):
    """After a filter; on any workers, from any state."""
    stream = (
        MapDataset.source(RECORDS)
        .seed(1)
        .shuffle()
        .to_iter_dataset()
        .filter(lambda record: record["id"] % 3)
    )
    batched = stream.budget_batch(128, pad_to=(8, 20, 64), window=window)
    found = list(batched)
    check_batches(found)
    assert ids(found) == Counter(number for number in range(60) if number % 3)
    np.testing.assert_equal(list(batched.mp_prefetch(2)), found)
    for step in range(0, len(found), 3):
        iterator = iter(batched)
        list(islice(iterator, step))
        again = iter(batched)
        again.set_state(iterator.get_state())
        np.testing.assert_equal(list(again), found[step:])


def test_a_stream_is_refused_on_several_shards():
    """With what to do instead; and lengths to pad to must be given."""
    stream = MapDataset.source(RECORDS).to_iter_dataset(shard_options=ShardOptions(0, 2))
    with pytest.raises(ShardingError, match="lengths="):
        list(stream.budget_batch(128, pad_to=(64,)))
    with pytest.raises(ShardingError, match="lengths="):
        batches_of(shard=(1, 2), lengths=None, operations=[lambda record: record], pad_to=(64,))
    with pytest.raises(LengthsError, match="pad_to="):
        list(MapDataset.source(RECORDS).to_iter_dataset().budget_batch(128))


def test_the_remedy_for_a_filter_on_several_shards_gives_batches_of_one_shape_at_each_step():
    """The error names `omit=` and `lengths=`. It does not advise a filter of batches, after which
    shapes may differ.
    """
    options = {
        "lengths": None,
        "pad_to": (32, 64),
        "operations": [Filter(lambda record: record["id"] % 3)],
    }
    with pytest.raises(ShardingError, match="name records in omit= in place of a Filter") as caught:
        batches_of(shard=(0, 3), **options)
    assert "after BudgetBatch" not in str(caught.value)
    assert len(str(caught.value)) < 500
    gone = [number for number in range(len(RECORDS)) if number % 3 == 0]
    chain = (
        MapDataset.source(RECORDS)
        .shuffle(seed=1)
        .omit(gone)
        .budget_batch(**{**SETTINGS, "lengths": "tokens"})
    )
    for program in (
        lambda shard: batches_of(shard=(shard, 3), omit=gone),
        lambda shard: chain.to_iter_dataset(shard_options=ShardOptions(shard, 3)),
    ):
        shards = [list(program(shard)) for shard in range(3)]
        for step in zip(*shards, strict=True):
            assert len({batch["tokens"].shape for batch in step}) == 1
        came = [number for shard in shards for batch in shard for number in ids([batch])]
        assert sorted(came) == [number for number in range(len(RECORDS)) if number not in gone]


def test_a_stream_refuses_lengths():
    """They would have no effect, since its batches are made of windows."""
    stream = (
        MapDataset.source(RECORDS)
        .to_iter_dataset()
        .budget_batch(128, pad_to=(64,), lengths=[1] * len(RECORDS))
    )
    with pytest.raises(LengthsError, match=r"no effect in a stream.*before to_iter_dataset"):
        list(stream)


def test_a_trace_tells_the_records_of_a_batch():
    """Planned, and of a stream."""
    planned = batches_of()
    stream = MapDataset.source(RECORDS).to_iter_dataset().filter(lambda record: record["id"] % 2)
    for pipeline in (planned, stream.budget_batch(128, pad_to=(8, 64), window=30)):
        batch = list(islice(pipeline, 3))[2]
        there = batch["id"][batch["lengths"] > 0].tolist()
        traced = headrace.trace(pipeline, 2).records
        assert [(record.row, record.key) for record in traced] == list(enumerate(there))


# ---- datasets


@pytest.mark.parametrize("shards", [1, 3])
def test_a_dataset_of_batches_is_a_dataset(shards):
    """By index, as a stream, repeated; with the lengths that a source tells."""
    source = headrace.MemorySource([np.full(length, 1, np.int32) for length in LENGTHS])
    told = type(
        "Told",
        (),
        {
            "facts": headrace.SourceFacts(lengths=lambda: LENGTHS),
            "__len__": lambda _: 60,
            "__getitem__": lambda _, key: source[key],
        },
    )()
    batches = MapDataset.source(told).shuffle(1).budget_batch(128, pad_to=3)
    assert sum(int(batch["mask"].sum()) for batch in batches) == LENGTHS.sum()
    streams = [
        batches.repeat(2).to_iter_dataset(shard_options=ShardOptions(shard, shards))
        for shard in range(shards)
    ]
    found = [list(stream) for stream in streams]
    assert [len(stream) for stream in streams] == [len(each) for each in found]
    assert sum(int(batch["mask"].sum()) for each in found for batch in each) == 2 * LENGTHS.sum()
    assert all(len({batch["mask"].shape for batch in step}) == 1 for step in zip(*found))
    if shards == 1:
        np.testing.assert_equal(found[0], [batches[index] for index in range(2 * len(batches))])
    mapped = batches.map(lambda batch: batch["mask"].shape).shuffle(1)
    assert Counter(mapped) == Counter(batch["mask"].shape for batch in batches)
    with pytest.raises(LengthsError, match="lengths="):
        MapDataset.source(told).map(lambda record: record).budget_batch(128)


def test_a_state_belongs_to_its_lengths():
    """Others would make other batches."""
    iterator = iter(batches_of())
    next(iterator)
    with pytest.raises(CheckpointError, match="another pipeline"):
        iter(batches_of(lengths=LENGTHS + 1)).set_state(iterator.get_state())


def test_another_budget_between_two_epochs_is_taken():
    """Loops per epoch begin each epoch with the present plan."""
    epochs = batches_of(num_epochs=2).epochs()
    first = list(next(epochs))
    other = batches_of(num_epochs=2, max_tokens=256).epochs()
    other.set_state(epochs.get_state(), strict=False)
    assert ids(list(next(other))) == ids(first)


@pytest.mark.parametrize(("former", "present"), [(1, 3), (3, 2), (2, None), (None, 2)])
@pytest.mark.parametrize("shards", [1, 3])
def test_another_number_of_epochs_is_taken_as_of_other_orders(former, present, shards):
    """The plan of an epoch does not depend on it. The stream is the one of the new number; `strict`
    refuses it.
    """
    states, expected = [], []
    for shard in range(2):
        iterator = iter(batches_of(num_epochs=former, shard=(shard, 2)))
        expected += islice(iterator, 2)
        states.append(iterator.get_state())
    with pytest.raises(CheckpointError, match=f"epochs {former} → {present}"):
        iter(batches_of(num_epochs=present)).set_states(states)
    for shard in range(shards):
        iterator = iter(batches_of(num_epochs=present, shard=(shard, shards)))
        iterator.set_states(states, strict=False)
        expected += islice(iterator, None if present else 40)
    found = ids(expected)
    assert (
        found == Counter(dict.fromkeys(range(60), present))
        if present
        else set(found) == {*range(60)}
    )


def test_another_budget_begins_with_the_next_window():
    """The window that was begun keeps its batches; `strict` refuses it, and states of the changed
    run are its own.
    """
    plain, wide = (
        {"window": 20, "num_epochs": 2},
        {"window": 20, "num_epochs": 2, "max_tokens": 256},
    )
    iterator, expected = iter(batches_of(**plain)), list(batches_of(**plain))
    before = list(islice(iterator, 3))
    state = iterator.get_state()
    with pytest.raises(CheckpointError, match="another pipeline"):
        iter(batches_of(**wide)).set_state(state)
    changed = iter(batches_of(**wide))
    changed.set_state(state, strict=False)
    after = list(changed)
    first_window = next(step for step in range(1, 60) if len(ids(expected[:step])) == 20)
    assert ids(before + after[: first_window - 3]) == ids(expected[:first_window])
    assert ids(before + after) == Counter(dict.fromkeys(range(60), 2))
    assert {len(batch["mask"]) for batch in expected} == {2, 4, 7}
    assert {len(batch["mask"]) for batch in after[first_window - 3 :]} == {4, 8, 15}
    again = iter(batches_of(**wide))
    again.set_states([state], strict=False)
    for batch in after:
        resumed = iter(batches_of(**wide))
        resumed.set_state(again.get_state())
        np.testing.assert_equal(next(resumed), batch)
        np.testing.assert_equal(next(again), batch)


PLANS = [
    {"max_tokens": 128, "pad_to": 3},
    {"max_tokens": 256, "pad_to": 3},
    {"max_tokens": 64, "pad_to": (16, 64)},
]


@tries(80)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(PLANS),
            st.integers(1, 4),
            st.lists(st.integers(0, 9), min_size=4, max_size=4),
        ),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
    st.sampled_from([None, 7, 20]),
)
def test_any_history_of_plans_and_shards_gives_each_record_once(history, ragged, window):
    """Whatever plan, number of shards and steps; at each step all shards have one shape."""
    found, states = [], None
    for number, (plan, shards, steps) in enumerate([*history, (PLANS[0], 2, [1000] * 4)]):
        iterators = [
            iter(batches_of(**plan, window=window, num_epochs=2, shard=(shard, shards)))
            for shard in range(shards)
        ]
        for iterator in iterators if states else ():
            iterator.set_states(states, strict=False)
        shapes = {}
        for shard, iterator in enumerate(iterators):
            first = iterator.step
            for step, batch in enumerate(islice(iterator, steps[shard if ragged else 0]), first):
                assert shapes.setdefault(step, batch["mask"].shape) == batch["mask"].shape
                found.append(batch)
        states = [iterator.get_state() for iterator in iterators]
        assert max(map(len, states)) < 1500 + 60 * number
    assert Counter(ids(found)) == Counter(dict.fromkeys(range(60), 2))


def test_a_damaged_former_plan_is_refused():
    """By an error of checkpoints, or the state is a place in the stream."""
    iterator = iter(batches_of(window=20))
    next(iterator)
    changed = iter(batches_of(window=20, max_tokens=256))
    changed.set_state(iterator.get_state(), strict=False)
    state = json.loads(changed.get_state())
    last = state["identity"]["orders"][0]["shapes"]
    assert [[position, *values] for _, position, values in state["history"]["orders"]] == [
        [0, "shapes"],
        [1, "shapes"],
    ]
    assert state["history"]["orders"][1] == [0, 1, {"shapes": last}]
    for shapes in (3, [3], [[8]], [[8, 0]], [[9, 1], [8, 1]], [["x", 4]]):
        damaged = {
            **state,
            "history": {"orders": [[0, 0, {"shapes": shapes}], [0, 1, {"shapes": last}]]},
        }
        with pytest.raises(CheckpointError):
            iter(batches_of(window=20, max_tokens=256)).set_state(sealed(damaged))


def test_failures_are_not_left_out_where_shards_have_equal_numbers_of_batches():
    """A record that fails takes its batch with it: on one shard. On several, a map gives an empty
    record in its place.
    """

    def fails(record):
        if len(record) == 3:
            raise ValueError("bad")
        return record

    def empty(record):
        return record[: 0 if len(record) == 3 else None]

    records = [np.full(length, length, np.int32) for length in (3, 4, 1, 2, 4)]
    batches = BudgetBatch(8, pad_to=(2, 4), lengths=list(map(len, records)))

    def on(shards, operation, **more):
        options = ShardOptions(0, shards)
        return headrace.load(
            records,
            transformations=[operation, batches],
            num_epochs=1,
            shard_options=options,
            **more,
        )

    assert len(list(on(1, fails, on_error="skip"))) < len(list(on(1, empty)))
    with pytest.raises(ShardingError, match="its whole batch"):
        on(2, fails, on_error="skip")
    chain = headrace.MapDataset.source(records).budget_batch(8, pad_to=(2, 4))
    chain = chain.to_iter_dataset(shard_options=ShardOptions(0, 2))
    with pytest.raises(ShardingError, match="its whole batch"):
        next(iter(chain.with_options(on_error="skip")))
    assert len(list(on(2, empty))) == len(on(2, empty))


@pytest.mark.parametrize(
    "change", [lambda dataset: dataset, lambda dataset: dataset[2:].shuffle(seed=1).repeat(2)]
)
def test_a_chain_takes_the_lengths_of_a_field(change):
    """Of the source, as long as nothing but the order of its elements is changed."""
    records = [
        {"tokens": np.full(1 + number % 4, number, np.int32), "id": number} for number in range(11)
    ]
    dataset = change(headrace.MapDataset.source(records))
    named, measured = (
        dataset.budget_batch(8, pad_to=(2, 4), seed=3, lengths=lengths)
        for lengths in ("tokens", lambda record: len(record["tokens"]))
    )
    assert [batch["id"].tolist() for batch in named[:]] == [
        batch["id"].tolist() for batch in measured[:]
    ]
    with pytest.raises(LengthsError, match="a map or a join such as zip makes them"):
        dataset.map(lambda record: record).budget_batch(8, pad_to=(2, 4), lengths="tokens")


def test_batches_of_several_shapes_are_not_stacked():
    """A loader's batch_size after them is refused when the loader is made; one shape, and a batch
    of one, can be stacked.
    """
    records = [np.ones(length, np.int32) for length in (2, 7, 3, 2, 8, 1)]
    for known in (None, [2, 7, 3, 2, 8, 1]):
        batches = headrace.BudgetBatch(16, pad_to=(4, 8), lengths=known)
        for make in (
            lambda **more: headrace.load(records, num_epochs=1, **more),
            lambda transformations, batch_size: headrace.DataLoader(
                data_source=records,
                sampler=headrace.SequentialSampler(6),
                operations=[*transformations, headrace.Batch(batch_size)],
            ),
        ):
            with pytest.raises(
                ValueError,
                match=r"stack finished batches of 2 different shapes\. Leave batch_size= \(or",
            ):
                make(transformations=[batches], batch_size=2)
            assert len(list(make(transformations=[batches], batch_size=1))) == 2
    dataset = headrace.MapDataset.source(records)
    with pytest.raises(ValueError, match="stack finished batches of 2 different shapes"):
        dataset.budget_batch(16, pad_to=(4, 8)).batch(2)
    stream = dataset.to_iter_dataset().budget_batch(16, pad_to=(4, 8)).batch(2)
    with pytest.raises(ValueError, match="stack finished batches of 2 different shapes"):
        next(iter(stream))
    one_shape = headrace.load(
        records, num_epochs=1, transformations=[headrace.BudgetBatch(16, pad_to=(8,))], batch_size=2
    )
    assert next(iter(one_shape))["tokens"].shape == (2, 2, 8)


def drawing_loader(sampler, shard):
    """A shard of a loader that draws records."""
    shard_options, operations = ShardOptions(*shard), [BudgetBatch(**SETTINGS)]
    return DataLoader(
        data_source=RECORDS, sampler=sampler, operations=operations, shard_options=shard_options
    )


def drawn_batches(sampler, shard=(0, 1), states=None):
    """Its batches; from the states of all shards of another run on."""
    iterator = iter(drawing_loader(sampler, shard))
    if states is not None:
        iterator.set_states(states)
    return list(iterator)


@pytest.mark.parametrize(
    "sampler",
    [
        WeightedSampler(LENGTHS, num_epochs=3, seed=1),
        WeightedSampler(LENGTHS, 20, replacement=False, num_epochs=3, seed=1),
        BalancedSampler([*"aab" * 20], num_epochs=3, seed=1),
    ],
    ids=["replacement", "without", "balanced"],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_each_epoch_of_drawn_records_has_its_own_draws(sampler, shards):
    """The batches have what the sampler draws, and not the first epoch's draws again."""
    wanted = Counter(sampler.record_keys(np.arange(len(sampler))).tolist())
    assert wanted != Counter(
        {key: 3 * n for key, n in Counter(sampler.record_keys(np.arange(20)).tolist()).items()}
    )
    streams = [drawn_batches(sampler, (shard, shards)) for shard in range(shards)]
    assert sum((ids(stream) for stream in streams), Counter()) == wanted
    assert len({len(stream) for stream in streams}) == 1


def test_draws_without_an_end_cannot_be_planned():
    """The error names the remedy."""
    with pytest.raises(LengthsError, match=r"num_epochs="):
        drawn_batches(WeightedSampler(LENGTHS, seed=1))


def test_samplers_of_users_are_planned_whole():
    """Their epochs need not repeat the same records; one without an end is refused."""

    class Growing:
        def __init__(self, length):
            self.length = length

        def __len__(self):
            return self.length

        def __getitem__(self, index):
            return RecordMetadata(index, index // 7)

    assert ids(drawn_batches(Growing(70))) == Counter(dict.fromkeys(range(10), 7))
    with pytest.raises(LengthsError, match="never ends"):
        drawn_batches(Growing(ENDLESS))


@pytest.mark.parametrize(
    "operations", [[], [Filter(lambda record: True)]], ids=["planned", "of a stream"]
)
@pytest.mark.parametrize(
    ("records", "error", "words"),
    [
        ([np.arange(3), None], NoElementError, r"an element of a batch is None.*use Filter"),
        ([None, None], NoElementError, r"an element of a batch is None.*use Filter"),
        (
            [{"t": np.arange(3), "y": 1}, {"t": np.arange(3), "y": None}],
            BatchError,
            r"\{'t': \*, 'y': (\*|None)\} and \{'t': \*, 'y': (\*|None)\} \(\* is a leaf, None is not\)\. Map them",
        ),
        (
            [{"t": None}, {"t": np.arange(3)}],
            BatchError,
            r"\{'t': (\*|None)\} and \{'t': (\*|None)\}",
        ),
        (
            [{"t": np.arange(3), "y": 1}, {"t": np.arange(3)}],
            BatchError,
            r"'y': \*\}? and|and \{'t': \*, 'y': \*\}",
        ),
    ],
    ids=["a record", "all records", "a leaf", "the tokens", "a missing key"],
)
def test_records_that_are_none_or_lack_a_leaf_are_an_error(operations, records, error, words):
    """It says which leaves the records have."""
    lengths = {"window": 2} if operations else {"lengths": [3, 3]}
    loader = DataLoader(
        data_source=records,
        sampler=SequentialSampler(2),
        operations=[*operations, BudgetBatch(8, pad_to=(4,), **lengths)],
    )
    with pytest.raises(error, match=words):
        list(loader)


def test_a_leaf_that_is_none_in_all_records_stays_none():
    """As in `Batch`."""
    records = [{"t": np.arange(3), "y": None}, {"t": np.arange(2), "y": None}]
    operations = [BudgetBatch(8, pad_to=(4,), lengths=[3, 2])]
    (batch,) = DataLoader(data_source=records, sampler=SequentialSampler(2), operations=operations)
    assert batch["y"] is None
    assert sorted(batch["t"].tolist()) == [[0, 1, 0, 0], [0, 1, 2, 0]]
