"""A process executor whose workers a test plays."""

from __future__ import annotations

from headrace import Batch, DataLoader, IndexSampler
from headrace.loader.executors.pooled import PooledExecutor
from headrace.loader.executors.processes.transport import ProcessTransport
from headrace.loader.options import ExecutionOptions
from headrace.loader.timing.observer import Observer
from headrace.loader.work.tasks import SpanTask
from support.played_workers import FakeSpawner

SIGKILL = 9


def _pipeline(*operations):
    return iter(
        DataLoader(data_source=range(1000), sampler=IndexSampler(1000), operations=operations)
    )._pipeline


SPANS = _pipeline(Batch(4))


class Played:
    """An executor whose workers are played."""

    def __init__(self, workers=1, timeout=None, pipeline=SPANS, **more):
        self.zygote = FakeSpawner()
        self.observer = Observer()
        options = ExecutionOptions(workers, worker_buffer_size=2, timeout=timeout, **more)
        self.transport = ProcessTransport(
            pipeline, options, self.observer.slabs.add, spawner=self.zygote
        )
        self.executor = PooledExecutor(pipeline, options, self.observer, self.transport)
        for worker in self.zygote.workers.values():
            worker.begin()
        self.hear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.executor.close()

    def __getitem__(self, worker):
        return self.zygote.workers[worker]

    def submit(self, count, length=4):
        """Spans, one after the other from position 0."""
        return [
            self.executor.submit(SpanTask(0, length * n, length * (n + 1))) for n in range(count)
        ]

    def hear(self):
        """Have the executor handle all that has come."""
        for _ in range(50):
            self.executor.handle_events(wait=False)

    def finish(self):
        """Have all workers answer all tasks, until there is nothing to answer any more."""
        for _ in range(5):
            for worker in list(self.zygote.workers.values()):
                worker.channel.full = False
                worker.answer(1000)
            self.hear()
