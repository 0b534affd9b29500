"""The methods of objects that have a state and can be closed.

These objects are iterators, device feeders, and loops over epochs, also those of a `RemoteLoader`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from typing import Any, NoReturn, Self

from ...common.closing import ClosedAtExit
from ...common.messages import a_kind_of
from .files import is_json_text, restore_later, write_later


class Resumable(ClosedAtExit):
    """Base class of objects that have a state and can be closed, such as iterators."""

    def __iter__(self) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{a_kind_of(self)} owns threads and files, and cannot be pickled or copied. Keep "
            "state = iterator.get_state() and pickle the loader. To restore, call iterator = "
            "iter(loader) and iterator.set_state(state)."
        )

    def get_state(self) -> Any:
        """Return the state after the last element the user received, usually as JSON bytes."""
        raise NotImplementedError

    def set_state(self, state: Any, strict: bool = True) -> None:
        """Move to the position of a state from `get_state`.

        Args:
            state: the state.
            strict: False accepts a state of another source, sampler or other operations.

        Raises:
            CheckpointError: the state is damaged, or belongs to another pipeline.
        """
        raise NotImplementedError

    def set_states(
        self, states: Sequence[Any], strict: bool = True, equal_steps: bool = False
    ) -> None:
        """Continue a run that had another number of shards, from the states of all its shards.

        Args:
            states: results of `get_state` on each of the shards of the earlier run, in any order.
            strict: False accepts states of another source, sampler or other operations.
            equal_steps: True if `states` has the state of any one shard, and all shards were at the
                same step.

        Raises:
            CheckpointError: a state is missing or damaged, or belongs to another pipeline.
        """
        raise NotImplementedError

    def start_prefetch(self) -> None:
        """Start workers and reading now instead of at the first `next`.

        The first element is then available sooner.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Stop all work. May be called twice."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state as a dict of plain JSON values.

        PyTorch's loaders and checkpoints call this method.
        """
        state = self.get_state()
        return dict(json.loads(state)) if is_json_text(state) else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Move to the position saved by `state_dict`.

        Raises:
            CheckpointError: the state is damaged, or belongs to another pipeline.
        """
        own = json.dumps(state).encode() if is_json_text(self.get_state()) else state
        self.set_state(own)

    async def save(self, directory: Any) -> Awaitable[None]:
        """Take the current state, and return an awaitable that writes it to a folder.

        Orbax calls this method.
        """
        return write_later(directory, self.get_state())

    async def load(self, directory: Any) -> Awaitable[None]:
        """Return an awaitable that restores the position from a folder and begins to prefetch.

        Orbax calls this method.
        """
        return restore_later(directory, self)
