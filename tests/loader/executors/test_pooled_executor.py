"""What executors whose workers a pool knows do with its decisions, whatever the workers are."""

from __future__ import annotations

from headrace import Batch, DataLoader, IndexSampler
from headrace.loader.executors.pool.executor import PooledExecutor
from headrace.loader.executors.pool.pool import WorkerPool
from headrace.loader.options import ExecutionOptions
from headrace.loader.timing.observer import Observer
from headrace.loader.work.tasks import SpanTask


class Played(PooledExecutor):
    """One whose single worker notes what it is sent; the first task is taken back, and another one comes before it."""

    def __init__(self):
        pipeline = iter(DataLoader(data_source=range(99), sampler=IndexSampler(99), operations=[Batch(4)]))._pipeline
        super().__init__(pipeline, ExecutionOptions(1), Observer(), WorkerPool(1, None, depth=3))
        self.sent = []
        self.first = None

    def _spawn(self, worker):
        pass

    def _give(self, worker, handles):
        if self.first is None:
            self.first = handles
            self._pool.take_back(worker, handles)
            self.submit(SpanTask(0, 80, 84))
            return
        self.sent += handles

    def begin(self):
        """The worker has begun."""
        self._pool.ready(0, 0.0)
        self._act(self._pool.give_waiting(0.0))

    def done(self):
        """What the pool takes for done, if the worker has done all that it was sent."""
        return self._pool.answered(0, len(self.sent), 0.0)


def test_a_worker_is_sent_tasks_in_the_order_in_which_the_pool_gave_them():
    """Also where a task, in the middle of several decisions, is taken back and another one submitted for it."""
    executor = Played()
    for number in range(3):
        executor.submit(SpanTask(0, 4 * number, 4 * number + 4))
    executor.begin()
    assert [handle.number for handle in executor.sent] == [1, 2, 3]
    assert executor.done() == executor.sent
