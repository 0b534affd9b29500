"""Puts results back into order, and keeps the executor busy with what comes next.

In: requests, pulled one by one. Out: (request, block) in their order, whatever order they were finished in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Protocol

from ..executors.protocol import Executor, Handle
from ..plan.stages import Stage
from ..work.tasks import Block, SpanTask
from .pull import Ended, Pull
from .rows import Request, span_request


class Results(Protocol):
    """Has tasks run and gives their blocks in order. Used by one thread at a time."""

    def fill(self) -> None:
        """Have work begin, without waiting."""

    def next(self, wait: bool) -> tuple[Request, Block] | Ended | None:
        """The next request and its block; `Ended`, ever again; None if `wait` is False and there is none at hand."""


class Spans:
    """Requests for the spans of a leaf, in order: those of `ranges` of local positions, each as long as `length()` says then.

    Where the length grows, a span is shorter, so that it ends at a multiple of the length: groups made of its rows end there,
    too, and need not cut what comes of it.
    """

    def __init__(
        self, stage: Stage, leaf: int, ranges: Iterable[tuple[int, int]], length: Callable[[int], int]
    ) -> None:
        self._stage = stage
        self._leaf = leaf
        self._ranges = iter(ranges)
        self._length = length
        self._first = self._start = self._stop = 0  # of the range, and where its next span begins

    def next(self, wait: bool) -> Request | Ended:
        """The next span; they are all at hand."""
        while self._start >= self._stop:
            found = next(self._ranges, None)
            if found is None:
                return Ended()
            self._first, self._stop = self._start, _ = found
        start, length = self._start, self._length(self._stage.number)
        self._start = stop = min(start + length - (start - self._first) % length, self._stop)
        return span_request(SpanTask(self._stage.number, start, stop, self._leaf), self._stage)


class OnDemand:
    """Has each task run when its block is asked for: an executor that works only then needs no queue."""

    def __init__(self, requests: Pull[Request], executor: Executor) -> None:
        self._requests = requests
        self._submit = executor.submit
        self._divided: deque[Request] = deque()  # what is to be done in place of a request
        self._ended: Ended | None = None

    def fill(self) -> None:
        """Nothing runs ahead."""

    def next(self, wait: bool) -> tuple[Request, Block] | Ended | None:
        """The next request and its block."""
        if self._ended is not None or not wait:
            return self._ended
        while True:
            request = self._divided.popleft() if self._divided else self._requests.next(True)
            if isinstance(request, Ended) or request is None:
                return request
            asked = perf_counter()
            block = self._submit(request.task, request.blocks).result()
            block.moments = asked, asked, perf_counter()
            if block.parts:
                self._divided.extendleft(reversed(request.divided(block.parts)))
                continue
            if block.failure is not None:
                self._ended = Ended(block.failure)
            return request, block


class Ordered:
    """Has tasks run ahead. At most `executor.window(stage)` of them are submitted at a time."""

    def __init__(self, requests: Pull[Request], executor: Executor, stage: int) -> None:
        self._requests = requests
        self._stage = stage
        self._executor = executor
        self._submitted: deque[tuple[Request, Handle, float]] = deque()  # and when
        self._ended: Ended | None = None

    def fill(self, wait: bool = False) -> None:
        """Submit tasks while there are any and the window has room; with `wait`, at least one."""
        room = self._executor.window(self._stage) - len(self._submitted)
        while room > 0 and self._ended is None:
            request = self._requests.next(wait and not self._submitted)
            if request is None:
                return
            if isinstance(request, Ended):
                self._ended = request
                return
            self._submitted.append(self._given(request))
            room -= 1

    def next(self, wait: bool) -> tuple[Request, Block] | Ended | None:
        """The result of the oldest task."""
        self.fill(wait)
        while self._submitted:
            request, handle, since = self._submitted[0]
            if not (wait or handle.ready()):
                return None
            self._submitted.popleft()
            asked = perf_counter()
            block = handle.result()
            block.moments = since, asked, perf_counter()
            if block.parts:
                parts = [self._given(part) for part in request.divided(block.parts)]
                self._submitted.extendleft(reversed(parts))
                continue
            if block.failure is not None:
                self._submitted.clear()
                self._ended = Ended(block.failure)
            return request, block
        return self._ended

    def _given(self, request: Request) -> tuple[Request, Handle, float]:
        since = perf_counter()
        return request, self._executor.submit(request.task, request.blocks), since
