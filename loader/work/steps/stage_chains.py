"""The chains (connected operations) of all stages of a worker, and the choice of one for each task.

A stage is a group of operations that run in one task.

In: the stage of a task. Out: its chain. Most tasks get a chain that measures nothing. Some tasks
get a chain that measures the time of each operation. The first task of each stage gets a chain that
detects draws from global random generators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....operations.protocol import Allocate
from ...timing.draws import DrawWatch
from ...timing.times import OperationTimes
from ..explain import name_of
from ..notices import Notices
from ..stopwatch import OperationClock, Stopwatch
from .chain import StepChain

if TYPE_CHECKING:
    from ...plan.pipeline import Pipeline


class StageChains:
    """The chains (connected operations) of all stages of one worker.

    A stage is a group of operations that run in one task.

    Args:
        pipeline: pipeline of the worker.
        allocate: function that returns the memory of batches.
        batch_size: number of records in each batch, if the first stage gets batches as inputs; None
            if it gets records.
        notices: object that collects warnings.
        stopwatches: the stopwatch of each stage; empty if nothing is timed.
        watches: True to warn of operations that draw from global generators.
        held: dict from the index of an operation to the random generators that it has as
            attributes. These and the global generators are seeded for each element. None: nothing
            is seeded.

    Attributes:
        plain: for each stage, the chain that measures nothing.
        unwatched: stages of which no task was watched for draws from global generators yet.
        used: chain of the current task; None if there is none.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        allocate: Allocate,
        batch_size: int | None,
        notices: Notices,
        stopwatches: Sequence[Stopwatch],
        watches: bool,
        held: Mapping[int, Sequence[Any]] | None,
    ) -> None:
        self._pipeline = pipeline
        self._allocate = allocate
        self._batch_size = batch_size
        self._notices = notices
        self._stopwatches = stopwatches
        self._held = held
        self._to_watch = set(range(len(pipeline.stages))) if watches else set[int]()
        self.unwatched = set(self._to_watch)
        self._watch: tuple[int, DrawWatch, StepChain] | None = None  # of the current task
        self.plain = [self._chain(number) for number in range(len(pipeline.stages))]
        self._timed: dict[int, tuple[StepChain, OperationClock]] = {}  # by the index of the stage
        self.used: StepChain | None = None

    def _chain(self, stage: int, clock: OperationClock | DrawWatch | None = None) -> StepChain:
        chain = StepChain(
            self._pipeline,
            self._pipeline.stages[stage],
            self._allocate,
            self._notices.tell,
            clock,
            self._held is not None,
            self._held or {},
        )
        if stage == 0 and self._batch_size is not None:
            chain.enter_after_batch(self._batch_size)
        return chain

    def for_task(self, stage: int, inputs: int, timing: bool) -> StepChain:
        """Return a stage's chain (connected operations) for a task.

        If the task is timed and enough time is left for it, the chain measures the time of each
        operation.

        Args:
            stage: index of the stage (operations that run in one task).
            inputs: number of inputs of the task.
            timing: True if the task is timed.
        """
        self.used = chain = self._timed_or_not(stage, inputs) if timing else self._untimed(stage)
        return chain

    def _timed_or_not(self, stage: int, inputs: int) -> StepChain:
        if stage not in self._timed:
            operations = self._pipeline.stages[stage].operations
            single = next(
                (n for n, one in enumerate(operations) if one.takes is not None), len(operations)
            )
            of_one = self._batch_size if self._batch_size and not stage else 1
            clock = OperationClock(len(operations), single, of_one)
            self._timed[stage] = self._chain(stage, clock), clock
        timed, clock = self._timed[stage]
        may_look = self._stopwatches[stage].may_look(clock.calls(inputs))
        return timed if may_look else self._untimed(stage)

    def _untimed(self, stage: int) -> StepChain:
        """Return a stage's chain (connected operations) that measures no times.

        A stage is a group of operations that run in one task. If the user is to be warned of draws
        from global random generators, the chain for the first task of a stage detects such draws.
        """
        if stage not in self.unwatched:
            return self.plain[stage]
        self.unwatched.discard(stage)
        watch = DrawWatch()
        chain = self._chain(stage, watch)
        self._watch = stage, watch, chain
        return chain

    def take_times(self, stage: int) -> OperationTimes | None:
        """Return the times of a stage's operations since the last call; None if none were timed.

        A stage is a group of operations that run in one task.
        """
        return self._timed[stage][1].take() if stage in self._timed else None

    def watch_again(self) -> None:
        """Watch the next task of each stage for draws from global random generators.

        A stage is a group of operations that run in one task. Usually, only its first task is
        watched.
        """
        self.unwatched |= self._to_watch

    def tell_of_draws(self) -> None:
        """Collect warnings about draws from global random generators, if the last task was watched.

        Do nothing if no task was watched since the last call. The chain (connected operations) of
        the watched task is closed.
        """
        if self._watch is None:
            return
        (stage, watch, chain), self._watch = self._watch, None
        chain.close()
        operations = self._pipeline.stages[stage].operations
        for place, generator in watch.take(len(operations)):
            name = name_of(self._pipeline, self._pipeline.stages[stage].first + place)
            self._notices.tell_of_draws(name, generator)

    def end(self, stage: int, failed: bool) -> None:
        """Record that a task of a stage (operations that run in one task) has ended.

        After a failed task, elements may be left inside the stage's chains (connected operations),
        so new chains are made.
        """
        if failed:
            timed = self._timed.pop(stage, (None, None))[0]
            for chain in (self.used, self.plain[stage], timed):
                if chain is not None:
                    chain.close()
            self.plain[stage] = self._chain(stage)
        self.used = None

    def close(self) -> None:
        """Release the elements that a failed task has left inside the connected operations."""
        for chain in (*self.plain, *(chain for chain, _ in self._timed.values())):
            chain.close()
