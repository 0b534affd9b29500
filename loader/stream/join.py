"""Merge the rows of several streams in the order that a rule decides, many rows at a time.

In: consecutive rows of each input. Out: consecutive rows of the join (the merged stream). The rule
needs only the numbers of rows, not the contents of rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ...common.distinct import distinct
from ...errors import JoinError
from ..executors.pace import more_or_fewer
from ..plan.cursor import Cursor, JoinState, cursor_of_join
from ..plan.joins import JoinPolicy
from ..work.tasks import Failure
from .provenance import row_at
from .rows import Pull, Rows, RowsOf, StreamEnd, joined_rows

Open = Callable[[Cursor], Pull[Rows]]
"""Function that opens an input from a cursor (a place in the stream) on."""


@dataclass(slots=True, eq=False)
class Input:
    """One of the streams that a join merges, read from a cursor (place in the stream) on.

    The stream is opened when its first row is needed.

    Attributes:
        open: function that opens the stream from a cursor on.
        cursor: cursor after the rows that the join has taken.
        at_hand: number of rows that have arrived and are not taken yet.
        rows: number of rows taken since the stream was opened.
        ended: the end of the stream, perhaps with a failure, if no more rows will arrive; None if
            more rows may arrive.
    """

    open: Open
    cursor: Cursor
    at_hand: int = 0
    rows: int = 0
    ended: StreamEnd | None = None
    _pull: Pull[Rows] | None = None
    _runs: deque[RowsOf] = field(default_factory=deque)

    def has(self, count: int, wait: bool) -> bool:
        """Return True if `count` rows of this input have arrived, or all that it still has.

        Args:
            count: number of rows.
            wait: True: wait until the rows have arrived.
        """
        if self._pull is None:
            self._pull = self.open(self.cursor)
        while self.at_hand < count and self.ended is None:
            run = self._pull.next(wait)
            if run is None:
                return False
            if isinstance(run, StreamEnd):
                self.ended = run
            else:
                self._runs.append((run, run.start, run.stop))
                self.at_hand += run.stop - run.start
        return True

    def take(self, count: int) -> list[RowsOf]:
        taken = []
        self.at_hand -= count
        self.rows += count
        while count:
            run, start, stop = self._runs.popleft()
            to = min(stop, start + count)
            if to < stop:
                self._runs.appendleft((run, to, stop))
            taken.append((run, start, to))
            count -= to - start
            if not count:
                self.cursor = run.origin.cursor_after(to - 1)
        return taken


@dataclass(eq=False)
class JoinedRuns:
    """Supply of the rows of a join, which merges streams (its inputs) in the order of a rule.

    At first, one row is taken at a time, so that it does not wait for other rows. Then more and
    more rows are taken at a time, up to `most()`, as long as they arrive within about 30 ms.

    Attributes:
        opens: for each input, the function that opens it from a cursor (place in the stream) on.
        cursors: for each input, the cursor to begin with.
        starts: for each input, the cursor from which it is read again, if the rule reads inputs
            again.
        rule: decides from which input the next row comes.
        state: state of the rule at the beginning.
        most: function that returns the largest number of rows to take at a time.
        prompt: True: rows that have arrived are taken before the join waits for other rows. This is
            needed if an input may wait until its source grows.
    """

    opens: Sequence[Open]
    cursors: InitVar[Sequence[Cursor]]
    starts: Sequence[Cursor]
    rule: JoinPolicy
    state: JoinState
    most: Callable[[], int]
    prompt: bool
    _size: int = 1
    _taken: int = (
        0  # rows; each time so many that they end at a multiple of the size, where groups end, too
    )
    _choices: NDArray[np.int64] | None = None
    _ended: StreamEnd | None = None

    def __post_init__(self, cursors: Sequence[Cursor]) -> None:
        self._inputs = [Input(open_, cursor) for open_, cursor in zip(self.opens, cursors)]

    def fill(self) -> None:
        for number in distinct(self._chosen()):
            self._inputs[number].has(1, wait=False)

    def next(self, wait: bool) -> Rows | StreamEnd | None:
        began = perf_counter()
        while self._ended is None:
            choices = self._chosen()
            counts = np.bincount(choices, minlength=len(self._inputs))
            chosen = np.flatnonzero(counts).tolist()
            waits = wait and not self.prompt
            # all of them begin
            at_hand = [self._inputs[number].has(int(counts[number]), waits) for number in chosen]
            if not wait and not all(at_hand):
                return None
            count = min([len(choices), *(self._missing(number, choices) for number in chosen)])
            if count:
                self._size = more_or_fewer(self._size, perf_counter() - began, self.most())
                return self._take(choices[:count])
            if self.prompt and len(choices) and self._inputs[int(choices[0])].ended is None:
                self._inputs[int(choices[0])].has(1, wait)
            elif not self._go_on(int(choices[0]) if len(choices) else None, wait):
                return None
        return self._ended

    def _chosen(self) -> NDArray[np.int64]:
        if self._choices is None:
            self._choices = self.rule.choices(self.state, self._size - self._taken % self._size)
        return self._choices

    def _missing(self, number: int, choices: NDArray[np.int64]) -> int:
        rows = np.flatnonzero(choices == number)
        at_hand = self._inputs[number].at_hand
        return int(rows[at_hand]) if at_hand < len(rows) else len(choices)

    def _take(self, choices: NDArray[np.int64]) -> Rows:
        state, rule = self.state, self.rule
        before = [one.cursor for one in self._inputs]
        counts = np.bincount(choices, minlength=len(self._inputs)).tolist()
        parts = [one.take(count) if count else [] for one, count in zip(self._inputs, counts)]
        origins = [[(rows.origin, start, stop) for rows, start, stop in part] for part in parts]
        self.state, self._choices = rule.after(state, len(choices)), None
        self._taken += len(choices)

        def cursor_after(row: int) -> Cursor:
            cursors = list(before)
            for number, count in enumerate(np.bincount(choices[: row + 1]).tolist()):
                if count:
                    origin, inner = row_at(origins[number], count - 1)
                    cursors[number] = origin.cursor_after(inner)
            return cursor_of_join(cursors, rule.after(state, row + 1))

        return joined_rows(choices, parts, state[0], cursor_after)

    def _go_on(self, number: int | None, wait: bool) -> bool:
        """Ask the join's rule how to continue after the end of an input, and do so.

        If the rule raises an exception, the joined stream ends with this exception as its failure.

        Args:
            number: index of the input that has ended; None if the rule takes no more rows, so that
                the join ends.
            wait: True: wait for other inputs if the rule needs them.

        Returns:
            True when the join can continue or has ended. False if it must wait for other inputs,
            and `wait` is False.
        """
        ended = None if number is None else self._inputs[number].ended
        if number is None or ended is None or ended.failure is not None:
            self._ended = ended or StreamEnd()
            return True
        try:
            if self.rule.strict and number == 0 and not self._all_ended(wait):
                return False
            state = self.rule.ended(self.state, number)
        # of the rule, or of what an input that should have ended does in its next element
        except Exception as error:
            self._ended = StreamEnd(Failure(error))
            return True
        if state is None or (self.rule.restarts and not self._begin_anew(number)):
            self._ended = ended
        else:
            self.state, self._choices = state, None
        return True

    def _all_ended(self, wait: bool) -> bool:
        for number, one in enumerate(self._inputs):
            if not one.has(1, wait):
                return False
            if one.ended is not None and one.ended.failure is not None:
                raise one.ended.failure.error
            if one.at_hand:
                raise JoinError(
                    f"zip: argument 1 is shorter than argument {number + 1}. Pass strict=False to "
                    "end with the shortest."
                )
        return True

    def _begin_anew(self, number: int) -> bool:
        before = self._inputs[number]
        if before.cursor == self.starts[number] and not before.rows:
            return False
        self._inputs[number] = Input(self.opens[number], self.starts[number])
        return True


class CacheWriter(Pull[Rows]):
    """Supply that passes rows on, and keeps them in memory, so that they can be delivered again.

    Args:
        runs: supply of the rows.
        done: function that is called with all rows after the last row, unless there was a failure.
    """

    def __init__(self, runs: Pull[Rows], done: Callable[[Sequence[Rows]], None]) -> None:
        self._runs = runs
        self._done = done
        self._kept: list[Rows] = []

    def next(self, wait: bool) -> Rows | StreamEnd | None:
        run = self._runs.next(wait)
        if isinstance(run, Rows):
            run.keep()
            self._kept.append(run)
        elif run is not None and run.failure is None:
            self._done(self._kept)
        return run
