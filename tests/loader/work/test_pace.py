"""Tasks are of some time: they begin small, grow while they are short, and shrink when they are
not.
"""

import sys

import numpy as np
import pytest
from support.crowds import Counted
from support.pools import new_pool

from headrace import Batch, IndexSampler, IterDataset, MapDataset, ReadOptions
from headrace.loader.executors.pace import (
    MAX_REREAD_UNITS,
    MAX_UNITS,
    REREAD_BYTES,
    TASK_BYTES,
    TASK_SECONDS,
    WINDOW_BYTES,
    Limits,
    Pace,
    TaskSizes,
    limits_of,
)
from headrace.loader.options import ExecutionOptions
from headrace.loader.plan.build import make_pipeline
from headrace.loader.stream.join import JoinedRuns
from headrace.loader.work.tasks import Block, GroupTask, SpanTask

BATCHES = Limits(100, 100 * MAX_UNITS, 100 * MAX_UNITS)
RECORDS = Limits(1, 1024, 1024)
GROUPS = Limits(100, 100, 800)
ROWS = Limits(1, 32, 512)


def _after(*tasks, limits: Limits = BATCHES) -> Pace:
    """The pace after tasks, each given as (inputs, seconds, rows, bytes)."""
    pace = Pace({0: limits})
    for inputs, seconds, rows, size in tasks:
        pace.note(SpanTask(0, 0, inputs), seconds, 0.0, rows, size)
    return pace


def test_the_first_task_is_as_small_as_can_be():
    """Nothing is known yet, and the first element should come soon: one batch, or one record."""
    assert _after().inputs(0) == 100
    assert _after(limits=RECORDS).inputs(0) == 1
    assert _after(limits=ROWS).inputs(0) == 1


def test_tasks_grow_twofold_while_they_are_short_and_small():
    """Up to a largest number of batches."""
    assert _after((100, 1e-5, 1, 100)).inputs(0) == 200
    assert _after((800, 1e-5, 8, 100)).inputs(0) == 1600
    assert _after((100 * MAX_UNITS, 1e-5, MAX_UNITS, 100)).inputs(0) == 100 * MAX_UNITS


def test_long_or_large_tasks_stay_one_batch():
    """A slow operation, or large batches."""
    assert _after((100, 0.04, 1, 100)).inputs(0) == 100
    assert _after((100, 1e-5, 1, TASK_BYTES)).inputs(0) == 100


def test_a_quick_task_of_full_length_needs_no_note():
    """It would change nothing; one that is long, or gives more rows than may be, does."""
    full = _after((512, 1e-5, 512, 100), limits=RECORDS)
    assert full.inputs(0) == 1024
    assert full.is_settled(0, 1e-5, 1024)
    assert not full.is_settled(0, 2 * TASK_SECONDS, 1024)
    assert not full.is_settled(0, 1e-5, 1025)
    assert not _after((256, 1e-5, 256, 100), limits=RECORDS).is_settled(0, 1e-5, 512)


def test_groups_of_a_join_need_not_cut_what_comes_of_it():
    """However tasks and joins grow, a batch is made of whole takes of the join, and these of whole
    tasks of its inputs.
    """
    taken = []

    class Counted(JoinedRuns):
        def _take(self, choices):
            taken.append(len(choices))
            return super()._take(choices)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.loader.stream.flow.JoinedRuns", Counted)
        streams = [MapDataset.range(4000).to_iter_dataset() for _ in range(2)]
        assert len(list(IterDataset.mix(streams).batch(64))) == 125
    ends = set(np.cumsum(taken).tolist())
    cut = set(range(64, 8001, 64)) - ends
    assert len(cut) <= 12  # where the machine was busy elsewhere, takes become smaller for a while


def test_records_of_a_slow_operation_go_one_by_one():
    """A call of 0.2 s is a task of its own, and so is one that was quick before."""
    assert _after((1, 0.2, 1, 100), limits=RECORDS).inputs(0) == 1
    assert _after((1, 1e-5, 1, 0), (2, 1e-5, 2, 0), (4, 0.8, 4, 0), limits=RECORDS).inputs(0) == 1


