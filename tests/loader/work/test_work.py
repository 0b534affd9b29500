"""What a worker makes of tasks, without a process: rows, where they come from, and
columns of them.
"""

import itertools
import pickle
from array import array

import numpy as np
import pytest
from support.pipelines import PIPELINES, loader, plain

from headrace import Batch, DataLoader, Filter, IndexSampler, load
from headrace.errors import WorkerCrashedError
from headrace.loader.plan.stages import spans
from headrace.loader.work.explain import given_up
from headrace.loader.work.row_origins import RowOrigins
from headrace.loader.work.stacked_rows import RowStack, StackedRows, side_by_side
from headrace.loader.work.tasks import GroupTask, SpanTask
from headrace.loader.work.worker import Worker
from headrace.operations.protocol import allocate_plainly


def rows_of(elements) -> list:
    """Rows, comparable, whether they came as columns or as a list."""
    stacked = isinstance(elements, StackedRows)
    return [plain(row) for row in (elements.elements(0, len(elements)) if stacked else elements)]


@pytest.mark.parametrize("stacks_rows", [False, True])
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.one_in(4)
def test_a_task_of_several_spans_gives_what_its_spans_give(name, stacks_rows):
    """The same rows, and tags that count inputs from the beginning of the task."""
    pipeline = iter(loader(name, records=250))._pipeline
    worker, start = Worker(pipeline, stacks_rows=stacks_rows), pipeline.spans[0]
    task = SpanTask(0, start, min(start + 3 * pipeline.spans[0] + 1, pipeline.leaf.total))
    whole = worker.run(task)
    parts = [
        worker.run(SpanTask(0, *span))
        for span in spans(task.start, task.stop, lambda: pipeline.spans[0])
    ]
    assert len(parts) > 1
    assert whole.failure is None
    assert rows_of(whole.elements) == list(
        itertools.chain.from_iterable(rows_of(part.elements) for part in parts)
    )
    if not pipeline.aligned:
        inputs = [
            [number * pipeline.spans[0] + one for one in part.tags.inputs]
            for number, part in enumerate(parts)
        ]
        assert list(whole.tags.inputs) == list(itertools.chain.from_iterable(inputs))
        assert list(whole.tags.positions) == [
            position for part in parts for position in part.tags.positions
        ]
        assert list(whole.tags.rows) == [row for part in parts for row in part.tags.rows]


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ended", r"a worker ended\. Correct the operation or the source that ends it, or"),
        (
            "was stopped after timeout=5",
            "=5. Pass a larger timeout=, correct the operation or the source that hangs, or",
        ),
    ],
)
def test_a_task_that_is_given_up_says_why_its_workers_ended(reason, message):
    """Of a worker that was too late, the message also names the timeout."""
    block = given_up(SpanTask(0, 2, 4), {}, iter(load(range(9)))._pipeline, reason)
    with pytest.raises(WorkerCrashedError, match=message):
        raise block.failure.error


@pytest.mark.parametrize(("positions", "computed"), [(8192, 8192), (1024, 16384)])
def test_keys_of_other_workers_tasks_are_not_computed_where_tasks_are_long(
    positions, computed, monkeypatch
):
    """Short ones are worth less than a call of the sampler: then a block is computed."""
    pipeline = iter(load(np.arange(10**6), shuffle=True, seed=0, batch_size=64))._pipeline
    asked = []
    record_keys = type(pipeline.leaf.sampler).record_keys
    monkeypatch.setattr(
        type(pipeline.leaf.sampler),
        "record_keys",
        lambda self, at: asked.append(len(at)) or record_keys(self, at),
    )
    assert Worker(pipeline).run(SpanTask(0, 0, positions)).count == positions // 64
    assert asked == [computed]


def test_rows_before_a_failure_stay_and_nothing_after_it():
    """A task of several spans stops where one of them fails."""

    def fails(x: int) -> int:
        if x == 200:
            raise ValueError("bad record")
        return x

    pipeline = iter(
        load(range(1000), transformations=[fails, Filter(lambda x: x % 2 == 0)], batch_size=8)
    )._pipeline
    block = Worker(pipeline, stacks_rows=True).run(SpanTask(0, 0, 400))
    assert str(block.failure.error) == "bad record"
    assert rows_of(block.elements) == [plain(x) for x in range(0, 200, 2)]
    assert list(block.tags.positions) == list(range(0, 200, 2))


def test_rows_that_are_alike_become_columns():
    """However many come at a time, numbers stay Python's or NumPy's."""
    rows = [{"x": np.full(3, i, np.float32), "n": i, "s": np.int16(i)} for i in range(10)]
    stack = RowStack(12, allocate_plainly)
    for start, stop in ((0, 0), (0, 1), (1, 1), (1, 7), (7, 10)):
        stack.extend(rows[start:stop])
    stacked = stack.finish()
    assert isinstance(stacked, StackedRows)
    assert len(stacked) == 10
    assert rows_of(stacked) == [plain(row) for row in rows]
    for size in (3, 4):
        other = RowStack(2, allocate_plainly)
        other.extend([{**row, "x": np.zeros(size, np.float32)} for row in rows[:2]])
        assert stacked.is_like(other.finish()) == (size == 3)


@pytest.mark.parametrize(
    "other",
    [{"x": np.zeros(4)}, {"x": np.zeros(3, np.float32)}, {"y": np.zeros(3)}, "text", 1, None],
)
@pytest.mark.parametrize("place", [0, 1, 5, 9])
def test_rows_that_are_not_alike_stay_a_list(other, place):
    """As they were, wherever the one is that differs."""
    rows = [{"x": np.full(3, float(i))} for i in range(10)]
    rows[place] = other
    stack = RowStack(10, allocate_plainly)
    for start in range(0, 10, 2):
        stack.extend(rows[start : start + 2])
    assert rows_of(stack.finish()) == [plain(row) for row in rows]


