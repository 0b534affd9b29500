"""Tests that every transport (way to workers) must pass."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ..errors import PicklingError
from ..loader import DataLoader
from ..loader.executors.transport import Transport
from ..loader.options import ExecutionOptions, ReadOptions
from ..loader.work.tasks import Block, GroupTask, SpanTask
from ..operations import Batch, Filter
from ..samplers import IndexSampler
from .comparing import assert_equal
from .left_over import Things, described, everything, new_things
from .transport_caller import TransportCaller
from .transport_runs import TransportRuns

FAILS, ENDS, WAITS = 7, 9, 11
"""Records at which the tests' operation raises an error, ends its worker, and waits for a file."""

_LARGE = 500_000  # numbers of a large row: 4 MB


class TransportConformance(TransportRuns):
    """Tests of a transport (way to workers): a subclass, named `Test…`, is collected by pytest.

    They check that workers start, run tasks and answer each message once and in order; that errors
    and deaths of workers are reported; that large messages arrive; that nothing is left after
    `close`; and that a stream is the same as without workers.

    Attributes:
        worker_count: number of workers.
        elsewhere: True (default): workers are outside of this process, so that they run while the
            caller does something else, and get the pipeline by pickle. False for a transport that
            runs tasks when it is polled, such as `FakeTransport`: the tests that need other
            processes are skipped.
        seconds: time after which a missing answer, or a thing that is left behind, is an error.

    >>> import random
    >>> from headrace.testing import FakeTransport, FakeWorkerDeath
    >>> class TestFake(TransportConformance):
    ...     elsewhere = False
    ...     def transport(self, pipeline, options):
    ...         return FakeTransport(pipeline, random.Random(0), options.workers)
    ...     def end_worker(self):
    ...         raise FakeWorkerDeath
    """

    def end_all(self, transport: Transport) -> None:
        """End the process that makes workers.

        The default skips the test: there is no such process.
        """
        pytest.skip("no single process makes all workers")

    def things(self) -> Things:
        """Return what must not be left behind.

        The default: threads, processes, descriptors and shared memory.
        """
        return everything()

    @contextmanager
    def opened(self, folder: Path, start: bool = True) -> Iterator[TransportCaller]:
        """Open the transport for records 0, 1, 2, …, and start its workers.

        An operation multiplies the records by 2.

        Args:
            folder: empty folder, through which the test and the operation communicate.
            start: True: start all workers, and wait until they are ready.
        """
        caller = self._caller(self._operation(folder))
        try:
            if start:
                caller.start(self.worker_count)
            yield caller
        finally:
            (folder / "go on").touch()
            caller.transport.close()

    def _caller(self, operation: Callable[[int], Any]) -> TransportCaller:
        sampler = IndexSampler(100_000, num_epochs=1)
        operations = [operation, Filter(lambda row: True), Batch(4)]
        pipeline = iter(
            DataLoader(data_source=range(100_000), sampler=sampler, operations=operations)
        ).pipeline
        transport = self.transport(pipeline, self._options())
        try:
            assert transport.worker_count == self.worker_count, (
                "worker_count is not the number in the options"
            )
            return TransportCaller(transport, self.seconds)
        except BaseException:
            transport.close()
            raise

    def _options(self) -> ExecutionOptions:
        return ExecutionOptions(self.worker_count, read_options=ReadOptions(num_threads=0))

    def _operation(self, folder: Path) -> Callable[[int], Any]:
        go_on, end_worker, seconds = folder / "go on", self.end_worker, self.seconds

        def double(record: int) -> int:
            if record == FAILS:
                raise LookupError(f"the test's own error, at record {record}")
            if record == ENDS:
                end_worker()
            deadline = time.monotonic() + seconds / 2
            while record == WAITS and not go_on.exists():
                if time.monotonic() > deadline:
                    raise TimeoutError("a call of the transport waited for this task")
                time.sleep(0.01)
            return 2 * record

        return double

    # One transport, without the executor

    def test_each_worker_is_ready_once(self, tmp_path: Path) -> None:
        """`Ready` comes for each worker; a worker without tasks sends nothing more."""
        with self.opened(tmp_path) as caller:
            for _ in range(5):
                caller.poll(0.01)
            assert caller.ready == set(range(self.worker_count))

    def test_each_message_is_answered_once_in_order(self, tmp_path: Path) -> None:
        """Each answer has the rows of its own message, and a worker's answers come in order."""
        with self.opened(tmp_path) as caller:
            spans = [(100 + 10 * number, 101 + 10 * number + number % 4) for number in range(20)]
            sent = [
                caller.send(n % self.worker_count, SpanTask(0, *span))
                for n, span in enumerate(spans)
            ]
            for number, span in zip(sent, spans):
                assert caller.rows(number) == [[2 * record for record in range(*span)]]
            caller.finish()
            caller.poll(0.01)

    def test_messages_may_be_sent_before_a_worker_is_ready(self, tmp_path: Path) -> None:
        """If `depth` is None, a worker may get messages as soon as it is started."""
        with self.opened(tmp_path, start=False) as caller:
            if caller.transport.depth is not None:
                pytest.skip("depth is not None")
            caller.start_soon(0)
            sent = [caller.send(0, SpanTask(0, start, start + 2)) for start in (100, 200)]
            assert [caller.rows(number) for number in sent] == [[[200, 202]], [[400, 402]]]

    def test_tasks_use_rows_of_other_workers(self, tmp_path: Path) -> None:
        """A message with several tasks refers to earlier blocks, also those of other workers."""
        with self.opened(tmp_path) as caller:
            spans = [
                caller.send(n % self.worker_count, SpanTask(0, 100 * n, 100 * n + 8))
                for n in (1, 2)
            ]
            blocks = {number: self._block(caller, number) for number in spans}
            one, other = spans
            tasks = [GroupTask(1, ((one, 4, 8),)), GroupTask(1, ((one, 2, 4), (other, 0, 2)))]
            for worker in range(self.worker_count):
                found = caller.rows(caller.send(worker, *tasks, blocks=blocks))
                rows = [[batch.tolist() for batch in batches] for batches in found]
                assert rows == [[[208, 210, 212, 214]], [[204, 206, 400, 402]]]

    def test_an_error_of_an_operation_is_in_its_block(self, tmp_path: Path) -> None:
        """The rows before the error arrive, and the error with its type and text.

        The worker runs further tasks.
        """
        with self.opened(tmp_path) as caller:
            failing = caller.send(0, SpanTask(0, FAILS - 2, FAILS + 1))
            further = caller.send(0, SpanTask(0, 200, 201))
            assert caller.rows(failing) == [[2 * FAILS - 4, 2 * FAILS - 2]]
            failure = self._block(caller, failing).failure
            assert failure is not None
            assert isinstance(failure.error, LookupError)
            assert f"record {FAILS}" in str(failure.error)
            assert caller.rows(further) == [[400]]

    def test_a_worker_that_ends_at_a_task_is_reported(self, tmp_path: Path) -> None:
        """The deadly message is not answered.

        The other workers go on, and a new worker can be started.
        """
        with self.opened(tmp_path) as caller:
            deadly = caller.send(0, SpanTask(0, ENDS, ENDS + 1))
            caller.wait_for(lambda: 0 in caller.ended, "the end of worker 0")
            caller.send(0, SpanTask(0, 300, 301))  # which does nothing …
            caller.transport.kill(0)  # … likewise
            caller.start()
            for worker in range(1, self.worker_count + 1):
                assert caller.rows(caller.send(worker, SpanTask(0, 200, 202))) == [[400, 402]]
            assert deadly not in caller.answers

    def test_a_killed_worker_ends(self, tmp_path: Path) -> None:
        """A worker that is killed at work is reported.

        For an idle one, or one that has ended, `kill` is harmless.
        """
        with self.opened(tmp_path) as caller:
            caller.send(0, SpanTask(0, WAITS, WAITS + 1))
            caller.transport.kill(0)
            caller.wait_for(lambda: 0 in caller.ended, "the end of worker 0")
            caller.start(2)
            caller.transport.kill(self.worker_count)
            caller.poll(0.05)
            assert caller.rows(caller.send(self.worker_count + 1, SpanTask(0, 200, 201))) == [[400]]

    def test_only_poll_waits_for_workers(self, tmp_path: Path) -> None:
        """While a worker is busy, `start`, `send` and `poll(0)` return and other workers answer."""
        self.need_workers_elsewhere()
        with self.opened(tmp_path) as caller:
            waiting = caller.send(0, SpanTask(0, WAITS, WAITS + 1))
            block = self._block(caller, caller.send(1, SpanTask(0, 100, 200)))
            if caller.transport.depth is None:
                tasks = [GroupTask(1, ((5, 4 * (n % 25), 4 * (n % 25) + 4),)) for n in range(1000)]
                for _ in range(30):  # far more than the buffer of a socket has room for
                    caller.send(0, *tasks, blocks={5: block})
            caller.poll(0)
            assert caller.rows(caller.send(1, SpanTask(0, 200, 201))) == [[400]]
            assert waiting not in caller.answers, (
                "a call of the transport waited until a task was done"
            )
            (tmp_path / "go on").touch()
            assert caller.rows(waiting) == [[2 * WAITS]]
            caller.finish()

    def test_large_rows_and_messages_arrive(self, tmp_path: Path) -> None:
        """Rows of megabytes arrive, and thousands of tasks in one message."""
        caller = self._caller(lambda record: np.full(_LARGE, record))
        try:
            caller.start(self.worker_count)
            block = self._block(caller, caller.send(0, SpanTask(0, 0, 4)))
            [batches] = caller.rows(
                caller.send(self.worker_count - 1, GroupTask(1, ((3, 0, 4),)), blocks={3: block})
            )
            assert_equal(batches, [np.arange(4)[:, None] + np.zeros(_LARGE, np.int64)])
            assert_equal(caller.load(block), list(batches[0]))
        finally:
            caller.transport.close()
        with self.opened(tmp_path) as caller:
            block = self._block(caller, caller.send(0, SpanTask(0, 1000, 6000)))
            tasks = [GroupTask(1, ((3, row, row + 1),)) for row in range(5000)]
            found = caller.rows(caller.send(self.worker_count - 1, *tasks, blocks={3: block}))
            assert [batch.tolist() for [batch] in found] == [
                [2 * record] for record in range(1000, 6000)
            ]

    def test_all_workers_may_end_with_the_process_that_makes_them(self, tmp_path: Path) -> None:
        """After `AllEnded` and `restart`, new workers can be started."""
        with self.opened(tmp_path) as caller:
            self.end_all(caller.transport)
            caller.wait_for(lambda: len(caller.ended) == self.worker_count, "AllEnded")
            caller.start()
            assert caller.rows(caller.send(self.worker_count, SpanTask(0, 200, 201))) == [[400]]

    def test_nothing_is_left_after_close(self, tmp_path: Path) -> None:
        """Whether workers are starting, idle or at work; `close` may be called twice, or never."""
        before = self.things()
        for state in ("starting", "idle", "at work", "dropped"):
            folder = tmp_path / state
            folder.mkdir()
            with self.opened(folder, start=False) as caller:
                if state == "starting":
                    caller.start_soon(0)
                else:
                    caller.start(self.worker_count)
                    caller.rows(caller.send(0, SpanTask(0, 100, 200)))
                if state in ("at work", "dropped"):
                    caller.send(0, SpanTask(0, WAITS, WAITS + 1))
                if state == "dropped":
                    caller.transport = _Dropped()  # type: ignore[assignment]
                caller.transport.close()
            del caller
            left = new_things(before, self.things, self.seconds)
            assert not left, f"{state}:\n{described(left)}"

    def test_an_interrupt_ends_the_wait_in_poll(self, tmp_path: Path) -> None:
        """Ctrl-C raises KeyboardInterrupt in `poll`, and `close` works after it."""
        self.need_workers_elsewhere()
        if threading.current_thread() is not threading.main_thread():
            pytest.skip("only the main thread gets Ctrl-C")
        before = self.things()
        with self.opened(tmp_path) as caller:
            caller.send(0, SpanTask(0, WAITS, WAITS + 1))
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                while True:
                    caller.poll(None)
            timer.join()
        del caller, timer
        left = new_things(before, self.things, self.seconds)
        assert not left, described(left)

    def test_a_pipeline_that_cannot_be_pickled_is_an_error(self) -> None:
        """What cannot be pickled is named at once.

        What cannot be unpickled raises its error in `poll`.
        """
        self.need_workers_elsewhere()
        lock = threading.Lock()
        with pytest.raises(PicklingError, match="lock"):
            self._caller(lambda record: (record, lock))
        caller = self._caller(_NotThere())
        try:
            with pytest.raises(ImportError, match="not there"):
                caller.start()
        finally:
            caller.transport.close()

    def _block(self, caller: TransportCaller, number: int) -> Block:
        """Return the only block of a message's answer."""
        caller.wait_for(lambda: number in caller.answers, f"an answer to message {number}")
        [block] = caller.answers[number]
        return block


class _Dropped:
    """Takes the place of a transport that is deleted without `close`."""

    def close(self) -> None:
        """Do nothing."""


class _NotThere:
    """An operation that only the process of the test has."""

    def __call__(self, record: int) -> int:
        return record

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return _fail_to_import, ()


def _fail_to_import() -> Any:
    raise ImportError("not there")
