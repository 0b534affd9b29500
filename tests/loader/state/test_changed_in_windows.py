"""Edits of a mix where the state stands inside a window, or a batch that is taken apart: right, or
refused at once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import ExitStack

import numpy as np
import pytest

from headrace import IterDataset, MapDataset, ShardOptions
from headrace.errors import CheckpointError

RECORDS = 24
FIRST = {"a": 0, "b": 100, "c": 200, "d": 300}


def by_position(weights):
    """A mix of datasets with random access, as a stream."""
    parts = {name: MapDataset.range(FIRST[name], FIRST[name] + RECORDS) for name in weights}
    return MapDataset.mix(parts, weights, when_exhausted="all").to_iter_dataset()


def of_rows(weights):
    """A mix of streams."""
    parts = {
        name: MapDataset.range(FIRST[name], FIRST[name] + RECORDS).to_iter_dataset()
        for name in weights
    }
    return IterDataset.mix(parts, weights, when_exhausted="all")


def taken_apart(stream, size):
    """Batches, and then their elements again."""
    return stream.batch(size).flat_map(lambda batch: batch.tolist())


WINDOWS = {
    "pack": lambda stream: stream.map(lambda x: np.full(3, x)).pack(8, window=12),
    "window shuffle": lambda stream: stream.window_shuffle(8, seed=1),
    "batch taken apart": lambda stream: taken_apart(stream, 6),
}
EQUAL, OTHER, FEWER = {"a": 1, "b": 1, "c": 1}, {"a": 3, "b": 1, "c": 1}, {"a": 1, "b": 1}
ONE_MORE = {**EQUAL, "d": 1}


def refusal(iterator, state):
    """Why a state is refused; None if it is taken."""
    try:
        iterator.set_state(state, strict=False)
    except CheckpointError as error:
        return str(error)
    return None


@pytest.mark.parametrize("mixed", [by_position, of_rows])
@pytest.mark.parametrize("size", [2, 6])
@pytest.mark.parametrize("weights", [EQUAL, OTHER, ONE_MORE])
@pytest.mark.one_in(6)
def test_weights_and_a_batch_size_that_change_in_one_edit_lose_and_repeat_nothing(
    mixed, size, weights
):
    """Between two batches; inside one that is taken apart another size is refused, with
    both sizes.
    """
    refused = []
    for steps in range(9):
        former = iter(taken_apart(mixed(EQUAL).filter(lambda x: x % 5), 4))
        first = [next(former) for _ in range(steps)]
        now = iter(taken_apart(mixed(weights).filter(lambda x: x % 5), size))
        why = refusal(now, former.get_state())
        if why:
            assert f"one batch or window of 4 elements. With {size}" in why
            refused.append(steps)
            continue
        kept = {x for name in weights for x in range(FIRST[name], FIRST[name] + RECORDS) if x % 5}
        assert Counter(first + list(now)) == Counter(kept)
    assert refused == [steps for steps in range(9) if steps % 4]


@pytest.mark.slow
@pytest.mark.one_in(12)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("mixed", [by_position, of_rows])
def test_a_part_that_is_removed_in_a_second_edit_is_missed_when_the_state_is_set(
    mixed, filtered, window
):
    """Not by `next`, though it is the first edit's window that needs it; where nothing needs it,
    the run goes on to its end.
    """

    def chain(weights):
        stream = mixed(weights)
        return WINDOWS[window](stream.filter(lambda x: x % 5 != 3) if filtered else stream)

    refused = taken = 0
    for first, second, steps, more in itertools.product(
        (OTHER, ONE_MORE), (EQUAL, FEWER), (1, 3, 5), (0, 2)
    ):
        former = iter(chain(EQUAL))
        for _ in range(steps):
            next(former)
        between, now = iter(chain(first)), iter(chain(second))
        assert refusal(between, former.get_state()) is None
        for _ in range(more):
            next(between)
        why = refusal(now, between.get_state())
        assert why is None or "was removed from the mix" in why
        refused += why is not None
        taken += why is None and len(list(now)) > 0
    assert refused > 0 < taken


def _packed(parts, weights, shard):
    """Rows of a window that holds more documents than a shard has."""
    sources = {
        name: MapDataset.source([np.array([token]) for token in tokens])
        for name, tokens in parts.items()
    }
    mixed = MapDataset.mix(sources, weights, when_exhausted="all").to_iter_dataset(
        shard_options=ShardOptions(*shard)
    )
    return iter(mixed.flat_map(lambda document: [document, document * 10]).pack(2, window=6))


def _resumed_on_one_shard(parts):
    """The state of one shard, after two others stood inside windows that the end of the mix cuts
    short.
    """
    states = []
    for shard in range(2):
        iterator = _packed(parts, None, (shard, 2))
        next(iterator)
        states.append(iterator.get_state())
    iterator = _packed(parts, None, (0, 1))
    iterator.set_states(states)
    next(iterator)
    return iterator.get_state()


def test_a_window_of_rows_that_the_end_of_a_mix_cut_short_takes_no_record_of_a_new_part():
    """It ends where its run ended; the records of the new part come once, after it."""
    parts = {"a": [1, 2, 3, 4]}
    state = _resumed_on_one_shard(parts)
    iterator = _packed({**parts, "c": [7, 8, 9]}, None, (0, 1))
    assert refusal(iterator, state) is None
    rest = Counter(
        token for row in iterator for token in row["tokens"][row["tokens_segment_ids"] > 0].tolist()
    )
    begun = Counter([1, 10, 2, 20, 3, 30])
    assert rest + begun == Counter(token * by for token in (1, 2, 3, 4, 7, 8, 9) for by in (1, 10))


def test_a_window_of_rows_in_the_midst_of_a_mix_takes_a_new_part():
    """As it ends before the changed order begins, each token comes once."""
    parts = {"a": list(range(1, 30))}
    state = _resumed_on_one_shard(parts)
    iterator = _packed({**parts, "c": [101, 102]}, None, (0, 1))
    assert refusal(iterator, state) is None
    rest = Counter(
        token for row in iterator for token in row["tokens"][row["tokens_segment_ids"] > 0].tolist()
    )
    begun = Counter([1, 10, 2, 20, 3, 30])
    assert rest + begun == Counter(
        token * by for token in (*range(1, 30), 101, 102) for by in (1, 10)
    )


@pytest.mark.parametrize("names", ["ab", "abc", "bc", "ca"])
def test_what_former_shards_had_begun_inside_datasets_is_finished_after_a_change_of_the_mix(names):
    """Of datasets that stay in the mix, each record comes once; those of a dataset that leaves do
    not come any more.
    """

    def mixed(names, index, count):
        parts = {
            name: taken_apart(
                MapDataset.range(FIRST[name], FIRST[name] + RECORDS)
                .to_iter_dataset()
                .filter(lambda x: x % 5),
                6,
            )
            for name in names
        }
        stream = IterDataset.mix(parts, when_exhausted="all").shard(ShardOptions(index, count))
        return stack.enter_context(iter(stream))

    with ExitStack() as stack:
        seen, former = [], [mixed("ab", shard, 2) for shard in range(2)]
        for iterator, steps in zip(former, (3, 7)):
            seen += itertools.islice(iterator, steps)
        between, now = mixed("ab", 0, 1), mixed(names, 0, 1)
        between.set_states([iterator.get_state() for iterator in former])
        seen.append(next(between))
        now.set_state(between.get_state(), strict=False)
        seen += now
    stay = {x for name in names for x in range(FIRST[name], FIRST[name] + RECORDS) if x % 5}
    left = [x for x in seen if x not in stay]
    assert Counter(seen) == Counter([*stay, *left])
    assert len(left) == len({*left}) == (0 if {*"ab"} <= {*names} else len(left))
    assert {x // 100 for x in left} <= {FIRST[name] // 100 for name in {*"ab"} - {*names}}


def documents(stream):
    """Of each record two tokens: its number plus one, as 0 is padding."""
    return stream.map(lambda x: np.full(2, x + 1))


def records_of(element):
    """The records in an element: a number, or tokens of documents."""
    tokens = np.unique(element["tokens"]) if isinstance(element, dict) else np.array([element + 1])
    return (tokens[tokens > 0] - 1).tolist()


WINDOWS_MADE_OTHERWISE = {
    "pack": lambda n: documents(of_rows({"a": 1})).pack(2 * n, window=6),
    "budget": lambda n: documents(of_rows({"a": 1})).budget_batch(
        4 * n, pad_to=(2, 4), window=6, seed=1
    ),
    "window shuffle": lambda n: of_rows({"a": 1}).window_shuffle(6, seed=n),
}


@pytest.mark.parametrize("window", WINDOWS_MADE_OTHERWISE)
def test_the_arguments_of_a_window_change_between_two_windows_and_are_refused_inside_one(window):
    """A `Pack`, `BudgetBatch` or `window_shuffle` with other arguments makes other elements of the
    same records.
    """
    make, refused = WINDOWS_MADE_OTHERWISE[window], 0
    former, came = iter(make(1)), []
    for element in former:
        came += records_of(element)
        now = iter(make(2))
        if reason := refusal(now, former.get_state()):
            assert "Keep the former arguments until a later step" in reason
            refused += 1
        else:
            rest = [record for element in now for record in records_of(element)]
            assert sorted(came + rest) == list(range(RECORDS))
            assert len(came) % 6 == 0
    assert refused
    assert sorted(came) == list(range(RECORDS))


def test_a_batch_function_may_change_inside_a_batch_that_is_taken_apart():
    """The batch has the same records, so its other elements come, as the new function makes them."""

    def stream(factor):
        batches = of_rows({"a": 1}).batch(4, batch_fn=lambda records: factor * np.array(records))
        return iter(batches.flat_map(lambda batch: batch.tolist()))

    former, now = stream(1), stream(10)
    came = [next(former) for _ in range(6)]
    now.set_state(former.get_state(), strict=False)
    assert [*came, *now] == [*range(6), *range(60, 10 * RECORDS, 10)]


@pytest.mark.parametrize("mixed", [by_position, of_rows])
def test_a_removed_part_that_a_window_needs_is_missed_also_where_failing_records_are_skipped(mixed):
    """Its records do not fail: they are no longer there, which `on_error` does not decide about."""

    def stream(weights):
        checked = mixed(weights).map(lambda x: x if x % 5 else x / 0)
        return iter(checked.window_shuffle(4, seed=2).with_options(on_error="skip"))

    refused = 0
    for steps in range(20):
        former, now = stream({"a": 1, "b": 1}), stream({"a": 1})
        came = [next(former) for _ in range(steps)]
        if why := refusal(now, former.get_state()):
            assert "was removed from the mix" in why
            refused += 1
        else:
            came = [record for record in [*came, *now] if record < RECORDS]
            assert sorted(came) == [record for record in range(RECORDS) if record % 5]
    assert 0 < refused < 20
