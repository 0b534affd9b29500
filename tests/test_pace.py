"""Tasks grow while they are short, and shrink when they are not."""

import pytest

from millrace.loader.executors.pooled.pace import Pace
from millrace.loader.executors.pooled.tuned import (
    MAX_REREAD_UNITS,
    MAX_UNITS,
    REREAD_BYTES,
    TASK_BYTES,
    TASK_SECONDS,
)
from millrace.loader.work.tasks import GroupTask, RowRange, SpanTask


def _after(*tasks, span: int = 100) -> Pace:
    """The pace after tasks, each given as (spans, seconds, bytes)."""
    pace = Pace({0: span})
    for spans, seconds, size in tasks:
        pace.note(SpanTask(0, 0, spans * span), seconds, size)
    return pace


def test_the_first_task_is_one_span():
    """Nothing is known yet, and the first batch should come soon."""
    assert _after().together(0) == 1


def test_tasks_grow_twofold_while_they_are_short_and_small():
    """Up to a largest number of spans."""
    assert _after((1, 1e-5, 100)).together(0) == 2
    assert _after((8, 1e-5, 100)).together(0) == 16
    assert _after((MAX_UNITS, 1e-5, 100)).together(0) == MAX_UNITS


def test_long_or_large_tasks_stay_one_span():
    """A slow operation, or large batches."""
    assert _after((1, 0.04, 100)).together(0) == 1
    assert _after((1, 1e-5, TASK_BYTES)).together(0) == 1


def test_tasks_are_smaller_where_tasks_read_what_others_wrote():
    """It should be in the caches still, and their rows' tags go along in a message."""
    for stages, size, together in (
        (1, REREAD_BYTES, 2),
        (2, REREAD_BYTES, 1),
        (1, TASK_BYTES, 1),
        (2, REREAD_BYTES // 2, 2),
    ):
        pace = Pace({0: 100}, stages)
        pace.note(SpanTask(0, 0, 100), 1e-5, size)
        assert pace.together(0) == together
    pace = Pace({0: 100}, stages=2)
    pace.note(SpanTask(0, 0, 100 * MAX_REREAD_UNITS), 1e-5, 100)
    assert pace.together(0) == MAX_REREAD_UNITS


def test_tasks_shrink_when_they_become_long():
    """At once, to what fits."""
    assert _after((16, 4 * TASK_SECONDS, 100)).together(0) == 4
    assert _after((16, 1.0, 100)).together(0) == 1


def test_a_group_is_expected_to_take_what_its_rows_took():
    """Expectations are for each stage, by the number of inputs."""
    pace = _after((2, 1e-3, 100))
    group = GroupTask(1, (RowRange(0, 0, 50), RowRange(2, 0, 50)))
    pace.note(group, 2e-4, 100)
    assert pace.expected_seconds(SpanTask(0, 0, 400)) == pytest.approx(2e-3)
    assert pace.expected_seconds(group) == pytest.approx(2e-4)


def test_groups_go_together_while_they_are_short_and_small():
    """Twofold at a time, up to a largest number; large ones go alone."""
    group = GroupTask(1, (RowRange(0, 0, 50), RowRange(2, 0, 50)))
    pace = _after()
    sizes = [pace.together(1)]
    for _ in range(6):
        pace.note(group, TASK_SECONDS / 15, 100)
        sizes.append(pace.together(1))
    assert sizes == [1, 2, 4, 8, 8, 8, 8]
    pace.note(group, 2e-4, TASK_BYTES)
    assert pace.together(1) == 1
