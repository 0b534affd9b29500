"""Tasks are messages: they name rows by number, and can be done anywhere, again and again."""

import pickle

import cloudpickle
import numpy as np
import pytest
from support.pipelines import PIPELINES, loader, plain, stream

from headrace import Batch, Filter, load
from headrace.loader.executors.pace import limits_of
from headrace.loader.plan.pipeline import Pipeline
from headrace.loader.stream.flow import Flow
from headrace.loader.stream.rows import span_requests
from headrace.loader.stream.stage_output import SkippedRecords
from headrace.loader.timing.observer import Observer
from headrace.loader.work.stopwatch import Stopwatch
from headrace.loader.work.tasks import NO_BLOCKS, GroupTask, SpanTask
from headrace.loader.work.worker import Worker


class LooksAlways(Stopwatch):
    """Times every operation of every task."""

    def __init__(self):
        super().__init__(0)

    def end(self, *found):
        times = super().end(*found)
        self.every = 1
        return times

    def may_look(self, calls):
        return True


class Far:
    """An executor that has each task done twice, by workers that know of it only what pickle
    carries; one of them is timed.
    """

    def inputs(self, stage):
        return self._inputs[stage]

    def __init__(self, pipeline: Pipeline) -> None:
        self._inputs = {
            number: each.task for number, each in limits_of(pipeline, several=False).items()
        }
        data = cloudpickle.dumps(pipeline)
        self._workers = [
            Worker(cloudpickle.loads(data), stopwatch=one) for one in (None, LooksAlways)
        ]
        self.kinds: set[type] = set()

    def window(self, stage):
        return 3

    def submit(self, task, blocks=NO_BLOCKS):
        self.kinds.add(type(task))
        message = cloudpickle.dumps((task, dict(blocks)))
        first, again = (worker.run(*pickle.loads(message)) for worker in self._workers)
        assert [plain(row) for row in first.elements] == [plain(row) for row in again.elements]
        assert again.times.look is not None
        return _Done(first)

    def close(self):
        pass


class _Done:
    def __init__(self, block):
        self.result = lambda: block
        self.ready = lambda: True


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.one_in(6)
def test_tasks_of_every_pipeline_can_be_done_elsewhere(name):
    """Sent as bytes and done by others, they give the same stream."""
    one = loader(name)
    executor = Far(one._pipeline)
    flow = Flow(one._pipeline, one._pipeline.start, executor, SkippedRecords(), Observer())
    assert stream(element for element, _, _ in flow) == stream(one)
    assert executor.kinds == (
        {SpanTask} if len(one._pipeline.stages) == 1 else {SpanTask, GroupTask}
    )


def test_a_source_in_memory_is_sent_once():
    """Its columns, which batches are taken from, are not sent beside it."""
    array = np.zeros((1000, 1000))
    pipeline = load(array, batch_size=8)._pipeline
    assert pipeline.columns is not None
    buffers = []
    cloudpickle.dumps(pipeline, protocol=5, buffer_callback=buffers.append)
    assert sum(buffer.raw().nbytes for buffer in buffers) == array.nbytes


def test_tasks_that_grow_are_no_longer_than_their_limit_and_end_at_multiples_of_it():
    """Counted from where the reading began."""
    (stage,) = iter(load(range(50), batch_size=2)).pipeline.stages
    limits = iter([4, 8, 8, 16, 16])
    requests = span_requests(stage, 0, [(2, 50)], lambda _: next(limits))
    assert [one.task.span for one in requests] == [(2, 6), (6, 10), (10, 18), (18, 34), (34, 50)]


def test_a_task_is_a_few_numbers():
    """Whatever the size of its rows, which stay where they are."""
    pipeline = load(
        np.zeros((64, 1000)), transformations=[Filter(lambda row: True), Batch(32)]
    )._pipeline
    sizes = []

    class Measuring(Far):
        def submit(self, task, blocks=NO_BLOCKS):
            sizes.append(len(pickle.dumps(task)))
            return super().submit(task, blocks)

    next(iter(Flow(pipeline, pipeline.start, Measuring(pipeline), SkippedRecords(), Observer())))
    assert max(sizes) < 200