def test_more_rows_than_there_is_room_for_stay_a_list():
    """A flat map may make any number of rows of a record."""
    rows = [np.full(2, i) for i in range(10)]
    stack = RowStack(5, allocate_plainly)
    stack.extend(rows[:4])
    stack.extend(rows[4:])
    assert rows_of(stack.finish()) == [plain(row) for row in rows]
    numbers = RowStack(5, allocate_plainly)
    numbers.extend([1, 2, 3])
    numbers.extend([4, 5, 6])
    assert numbers.finish() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("row", [7, 7.0, np.int8(7), {"a": 7, "b": 7}, np.full(2, 7)])
def test_one_row_more_than_there_is_room_for_is_not_lost(row):
    """The columns are full, and a single row comes after."""
    stack = RowStack(4, allocate_plainly)
    stack.extend([row] * 4)
    stack.extend([row])
    assert rows_of(stack.finish()) == [plain(row)] * 5


def test_rows_in_columns_come_back_as_they_were():
    """With the order of their keys and of their bytes, and 0-d and masked arrays as such: else
    batches would depend on how work is divided.
    """

    def kind(row):
        return type(row), getattr(row, "dtype", None)

    masked = np.ma.array([1.0, 2.0], mask=[0, 1])
    for first, other in (
        ({"a": 1, "b": 2}, {"b": 1, "a": 2}),
        (np.float32(1), np.array(1, np.float32)),
        (np.array(1, np.float32), np.float32(1)),
        (np.array([1], ">i4"), np.array([1], "<i4")),
        (np.array([1.0, 2.0]), masked),
        (1, True),
    ):
        stack = RowStack(4, allocate_plainly)
        stack.extend([first, first])
        stack.extend([other, first])
        rows = stack.finish()
        rows = list(rows.elements(0, 4)) if isinstance(rows, StackedRows) else rows
        assert [kind(row) for row in rows] == [*[kind(first)] * 2, kind(other), kind(first)]
        assert not isinstance(other, dict) or list(rows[2]) == list(other)


def test_rows_that_lie_side_by_side_are_columns_already():
    """Without a copy; some of the rows of an array, and rows of several arrays, too."""
    x, y = np.arange(40.0).reshape(10, 4), np.arange(20, dtype=np.int8).reshape(10, 2, 1)
    rows = [{"x": one, "y": other} for one, other in zip(x[1::2], y[1::2])]
    stacked = side_by_side(rows)
    assert isinstance(stacked, StackedRows)
    assert rows_of(stacked) == [plain(row) for row in rows]
    assert all(np.shares_memory(column, array) for column, array in zip(stacked.columns, (x, y)))


X = np.arange(40).reshape(10, 4)


@pytest.mark.parametrize(
    "rows",
    [
        [X[0], X[1], X[3]],
        [X[0], X[1], X[1]],
        [X[0], X[1], X[2].copy()],
        [X[0], X[1], X[2, :3]],
        [X[0], X[1], X[2].view(np.float64)],
        [X[0], X[1], "text"],
        [X[0], "text", X[1]],
        [X[2], X[1], X[0]],
        [{"a": X[0], "b": X[4]}, {"a": X[1], "b": X[5]}, {"b": X[6], "a": X[2]}],
        [{"a": X[0]}, {"a": X[1]}, {"b": X[2]}],
        [{"a": X[0], "n": 1}, {"a": X[1], "n": 2}],
        list(np.full((3, 2), None)),
        [1, 2],
        [{}, {}],
    ],
    ids=range(14),
)
def test_rows_that_do_not_lie_side_by_side_are_no_columns(rows):
    """One that differs, in whatever way, is enough."""
    assert side_by_side(rows) is None


def test_rows_stay_a_list_where_there_is_no_memory_for_columns():
    """Who sends them finds that, too, and tells it."""

    def none_left(specs):
        raise OSError("no shared memory")

    stack = RowStack(4, none_left)
    stack.extend([1, 2])
    assert stack.finish() == [1, 2]


def test_no_rows_are_no_rows():
    """A filter may drop all of a task."""
    assert RowStack(5, allocate_plainly).finish() == []


def test_tags_survive_being_packed():
    """Also those of rows of flat maps of flat maps, whose numbers are longer than 64 bits."""
    for rows in ([0, 0, 0], [0, 1, 2], [0, 7 << 70, 1]):
        tags = RowOrigins(array("q", [0, 0, 1]), array("q", [5, 5, 9]), rows)
        assert pickle.loads(pickle.dumps(tags)) == tags


def test_of_some_rows_those_with_the_last_one_are_open():
    """Later tasks make more rows of its input."""
    tags = RowOrigins(array("q", [0, 0, 1]), array("q", [5, 5, 9]), [0, 1, 0], True)
    assert [tags.some(each).open for each in ([0, 2], [0, 1], [])] == [True, False, False]


def test_columns_become_batches_of_batches():
    """Only the batch of all rows of a task is copied from the columns at once."""
    operations = [Filter(len), Batch(2), Batch(3)]
    source = list(np.arange(1200).reshape(600, 2))
    pipeline = iter(
        DataLoader(data_source=source, sampler=IndexSampler(600), operations=operations)
    ).pipeline
    worker = Worker(pipeline, stacks_rows=True)
    block = worker.run(SpanTask(0, 0, 600))
    assert isinstance(block.elements, StackedRows)
    (batch,) = worker.run(GroupTask(1, ((0, 0, 6),)), {0: block}).elements
    assert batch.tolist() == np.arange(12).reshape(3, 2, 2).tolist()
