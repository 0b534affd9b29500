"""What the user is told when something fails: which exception, of which operation, on
which record.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    MapWithIndexTransform,
    RandomMapTransform,
    RecordMetadata,
    load,
)
from headrace.errors import StopIterationError


def _lacks_a_key(record: int) -> int:
    return {"x": record}["y"]


@pytest.mark.parametrize("dropping", [Filter(lambda x: True), FlatMap(lambda x: [x])])
@pytest.mark.parametrize(
    "more", [{}, pytest.param({"worker_count": 1}, marks=pytest.mark.slow), {"batch_size": 4}]
)
def test_a_failure_is_told_as_it_is_although_no_row_came_before_it(
    dropping: Any, more: dict[str, Any]
):
    """Over a small source that is read for ever, the user's KeyError is not taken for a filter that
    drops everything.
    """
    with (
        iter(load(range(8), transformations=[_lacks_a_key, dropping], **more)) as iterator,
        pytest.raises(KeyError, match="y") as caught,
    ):
        next(iterator)
    assert "operation 0" in caught.value.__notes__[0]
    assert "record key 0 at position 0" in caught.value.__notes__[0]


class _Adds:
    """A callable object: it has no code of its own by which it could be found in a traceback."""

    def __init__(self, fails_at: int = -1, error: type[Exception] = LookupError) -> None:
        self._fails_at, self._error = fails_at, error

    def __call__(self, record: int) -> int:
        if record == self._fails_at:
            raise self._error("here")
        return record


ALONGSIDE: dict[str, list[Any]] = {
    "nothing": [],
    "a batch": [Batch(8)],
    "a batch of its own function": [Batch(8, batch_fn=np.stack)],
    "a filter": [Filter(lambda x: True)],
    "a filter and a batch": [Filter(lambda x: True), Batch(8)],
    "a random map and a batch": [RandomMapTransform(lambda x, rng: x), Batch(8)],
    "a flat map": [FlatMap(lambda x: [x])],
}


@pytest.mark.parametrize("alongside", ALONGSIDE)
@pytest.mark.parametrize("at_fault", [0, 1, 2])
@pytest.mark.parametrize("error", [LookupError, StopIteration])
def test_the_operation_that_failed_is_named(alongside: str, at_fault: int, error: type[Exception]):
    """Of three callable objects of one class, the one that raised, and the record, wherever
    operations stand.
    """
    maps: list[Any] = [_Adds(), _Adds(), _Adds()]
    maps[at_fault] = _Adds(13, error)
    iterator = iter(
        load(range(40), transformations=[*maps, *ALONGSIDE[alongside]], num_epochs=1, seed=0)
    )
    with pytest.raises((LookupError, StopIterationError)) as caught:
        list(iterator)
    raised = caught.value.__cause__ if error is StopIteration else caught.value
    assert isinstance(raised, error)
    assert f"operation {at_fault}, MapTransform" in raised.__notes__[0]
    assert "record key 13 at position 13" in raised.__notes__[0]


@pytest.mark.parametrize(
    ("operations", "number", "position"),
    [
        ([Batch(4), abs, lambda batch: 1 // int(batch[0] - 12)], 2, 12),
        ([_Adds(), Batch(4), Batch(2, batch_fn=lambda two: 1 // int(two[0][0] - 16))], 2, 16),
        (
            [Batch(2), Batch(2), MapWithIndexTransform(lambda index, batch: 1 // (index - 12))],
            2,
            12,
        ),
        ([Batch(4), FlatMap(lambda batch: [1 // int(x - 13) for x in batch])], 1, 12),
        ([Filter(lambda x: x % 2), Batch(4), abs, lambda batch: 1 // int(batch[0] - 17)], 3, 17),
        ([lambda x: np.zeros(x // 6), Batch(4)], 1, 6),
        ([Batch(2), lambda batch: np.zeros(batch[1] // 6), Batch(2), Batch(4)], 2, 6),
        ([Filter(lambda x: 1 // int(x - 5))], 0, 5),
        ([Filter(lambda x: np.zeros(2 if x == 5 else 1) == 0)], 0, 5),
    ],
)
@pytest.mark.parametrize("source", [range(40), np.arange(40)])
def test_an_operation_that_fails_on_a_batch_is_named_with_its_first_record(
    operations, number, position, source
):
    """And a batch that cannot be made with the record that does not fit."""
    with pytest.raises((ZeroDivisionError, ValueError)) as caught:
        list(load(source, transformations=operations, num_epochs=1))
    note = caught.value.__notes__[0]
    assert f"operation {number}, " in note
    assert f"record key {position} at position {position}." in note


def test_an_operation_that_changes_its_records_is_not_called_again_to_find_a_failure():
    """The exception is the user's own, of the record at fault, although a second call of the first
    map would fail too.
    """

    def pops(record: dict[str, int]) -> int:
        return record.pop("x")

    def fails(x: int) -> int:
        if x == 7:
            raise LookupError("seven")
        return x

    class Records:
        def __len__(self) -> int:
            return 40

        def __getitem__(self, key: int) -> dict[str, int]:
            return {"x": key}

    for behind in ([], [Batch(4)], [Filter(lambda x: True)]):
        got: list[int] = []
        with pytest.raises(LookupError, match="seven") as caught:
            for element in load(Records(), transformations=[pops, fails, *behind], num_epochs=1):
                got += np.atleast_1d(element).tolist()
        assert "operation 1, " in caught.value.__notes__[0]
        assert "record key 7 " in caught.value.__notes__[0]
        assert got == list(range(7 // 4 * 4 if Batch in map(type, behind) else 7))


def test_the_earliest_record_that_fails_is_told():
    """Although functions are called on many records at a time, and a later record fails in an
    earlier operation.
    """
    first, second = _Adds(9, KeyError), _Adds(5, LookupError)
    with pytest.raises(LookupError, match="here") as caught:
        list(load(range(40), transformations=[first, Filter(lambda x: True), second], num_epochs=1))
    assert "operation 2, " in caught.value.__notes__[0]
    assert "record key 5 " in caught.value.__notes__[0]


def _stops(*arguments: Any) -> Any:
    raise StopIteration("mine")


class _StopsAtFive:
    """A source."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, key: int) -> int:
        return _stops() if key == 5 else key


