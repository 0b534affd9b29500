"""What fails directly above a join: what comes before it, the state then, and what is left out."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from support.pipelines import chosen, stream

from headrace import IterDataset, MapDataset, ShardOptions
from headrace.errors import WorkerCrashedError

INLINE, THREADS, PROCESSES = (
    {"worker_count": 0},
    {"worker_count": 2, "worker_kind": "thread"},
    {"worker_count": 2},
)
RUNS = [*chosen([INLINE, THREADS], INLINE), pytest.param(PROCESSES, marks=pytest.mark.slow)]


def numbers(first: int, count: int) -> IterDataset:
    """The numbers from `first` on."""
    return MapDataset.range(first, first + count).to_iter_dataset()


def mixed() -> IterDataset:
    """0, 100, 1, 101 and so on."""
    return IterDataset.mix([numbers(0, 30), numbers(100, 30)], when_exhausted="all")


def even(x: int) -> bool:
    """Half of them."""
    return x % 2 == 0


def summed(pair: tuple[int, int]) -> int:
    """One number of two."""
    return pair[0] + pair[1]


JOINS: dict[str, Callable[[], IterDataset]] = {
    "mix": mixed,
    "interleave": lambda: IterDataset.interleave([numbers(0, 30), numbers(100, 30)]),
    "zip": lambda: IterDataset.zip([numbers(0, 30), numbers(0, 30)]).map(summed),
    "limit": lambda: numbers(0, 30).limit(20),
    "repeat": lambda: numbers(0, 30).repeat(2),
    "cache": lambda: numbers(0, 30).cache().repeat(2),
    "filter, limit": lambda: numbers(0, 30).filter(even).limit(20),
    "mix, limit": lambda: mixed().limit(50),
}
ABOVE: dict[str, Callable[[IterDataset], IterDataset]] = {
    "map": lambda d: d,
    "window": lambda d: d.window_shuffle(10, seed=1),
    "filter": lambda d: d.filter(lambda x: x % 3 != 0),
    "flat map": lambda d: d.flat_map(lambda x: [x, x]),
    "random map": lambda d: d.random_map(lambda x, rng: x + int(rng.integers(2)), seed=1),
}


def failing_at(*bad: int) -> Callable[[int], int]:
    """A map that fails on these; on none when it is repaired."""

    def fails(x: int) -> int:
        if x in bad:
            raise LookupError(f"{x} is bad")
        return x

    return fails


def dying_at(bad: int) -> Callable[[int], int]:
    """A map that ends its worker."""

    def ends(x: int) -> int:
        if x == bad:
            os._exit(3)
        return x

    return ends


@pytest.mark.parametrize(
    ("join", "run"),
    chosen(itertools.product(JOINS, [INLINE, THREADS, PROCESSES]), *zip(JOINS, [INLINE] * 9)),
)
@pytest.mark.one_in(3)
def test_after_a_failure_nothing_is_jumped_over(join: str, run: dict[str, Any]):
    """`next` gives the same error again; repaired, the last state goes on with the element that
    failed.
    """
    whole = list(JOINS[join]())
    with iter(JOINS[join]().map(failing_at(10)).with_options(**run)) as iterator:
        before = list(itertools.islice(iterator, whole.index(10)))
        for _ in range(3):
            with pytest.raises(LookupError, match="10 is bad"):
                next(iterator)
        state = iterator.get_state()
    with iter(JOINS[join]().map(failing_at()).with_options(**run)) as iterator:
        iterator.set_state(state, strict=False)
        assert before + list(iterator) == whole


@pytest.mark.one_in(6)
@pytest.mark.parametrize("above", ABOVE)
def test_every_state_before_a_failure_goes_on_when_it_is_repaired(above: str):
    """Whatever stands between the join and what fails."""
    whole = list(ABOVE[above](mixed()))
    broken, repaired = (ABOVE[above](mixed()).map(failing_at(*bad)) for bad in ([whole[17]], []))
    states = []
    with iter(broken) as iterator, pytest.raises(LookupError):
        while True:
            states.append(iterator.get_state())
            next(iterator)
    assert len(states) == whole.index(whole[17]) + 1
    for step, state in enumerate(states):
        with iter(repaired) as iterator:
            iterator.set_state(state, strict=False)
            assert list(iterator) == whole[step:]


@pytest.mark.parametrize("shards", [1, 2])
def test_elements_before_a_failure_below_two_joins_come_first(shards: int):
    """Although a task of the upper operation was not full when it came."""
    whole = list(mixed().shard(ShardOptions(0, shards)))
    broken = (
        mixed()
        .map(failing_at(10))
        .map(lambda x: x)
        .limit(55)
        .map(lambda x: x)
        .shard(ShardOptions(0, shards))
    )
    got = []
    with pytest.raises(LookupError):
        for element in broken:
            got.append(element)
    assert got == whole[: whole.index(10)]


def test_a_feeder_keeps_the_state_before_a_failure_above_a_join():
    """That of the last batch that it gave, from which the repaired stream goes on."""
    cpu = jax.devices("cpu")[0]
    broken, repaired = (mixed().map(failing_at(*bad)).batch(2) for bad in ([10], []))
    whole = [batch.tolist() for batch in repaired]
    with iter(broken.to_device(cpu)) as feeder:
        got = [np.asarray(batch).tolist() for batch in itertools.islice(feeder, 10)]
        for _ in range(2):
            with pytest.raises(LookupError, match="10 is bad"):
                next(feeder)
        state = feeder.get_state()
    with iter(repaired.to_device(cpu)) as feeder:
        feeder.set_state(state, strict=False)
        assert got + [np.asarray(batch).tolist() for batch in feeder] == whole


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    "above",
    [lambda d: d.batch(3), lambda d: d.batch(3).map(np.sum), lambda d: d.window_shuffle(3, seed=1)],
    ids=["batch", "batch, map", "window"],
)
@pytest.mark.parametrize("join", ["mix", "limit"])
@pytest.mark.one_in(3)
def test_to_leave_out_failures_changes_nothing_where_nothing_fails(
    join: str, above: Any, run: dict[str, Any]
):
    """A batch or window directly on a join gives all that it gives otherwise."""
    dataset = above(JOINS[join]())
    with iter(dataset.with_options(on_error="skip", **run)) as iterator:
        assert stream(iterator) == stream(dataset)
        assert iterator.skipped_count == 0


@pytest.mark.parametrize("run", RUNS)
def test_a_zip_with_on_error_skip_gives_its_elements(run: dict[str, Any]):
    """It puts elements together directly above a join."""
    zipped = IterDataset.zip([numbers(0, 5), numbers(10, 5)])
    assert list(zipped.with_options(on_error="skip", **run)) == list(zipped)


@pytest.mark.parametrize("run", RUNS)
def test_one_record_of_a_window_is_left_out_without_the_others(run: dict[str, Any], caplog: Any):
    """The others stay in their order; the record at fault is named."""
    whole = list(mixed().window_shuffle(10, seed=1))
    dataset = (
        mixed()
        .window_shuffle(10, seed=1)
        .map(failing_at(12, 107))
        .with_options(on_error="skip", **run)
    )
    with iter(dataset) as iterator:
        first = list(itertools.islice(iterator, 17))
        state = iterator.get_state()
        assert first + list(iterator) == [x for x in whole if x not in (12, 107)]
        assert iterator.skipped_count == 2
    assert "record key 12 at position 12 of 0" in caplog.text
    assert "record key 7 at position 7 of 1" in caplog.text
    with iter(dataset) as iterator:
        iterator.set_state(state, strict=False)
        assert first + list(iterator) == [x for x in whole if x not in (12, 107)]


def test_one_row_of_a_pack_is_left_out_without_the_others():
    """As one element of a window is."""

    def fails(row: dict[str, Any]) -> Any:
        return failing_at(9)(int(row["tokens"][0]))

    packs = mixed().map(lambda x: np.full(4, x)).pack(4, window=10)
    firsts = [int(row["tokens"][0]) for row in packs]
    with iter(packs.map(fails).with_options(on_error="skip")) as iterator:
        assert list(iterator) == [first for first in firsts if first != 9]
        assert iterator.skipped_count == 1


@pytest.mark.parametrize(
    "above",
    [lambda d: d, lambda d: d.window_shuffle(10, seed=1), lambda d: d.filter(even)],
    ids=["map", "window", "filter"],
)
@pytest.mark.one_in(3)
@pytest.mark.slow
def test_only_a_record_that_ends_its_worker_is_left_out_above_a_join(above: Any):
    """Once it has ended three; from any state, too."""
    whole = list(above(mixed()))
    expected = [x for x in whole if x != 10]
    dataset = above(mixed()).map(dying_at(10)).with_options(on_error="skip", worker_count=2)
    with iter(dataset) as iterator:
        first = list(itertools.islice(iterator, whole.index(10) + 1))
        state = iterator.get_state()
        assert first + list(iterator) == expected
        assert iterator.skipped_count == 1
    with iter(dataset) as iterator:
        iterator.set_state(state, strict=False)
        assert first + list(iterator) == expected


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "dataset", [mixed(), mixed().window_shuffle(10, seed=1), numbers(0, 30).window_shuffle(10, seed=1)],
    ids=["join", "window on a join", "window"],
)  # fmt: skip
def test_what_comes_before_a_record_that_ends_its_worker_comes_first(dataset: IterDataset):
    """And the state then goes on with that record, once it is repaired."""
    whole = list(dataset)
    got = []
    with iter(dataset.map(dying_at(10)).with_options(worker_count=2)) as iterator:
        with pytest.raises(WorkerCrashedError, match="exit code 3"):
            for element in iterator:
                got.append(element)
        state = iterator.get_state()
    assert got == whole[: whole.index(10)]
    with iter(dataset.map(dying_at(-1))) as iterator:
        iterator.set_state(state, strict=False)
        assert got + list(iterator) == whole


def test_what_a_flat_map_gave_before_it_failed_comes_first():
    """The state then is inside the record, and goes on with what comes next of it."""

    def pieces(broken: bool) -> Any:
        def gives(x: int) -> Any:
            yield x
            if broken and x == 10:
                raise LookupError("half of 10")
            yield x + 0.5

        return gives

    for dataset in (numbers(0, 30), mixed()):
        whole, got = list(dataset.flat_map(pieces(False))), []
        with iter(dataset.flat_map(pieces(True))) as iterator:
            with pytest.raises(LookupError):
                for element in iterator:
                    got.append(element)
            state = iterator.get_state()
        assert got == whole[: whole.index(10) + 1]
        with iter(dataset.flat_map(pieces(False))) as iterator:
            iterator.set_state(state, strict=False)
            assert got + list(iterator) == whole


def _no_104(batch: Any) -> Any:
    """Fail for the batch with the number 104."""
    if 104 in np.ravel(batch):
        raise ValueError("no 104")
    return batch


def test_an_error_of_batches_of_batches_names_the_source_of_the_first_record() -> None:
    """Each input of the mix has batches made of batches; the number 104 is in one that begins with
    record 0 of input 1.
    """
    inputs = [
        numbers(first, 30).filter(lambda x: x % 3 != 0).batch(2).filter(np.any).batch(2)
        for first in (0, 100)
    ]
    with pytest.raises(ValueError, match="no 104") as caught:
        list(IterDataset.mix([each.map(_no_104) for each in inputs]))
    assert "record key 0 at position 0 of 1" in caught.value.__notes__[0]
