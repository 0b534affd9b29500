"""The ways to workers, and the blocks that came from them.

In: answers of actors. Out: blocks, whose rows lie in Ray's object store until somebody wants them here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from ...timing.times import Moments, TaskTimes
from ...work.tasks import NO_BLOCKS, RowTags
from ..pool import remote_errors as errors
from ..pool.executor import PooledHandle
from .blocks import as_list, loaded
from .messages import Answer

if TYPE_CHECKING:
    from .executor import RayExecutor

LOST = ""
"""In place of the node of rows that Ray has lost, wherever they lay."""


class RayBlock:
    """A `Block` whose rows are in the object store until somebody wants them here."""

    parts = ()

    def __init__(self, executor: RayExecutor, handle: PooledHandle, answer: Answer, rows: Any, remote: Remote) -> None:
        self._executor = executor
        self.number, self.task, self.blocks = handle.number, handle.task, handle.blocks  # to make the rows again
        self.rows: Any = rows
        self.node = remote.node
        self.count = answer.row_count
        self.tags = None if answer.tags is None else RowTags.unpacked(answer.tags)
        self.failure = None if answer.error is None else errors.EncodedFailure(answer.error)
        self.skipped = answer.skipped
        self.notices = answer.notices
        self.stand = answer.stand
        self.times = None if answer.times is None else TaskTimes.unpacked(answer.times).moved(remote.clock)
        self.moments: Moments = (0.0, 0.0, 0.0)
        self.again: PooledHandle | None = None  # the task, while it is done again
        self._elements: list[Any] | None = None

    @property
    def elements(self) -> list[Any]:
        """The rows. Their arrays look at the store, which the block lets go of."""
        if self._elements is None:
            self._elements = as_list(loaded(self._executor.rows_of(self)))
            self.rows, self.blocks = None, NO_BLOCKS
        return self._elements

    def take_again(self) -> None:
        """Take the rows, if the task was done again; or raise why it could not be."""
        if self.again is not None and (block := self.again.block) is not None:
            self.again = None
            if block.failure is not None and not isinstance(block, RayBlock):
                raise block.failure.error
            self.rows, self.node = block.rows, block.node


class Message(NamedTuple):
    """What a worker was sent."""

    answers: Any  # reference to what it answers
    rows: Sequence[Any]  # references to the rows that come of each handle
    handles: Sequence[PooledHandle]  # none: it is to begin


class Remote:
    """The way to a worker."""

    def __init__(self, number: int, actor: Any) -> None:
        self.number = number
        self.actor = actor
        self.run_span = actor.run_span.options(num_returns=2).remote
        self.turns = count()
        self.node = LOST  # until it has begun
        self.clock = 0.0  # seconds to be added to its times
        self.messages = deque([Message(actor.begin.remote(), (), ())])
