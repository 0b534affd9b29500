"""Tests of whole runs on a transport (way to workers): the stream is as without workers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ..errors import WorkerCrashedError
from ..loader import DataLoader
from ..loader.executors.pooled import PooledExecutor
from ..loader.executors.protocol import Executor, Tuning
from ..loader.executors.transport import Transport
from ..loader.options import ExecutionOptions, ReadOptions
from ..loader.plan.pipeline import Pipeline
from ..loader.timing.observer import Observer
from ..operations import Batch, Filter, FlatMap, MapTransform, RandomMapTransform
from ..samplers import IndexSampler
from .comparing import assert_equal
from .simulation import executors_from

_COUNT = 40
_SPECIAL = 9  # the record at which something happens


class TransportRuns:
    """Base of `TransportConformance`: what a subclass defines, and tests of a whole loader."""

    worker_count = 2
    elsewhere = True
    seconds = 60.0

    def transport(self, pipeline: Pipeline, options: ExecutionOptions) -> Transport:
        """Return a new transport that runs a pipeline. Its workers are not started yet."""
        raise NotImplementedError

    def end_worker(self) -> None:
        """End the worker in which an operation calls this, as a crash does.

        The default ends the process.
        """
        os._exit(3)

    def executor(
        self,
        pipeline: Pipeline,
        options: ExecutionOptions,
        observer: Observer,
        tuning: Tuning | None = None,
    ) -> Executor:
        """Return the executor that runs a pipeline with the transport."""
        return PooledExecutor(pipeline, options, observer, self.transport(pipeline, options))

    @contextmanager
    def running(self, operations: Sequence[Any], **options: Any) -> Iterator[Any]:
        """Open an iterator of a loader of 40 integers, whose workers are those of the transport.

        And close it.
        """
        with (
            executors_from(self.executor),
            iter(self._loader(operations, self.worker_count, **options)) as iterator,
        ):
            yield iterator

    def _loader(
        self, operations: Sequence[Any], worker_count: int = 0, **options: Any
    ) -> DataLoader:
        sampler = IndexSampler(_COUNT, shuffle=True, seed=3, num_epochs=1)
        return DataLoader(
            data_source=range(_COUNT),
            sampler=sampler,
            operations=operations,
            worker_count=worker_count,
            read_options=ReadOptions(num_threads=0),
            **options,
        )

    def need_workers_elsewhere(self) -> None:
        """Skip the test if `elsewhere` is False."""
        if not self.elsewhere:
            pytest.skip("elsewhere is False")

    @pytest.mark.parametrize("name", ["records", "batches", "random", "regrouped"])
    def test_a_stream_is_the_same_as_without_workers(self, name: str) -> None:
        """Bit for bit: records, batches, random operations, batches of rows that a filter left."""
        every: dict[str, Sequence[Any]] = {
            "records": [MapTransform(lambda record: {"id": record, "text": str(record)})],
            "batches": [MapTransform(lambda record: np.full(300, record, np.float32)), Batch(4)],
            "random": [RandomMapTransform(lambda record, rng: record + rng.random()), Batch(3)],
            "regrouped": [
                Filter(lambda record: record % 3),
                Batch(5),
                FlatMap(lambda batch: [batch[:1], batch[1:]]),
                MapTransform(len),
                Batch(2),
            ],
        }
        operations = every[name]
        with self.running(operations) as iterator:
            found = list(iterator)
        assert_equal(found, list(self._loader(operations)))

    def test_a_run_resumes_from_a_state(self) -> None:
        """With other workers than those of the run that made the state."""
        operations = [Filter(lambda record: record % 3), Batch(4)]
        with self.running(operations) as iterator:
            found = [next(iterator), next(iterator)]
            state = iterator.get_state()
        with self.running(operations) as iterator:
            iterator.set_state(state)
            found += list(iterator)
        assert_equal(found, list(self._loader(operations)))

    def test_an_error_comes_at_its_place(self) -> None:
        """After all elements before it. The state after it leads to the same error."""

        def fail(record: int) -> int:
            if record == _SPECIAL:
                raise LookupError(f"this test fails at record {record}")
            return record

        with self.running([MapTransform(fail)]) as iterator:
            assert_equal(
                self._elements_until(
                    LookupError, iterator, f"this test fails at record {_SPECIAL}"
                ),
                self._before_special(),
            )
            iterator.set_state(iterator.get_state())
            with pytest.raises(LookupError, match=f"this test fails at record {_SPECIAL}"):
                next(iterator)

    def test_a_worker_that_ends_once_changes_nothing(self, tmp_path: Path) -> None:
        """Its tasks are run by other workers."""
        marker, end_worker = tmp_path / "ended", self.end_worker

        def end_once(record: int) -> int:
            if record == _SPECIAL and not marker.exists():
                marker.touch()
                end_worker()
            return record

        operations = [MapTransform(end_once), Batch(4)]
        with self.running(operations) as iterator:
            found = list(iterator)
        assert marker.exists(), "end_worker was not called"
        assert_equal(found, list(self._loader([Batch(4)])))

    @pytest.mark.parametrize("on_error", ["raise", "skip"])
    def test_a_record_that_ends_its_workers_is_named_or_skipped(self, on_error: str) -> None:
        """After three workers: `WorkerCrashedError` after all before it, or one skipped record."""
        end_worker = self.end_worker

        def end_always(record: int) -> int:
            if record == _SPECIAL:
                end_worker()
            return record

        with self.running([MapTransform(end_always)], on_error=on_error) as iterator:
            if on_error == "skip":
                whole = list(self._loader([]))
                assert_equal(list(iterator), [record for record in whole if record != _SPECIAL])
                assert iterator.skipped_count == 1
            else:
                found = self._elements_until(
                    WorkerCrashedError, iterator, f"record key {_SPECIAL} at .*3 times"
                )
                assert_equal(found, self._before_special())

    def test_a_task_that_exceeds_its_timeout_is_given_up(self) -> None:
        """After three workers were killed, with the record in the error."""
        self.need_workers_elsewhere()

        def hang(record: int) -> int:
            if record == _SPECIAL:
                time.sleep(1000)
            return record

        with self.running([MapTransform(hang)], timeout=0.5) as iterator:
            found = self._elements_until(
                WorkerCrashedError,
                iterator,
                rf"\b{_SPECIAL}\b.* stopped after timeout=0.5 s, 3 times",
            )
        assert_equal(found, self._before_special())

    def _elements_until(self, error: type[Exception], iterator: Any, match: str) -> list[Any]:
        """Return the elements before an error, which must come."""
        found: list[Any] = []
        with pytest.raises(error, match=match):
            for element in iterator:
                found.append(element)
        return found

    def _before_special(self) -> list[Any]:
        whole = list(self._loader([]))
        return whole[: whole.index(_SPECIAL)]