def test_what_a_flat_map_makes_is_bounded():
    """Rows count as much as inputs: one record that becomes 1,000 rows is a task, where 1,024 rows
    are the most.
    """
    assert _after((1, 1e-5, 1000, 0), limits=RECORDS).inputs(0) == 1
    assert (
        _after((1, 1e-5, 100, 0), (2, 1e-5, 200, 0), (4, 1e-5, 400, 0), limits=RECORDS).inputs(0)
        == 8
    )
    assert _after((8, 1e-5, 800, 0), limits=RECORDS).inputs(0) == 8


def test_a_task_that_waits_for_records_takes_as_long_as_it_waits():
    """Else many batches would come at once, after a long time; a worker that waits is
    told apart.
    """
    pace = Pace({0: RECORDS})
    pace.note(SpanTask(0, 0, 16), 0.02, 0.0199, 16)
    assert pace.inputs(0) == 16
    pace.note(SpanTask(0, 0, 16), 0.01, 0.0099, 16)
    assert pace.inputs(0) == 32
    assert pace.waits(0)
    for _ in range(200):
        pace.note(SpanTask(0, 0, 16), 0.02, 0.0, 16)
    assert not pace.waits(0)


def test_tasks_are_smaller_where_tasks_read_what_others_wrote():
    """It should be in the caches still, and their rows' tags go along in a message."""
    for stages, size, inputs in (
        (1, REREAD_BYTES, 200),
        (2, REREAD_BYTES, 100),
        (2, REREAD_BYTES // 2, 200),
    ):
        pace = Pace(dict.fromkeys(range(stages), BATCHES))
        pace.note(SpanTask(0, 0, 100), 1e-5, 0.0, 1, size)
        assert pace.inputs(0) == inputs


def test_tasks_shrink_when_they_become_long():
    """At once, to what fits."""
    assert _after((1600, 4 * TASK_SECONDS, 16, 100)).inputs(0) == 400
    assert _after((1600, 1.0, 16, 100)).inputs(0) == 100


def test_a_group_is_expected_to_take_what_its_rows_took():
    """Expectations are for each stage, by the number of inputs."""
    pace = Pace({0: BATCHES, 1: GROUPS})
    pace.note(SpanTask(0, 0, 200), 1e-3, 0.0, 2)
    group = GroupTask(1, ((0, 0, 50), (2, 0, 50)))
    pace.note(group, 2e-4, 0.0, 1)
    assert 400 * pace.seconds[0] == pytest.approx(2e-3)
    assert 100 * pace.seconds[1] == pytest.approx(2e-4)


def test_groups_go_together_while_they_are_short_and_small():
    """Twofold at a time, up to a largest number; large ones go alone. Each is one batch."""
    group = GroupTask(1, ((0, 0, 50), (2, 0, 50)))
    pace = Pace({0: BATCHES, 1: GROUPS})
    sizes = [pace.tasks(1)]
    for _ in range(6):
        pace.note(group, TASK_SECONDS / 15, 0.0, 1)
        sizes.append(pace.tasks(1))
    assert sizes == [1, 2, 4, 8, 8, 8, 8]
    assert pace.inputs(1) == 100
    pace.note(group, 2e-4, 0.0, 1, TASK_BYTES)
    assert pace.tasks(1) == 1


def test_rows_of_a_join_make_a_task_first_and_then_a_message():
    """One at first; 32 in a task, and several such tasks in a message."""
    pace = Pace({0: RECORDS, 1: ROWS})
    seen = []
    for _ in range(8):
        seen.append((pace.inputs(1), pace.tasks(1)))
        pace.note(GroupTask(1, ((0, 0, pace.inputs(1)),)), 1e-5, 0.0, pace.inputs(1))
    assert seen == [(1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (32, 1), (32, 2), (32, 4)]


def test_limits_are_those_of_the_plan():
    """A batch is whole; records before a batch go up to what some batches need; with a timeout,
    tasks are one batch.
    """
    import headrace

    def of(*operations, several=True):
        sampler = headrace.IndexSampler(1000, num_epochs=1)
        return limits_of(make_pipeline(list(range(1000)), sampler, operations, None), several)

    keep = headrace.Filter(lambda x: x % 2 == 0)
    assert of(headrace.Batch(8)) == {0: Limits(8, 8 * MAX_UNITS, 8 * MAX_UNITS)}
    assert of(headrace.Batch(8), several=False) == {0: Limits(8, 8, 8)}
    assert of(keep) == {0: Limits(1, 32 * MAX_UNITS, 32 * MAX_UNITS)}
    most = 256 * MAX_REREAD_UNITS
    assert of(keep, headrace.Batch(256)) == {0: Limits(1, most, most), 1: Limits(256, 256, most)}
    assert of(headrace.Pack(8, window=10), headrace.Batch(2))[0].nbytes == WINDOW_BYTES


def _sizes_after(block: Block, **options) -> TaskSizes:
    """The sizes of tasks of two workers, after a batch of 4 records that are read ahead."""
    pipeline = make_pipeline(Counted(1000), IndexSampler(1000), [Batch(4)], None)
    sizes = TaskSizes(pipeline, ExecutionOptions(2, **options), new_pool(2))
    sizes.note(SpanTask(0, 0, 4), block)
    return sizes


@pytest.mark.parametrize(("timeout", "inputs"), [(None, 8), (5.0, 4)])
def test_a_task_with_a_timeout_is_one_batch(timeout, inputs):
    """However quick it is: the user's seconds are for a batch."""
    assert _sizes_after(Block(1, seconds=1e-5), timeout=timeout).inputs(0) == inputs


def test_workers_that_wait_for_records_have_tasks_for_all_that_is_read_ahead():
    """Each of both has its own reads: of 40 records, which are ten batches, beside the batch that
    it is at.
    """
    block, reads = Block(1, seconds=0.02, waited=0.019), ReadOptions(prefetch_buffer_size=40)
    assert _sizes_after(block, read_options=reads).window(0) == 2 * (1 + 10)


def test_fewer_tasks_have_room_where_their_rows_are_large():
    """As many as their rows take of a number of bytes, shared by the stages; the largest rows of
    late count.
    """
    pace = Pace({0: BATCHES, 1: GROUPS})
    assert pace.tasks_within(0, 100, 1000) == sys.maxsize
    assert pace.note(SpanTask(0, 0, 100), 1.0, 0.0, 1, 5000)
    assert pace.tasks_within(0, 100, 40_000) == 4
    assert pace.tasks_within(0, 200, 40_000) == 2
    assert pace.tasks_within(0, 100, None) == sys.maxsize
    assert not pace.note(SpanTask(0, 0, 100), 1.0, 0.0, 1, 3000)
    assert pace.tasks_within(0, 100, 40_000) == 4
    pace.note(SpanTask(0, 0, 100), 1.0, 0.0, 0, 0)
    assert pace.tasks_within(0, 100, 40_000) == 4, (
        "a task whose records were all left out tells nothing"
    )


def test_who_has_waited_is_known_to_wait_for_a_while():
    """Tasks do not wait once enough records are under way; to have fewer then would have them wait
    again.
    """
    pace = Pace({0: BATCHES})
    assert not pace.waits(0)
    pace.note(SpanTask(0, 0, 100), 0.1, 0.09, 100)
    assert pace.waits(0)
    for _ in range(50):
        pace.note(SpanTask(0, 0, 100), 0.01, 0.0, 100)
    assert pace.waits(0)
    for _ in range(200):
        pace.note(SpanTask(0, 0, 100), 0.01, 0.0, 100)
    assert not pace.waits(0)
