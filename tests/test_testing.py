"""The classes of `headrace.testing`: headrace's own objects pass, and each planted fault fails the
test that is for it.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.testing import (
    OperationConformance,
    SamplerConformance,
    SimulationError,
    SourceConformance,
    simulate,
)
from headrace.testing.comparing import comparable

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "test-your-own.md"


def _rows(batch):
    return list(batch)


class TestMap(OperationConformance):
    worker_counts = (1,)

    def operations(self):
        return [headrace.MapTransform(lambda key: key * 2)]


@pytest.mark.long
class TestRandomMap(OperationConformance):
    worker_counts = (1,)

    def operations(self):
        return [headrace.RandomMapTransform(lambda key, rng: key + rng.random())]


class TestFilterAndFlatMap(OperationConformance):
    worker_counts = ()

    def operations(self):
        return [
            headrace.Filter(lambda key: key % 3 != 1),
            headrace.FlatMap(lambda key: [key] * (key % 4)),
        ]


class TestBatch(OperationConformance):
    worker_counts = ()

    def operations(self):
        return [headrace.Batch(5)]

    def rows(self, element):
        return _rows(element)


class TestPack(OperationConformance):
    worker_counts = ()

    def record(self, key):
        return np.full(1 + key % 3, key)

    def operations(self):
        return [headrace.Pack(5, window=4)]

    def rows(self, element):
        return element["tokens"][element["tokens_segment_ids"] > 0].tolist()


@pytest.mark.long
class TestWindowShuffle(OperationConformance):
    worker_counts = (1,)

    def operations(self):
        return [headrace.WindowShuffle(5, seed=1)]


class TestShuffle(SamplerConformance):
    worker_counts = ()

    def sampler(self):
        return headrace.IndexSampler(self.count, shuffle=True, seed=1, num_epochs=2)


@pytest.mark.long
class TestBlockShuffle(SamplerConformance):
    worker_counts = (1,)

    def sampler(self):
        shuffle = headrace.BlockShuffle(block=4, window=2)
        return headrace.IndexSampler(self.count, shuffle=shuffle, seed=1, num_epochs=1)


@pytest.mark.long
class TestWeighted(SamplerConformance):
    each_once = False
    worker_counts = (1,)

    def sampler(self):
        return headrace.WeightedSampler(range(1, self.count + 1), seed=1)


class TestSquares(SourceConformance):
    def open(self, folder, count):
        return [key * key for key in range(count)]

    def expected_record(self, key):
        return key * key


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test_mine.py", "test_transport.py"])
def test_the_page_runs_as_it_is(name, tmp_path):
    """The programs of the docs page are collected by pytest, and all of them pass."""
    program = PAGE.read_text().split(f"```python\n# {name}\n")[1].split("```")[0]
    (tmp_path / name).write_text(program)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--basetemp",
        str(tmp_path / "more"),
        str(tmp_path / name),
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout


class InPlace(OperationConformance):
    def record(self, key):
        return np.array([key])

    def operations(self):
        return [headrace.MapTransform(_doubled)]


def _doubled(record):
    record *= 2
    return record


class OfItsOwnChance(OperationConformance):
    def operations(self):
        return [headrace.MapTransform(lambda key: key + random.SystemRandom().random())]


class Counting(OperationConformance):
    def operations(self):
        return [headrace.MapTransform(Count())]


class Count:
    """A function that remembers how often it was called."""

    def __init__(self):
        self.calls = 0

    def __call__(self, key):
        self.calls += 1
        return self.calls


class Forgetful(SamplerConformance):
    def sampler(self):
        return Drawing(self.count)


class Drawing:
    """A sampler that draws anew at each call."""

    fingerprint = {"kind": "Drawing"}

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return headrace.RecordMetadata(index, random.SystemRandom().randrange(self.count))


class Twice(SamplerConformance):
    def sampler(self):
        return HalfOfThem(self.count)


class HalfOfThem(Drawing):
    def __getitem__(self, index):
        return headrace.RecordMetadata(index, index // 2)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (InPlace, "test_records_are_not_changed_in_place"),
        (OfItsOwnChance, "test_a_second_run_gives_the_same_stream"),
        (OfItsOwnChance, "test_a_state_of_any_step_continues_exactly"),
        (OfItsOwnChance, "test_workers_give_the_same_stream"),
        (Counting, "test_a_state_of_any_step_continues_exactly"),
        (Counting, "test_other_shards_deliver_what_is_left"),
        (Counting, "test_workers_that_end_change_nothing"),
        (OfItsOwnChance, "test_workers_that_end_change_nothing"),
        (Counting, "test_a_record_that_fails_is_the_same_for_any_worker_count"),
        (Forgetful, "test_a_position_has_the_same_record_whenever_it_is_asked_for"),
        (Forgetful, "test_each_record_comes_once_in_each_epoch"),
        (Twice, "test_each_record_comes_once_in_each_epoch"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_planted_fault_fails_its_test(kind, test):
    """A planted fault fails its test."""
    with pytest.raises(AssertionError):
        getattr(kind(), test)()


class Swapped:
    """A source that mixes up records which are read together."""

    def __len__(self):
        return SourceConformance.count

    def __getitem__(self, key):
        return int(key)

    def __getitems__(self, keys):
        return sorted(map(int, keys))


def test_a_source_that_mixes_up_records_fails():
    """A source that mixes up records fails."""
    with pytest.raises(AssertionError):
        SourceConformance().test_many_keys_give_the_same_as_one_by_one(
            Swapped(), list(range(SourceConformance.count))
        )


class OpenInACycle:
    """A file that refers to itself, as a connection of `sqlite3` does."""

    def __init__(self, path):
        self.descriptor, self.itself = os.open(path, os.O_RDONLY), self

    def __del__(self):
        os.close(self.descriptor)


class Cycled:
    """A source that keeps such a file."""

    def __init__(self, path):
        self.file = OpenInACycle(path)

    def __len__(self):
        return SourceConformance.count

    def __getitem__(self, key):
        return int(key)


class OfCycles(SourceConformance):
    on_files = True

    def open(self, folder, count):
        return Cycled(folder / "data")


def test_a_file_that_stays_open_in_a_cycle_is_an_error_that_says_how_to_close_it(tmp_path):
    """The error names the file and `__del__`."""
    (tmp_path / "data").touch()
    source, records = Cycled(tmp_path / "data"), list(range(SourceConformance.count))
    with pytest.raises(AssertionError, match=r"open: .*data.*reference cycle.*__del__"):
        OfCycles().test_no_descriptor_is_left_open(tmp_path, source, records)
    del source
    gc.collect()


@pytest.mark.slow
def test_a_simulated_run_that_fails_is_one_seed():
    """The error names the seed, and has the events of the run; the seed alone fails again, and the
    others pass.
    """
    batches = headrace.load(range(40), transformations=[Count()], batch_size=4, num_epochs=1)
    with pytest.raises(SimulationError, match=r"seed \d+: SimulationError: element") as caught:
        simulate(batches)
    assert "a run begins" in caught.value.__notes__[0]
    simulate(
        headrace.load(range(40), transformations=[_doubled], batch_size=4, num_epochs=1), range(20)
    )


@pytest.mark.slow
def test_an_error_without_workers_is_expected_with_them():
    """The simulator wants it at the same place."""

    def fail(key):
        if key == 9:
            raise LookupError("nine")
        return key

    simulate(headrace.load(range(40), transformations=[fail], num_epochs=1), range(20))


@pytest.mark.slow
def test_failing_records_that_are_skipped_are_skipped_with_dying_workers_too():
    """A loader with `on_error="skip"` delivers the other records, and no record is skipped because
    of its workers.
    """

    def fail(key):
        if key == 9:
            raise LookupError("nine")
        return key

    simulate(
        headrace.load(range(40), transformations=[fail], num_epochs=1, on_error="skip"), range(40)
    )


@pytest.mark.parametrize("stream", ["map", "iter"])
def test_datasets_are_simulated_too(stream):
    """A `MapDataset` and an `IterDataset`."""
    dataset = headrace.MapDataset.range(20).map(_doubled)
    simulate(dataset if stream == "map" else dataset.to_iter_dataset(), range(10))


def test_what_is_no_loader_is_refused():
    """As `check_resume` refuses it."""
    with pytest.raises(
        TypeError, match=r"simulate\(3\): an int is not a loader. Pass a loader, or a dataset"
    ):
        simulate(3)


def test_elements_of_any_dataclass_are_compared_by_their_fields():
    """Also of one with slots, which has no `__dict__`."""

    @dataclasses.dataclass(slots=True)
    class Pair:
        first: int
        second: np.ndarray

    assert comparable(Pair(1, np.arange(2))) == comparable(Pair(1, np.arange(2)))
    assert comparable(Pair(1, np.arange(2))) != comparable(Pair(1, np.arange(2.0)))
