"""What every way to workers must do: `headrace.testing.TransportConformance`, for worker processes,
Ray and the fake.
"""

from __future__ import annotations

import dataclasses
import os
import random
import signal

import pytest
from support.own_processes import zygote

from headrace.loader.executors.pooled import PooledExecutor
from headrace.loader.executors.processes.transport import ProcessTransport
from headrace.testing import FakeTransport, FakeWorkerDeath, TransportConformance
from headrace.testing.left_over import processes


@pytest.mark.slow
class TestProcesses(TransportConformance):
    """Worker processes."""

    def transport(self, pipeline, options):
        return ProcessTransport(pipeline, options, lambda nbytes: None)

    def end_all(self, transport):
        zygote().kill()


@pytest.mark.long
class TestPortableProcesses(TestProcesses):
    """Worker processes that use only what every POSIX system has."""

    @pytest.fixture(autouse=True)
    def portable(self, monkeypatch):
        """The way of other systems."""
        monkeypatch.setenv("HEADRACE_TRANSPORT", "portable")


@pytest.mark.ray
@pytest.mark.long
class TestRay(TransportConformance):
    """Actors of Ray."""

    def transport(self, pipeline, options):
        from headrace.loader.executors.ray.transport import RayTransport
        from headrace.loader.executors.ray.worker import RayWorker

        return RayTransport(pipeline, dataclasses.replace(options, worker_kind="ray"), RayWorker)

    def end_worker(self):
        # an actor that exits tells Ray of it, as one that was asked to
        os.kill(os.getpid(), signal.SIGKILL)

    def things(self):
        """Actors. Ray has threads, connections and idle processes when it likes."""
        return {
            "actor": {key: text for key, text in processes().items() if ": ray::RayWorker" in text}
        }


class TestFake(TransportConformance):
    """The fake, in any order of events, without faults."""

    elsewhere = False
    seed = 0
    depth: int | None = None

    def transport(self, pipeline, options):
        return FakeTransport(pipeline, random.Random(self.seed), options.workers, depth=self.depth)

    def executor(self, pipeline, options, observer, tuning=None):
        transport = self.transport(pipeline, options)
        return PooledExecutor(pipeline, options, observer, transport, transport.clock)

    def end_worker(self):
        raise FakeWorkerDeath

    def end_all(self, transport):
        transport._end_all()


class TestFakeWithDepth(TestFake):
    """As Ray: a worker has few messages at a time."""

    seed, depth = 1, 2
