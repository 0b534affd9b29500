"""Tasks that are divided, as those are that ended their worker: the same stream, and the same from
every place on.
"""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import plain, tries
from support.plain_model import NothingComesError, PlainModel
from support.random_programs import Broken, failing_recipes, stream_of

from headrace.errors import EmptyStreamError
from headrace.loader.executors.pace import limits_of
from headrace.loader.executors.pooled import parts_of
from headrace.loader.stream.flow import Flow
from headrace.loader.stream.stage_output import SkippedRecords
from headrace.loader.timing.observer import Observer
from headrace.loader.work.tasks import NO_BLOCKS, Block
from headrace.loader.work.worker import Worker

MOST = 30
"""Elements of a stream that are looked at."""


class Dividing:
    """An executor that has every task divided as far as it can be."""

    def __init__(self, pipeline: Any, window: int) -> None:
        self._pipeline, self._worker, self._window = pipeline, Worker(pipeline), window
        self._limits = limits_of(pipeline, several=True)

    def inputs(self, stage: int) -> int:
        return min(2 * self._limits[stage].least, self._limits[stage].task)

    def most_rows(self) -> int:
        return 32

    def window(self, stage: int) -> int:
        return self._window

    def submit(self, task: Any, blocks: Any = NO_BLOCKS) -> Any:
        parts = parts_of(task, self._pipeline)
        if parts == [task]:
            return _Done(self._worker.run(task, blocks))
        return _Done(Block(parts=parts))

    def close(self) -> None:
        """Nothing is open."""


class _Done:
    def __init__(self, block: Block) -> None:
        self._block = block

    def ready(self) -> bool:
        return True

    def result(self) -> Block:
        return self._block


def run(pipeline: Any, start: Any, window: int) -> tuple[list[Any], list[Any], str | None, int]:
    """The elements from a cursor on, those that follow each, the failure after them, and how much
    was left out.
    """
    skipped = SkippedRecords()
    flow = Flow(pipeline, start, Dividing(pipeline, window), skipped, Observer())
    elements, cursors = [], []
    try:
        for element, rows, row in itertools.islice(flow, MOST):
            elements.append(plain(element))
            cursors.append(rows.origin.cursor_after(row))
    except Broken as failure:
        return elements, cursors, str(failure), skipped.count
    return elements, cursors, None, skipped.count


@given(recipe=failing_recipes(), skips=st.booleans(), window=st.sampled_from([1, 3]))
@tries(200)
def test_a_stream_does_not_depend_on_the_division_of_tasks(recipe, skips, window):
    """Nor do the places from which it goes on, what fails, and what is left out."""
    dataset = stream_of(recipe, broken=True).with_options(on_error="skip" if skips else "raise")
    try:
        whole, cursors, failure, skipped = run(dataset._pipeline, dataset._pipeline.start, window)
        model = PlainModel.of(dataset)
        expected = [plain(element) for element in itertools.islice(_until_broken(model), MOST)]
    except (EmptyStreamError, NothingComesError):
        return
    assert whole == expected
    assert skipped >= model.skipped
    for step, cursor in enumerate(cursors, 1):
        rest, _, again, _ = run(dataset._pipeline, cursor, window)
        assert rest[: len(whole) - step] == whole[step:]
        assert failure is None or again == failure


def _until_broken(model: PlainModel) -> Any:
    try:
        yield from model
    except Broken:
        return