@pytest.mark.one_in(4)
@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("source", "operations", "who"),
    [
        (range(20), [_stops], "operation 0, MapTransform"),
        (range(20), [_stops, Batch(4)], "operation 0, MapTransform"),
        (range(20), [Filter(_stops)], "operation 0, Filter"),
        (range(20), [FlatMap(_stops)], "operation 0, FlatMap"),
        (range(20), [RandomMapTransform(_stops)], "operation 0, RandomMapTransform"),
        (range(20), [Batch(4, batch_fn=_stops)], "operation 0, Batch"),
        (range(20), [Batch(4), _stops], "operation 1, MapTransform"),
        (range(20), [Filter(lambda x: True), Batch(4), _stops], "operation 2, MapTransform"),
        (_StopsAtFive(), [Batch(4)], "the source raised StopIteration on record key 5 at"),
        (_StopsAtFive(), [], "the source raised StopIteration on record key 5 at"),
    ],
)
def test_stop_iteration_is_an_error_that_says_who_raised_it(
    workers: int, source: Any, operations: list[Any], who: str
):
    """It would look like the end of the stream."""
    loader = load(source, transformations=operations, num_epochs=1, seed=0, worker_count=workers)
    with iter(loader) as iterator, pytest.raises(StopIterationError) as caught:
        list(iterator)
    assert who in str(caught.value)
    assert "generator" not in str(caught.value)
    assert "reading" not in str(caught.value)


@pytest.mark.parametrize("length", [{}, {"__len__": lambda self: 20}])
def test_a_sampler_that_stops_at_once_is_named(length: dict[str, Any]):
    """StopIteration does not leave the constructor, where it would end a loop of the user's; with
    and without a length.
    """
    stops = type("Stops", (), {"__getitem__": lambda self, position: _stops(), **length})()
    with pytest.raises(StopIterationError, match="the sampler raised StopIteration"):
        DataLoader(data_source=range(20), sampler=stops)


def test_a_sampler_that_fails_is_named():
    """And not the reading."""

    class Stops:
        def __len__(self) -> int:
            return 20

        def __getitem__(self, position: int) -> Any:
            return _stops() if position == 5 else RecordMetadata(position, position)

    with pytest.raises(StopIterationError, match="the sampler raised StopIteration"):
        list(DataLoader(data_source=range(20), sampler=Stops(), operations=[Batch(4)]))


@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_sampler_that_fails_late_fails_at_its_place(worker_count):
    """All records before come first, though keys are computed far ahead; the error names the
    position.
    """

    class Late(headrace.IndexSampler):
        def record_keys(self, positions: Any) -> Any:
            return np.where(positions == 13, 99, positions)

    iterator = iter(
        DataLoader(data_source=range(20), sampler=Late(20, num_epochs=1), worker_count=worker_count)
    )
    assert [next(iterator) for _ in range(13)] == list(range(13))
    with pytest.raises(IndexError, match="record key 99") as caught:
        next(iterator)
    assert "position 13" in str(caught.value.__notes__)
    iterator.close()


@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_stopiteration_in_a_generator_is_told_as_such(worker_count):
    """Python wraps it in a RuntimeError, whose words would mislead."""

    def pieces(x):
        yield x
        next(iter(()))

    stops = load(range(8), transformations=[FlatMap(pieces)], worker_count=worker_count)
    with pytest.raises(StopIterationError, match=r"operation 0.* raised StopIteration"):
        list(stops)


def test_the_file_of_a_record_that_fails_is_named_where_the_source_knows_it(tmp_path):
    """Also of a part of a mix; with workers, too."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps({"x": n}) + "\n" for n in range(3))
        )
    source = headrace.JsonLinesDataSource([tmp_path / "one.jsonl", tmp_path / "two.jsonl"])
    parts = {"files": source, "numbers": [{"x": 1}] * 3}

    def fails(record):
        if record["x"] == 2:
            raise ValueError("bad")
        return record

    for worker_count in (0, 1):
        for data, sampler in (
            (source, headrace.IndexSampler(6)),
            (parts, headrace.MixSampler(parts)),
        ):
            loader = DataLoader(
                data_source=data, sampler=sampler, operations=[fails], worker_count=worker_count
            )
            with iter(loader) as batches, pytest.raises(ValueError, match="bad") as caught:
                list(batches)
            (note,) = caught.value.__notes__
            assert f"record 2 of {tmp_path / 'one.jsonl'}" in note
