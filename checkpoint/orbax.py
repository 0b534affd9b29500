"""Orbax handlers that save and restore an iterator, one JSON file for each process.

Needs orbax-checkpoint. `headrace.checkpoint` is the public module; it imports this one on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orbax.checkpoint as ocp

from ..loader.state.files import restore, state_file, to_bytes, with_state


class CheckpointHandler(ocp.CheckpointHandler):  # type: ignore[misc]
    """Orbax handler that writes and reads the state of an iterator, in `process_<i>-of-<n>.json`.

    The state is taken during the call of `save`, also with an asynchronous checkpointer.
    """

    def save(self, directory: Any, item: Any = None, args: Any = None) -> None:
        """Write the state of `args.item`, or of `item` for older versions of Orbax."""
        state = with_state(item if args is None else args.item).get_state()
        state_file(directory).write_bytes(to_bytes(state))

    def restore(self, directory: Any, item: Any = None, args: Any = None) -> Any:
        """Move `args.item` to the saved place, and begin to prefetch there.

        Raises:
            CheckpointError: a state is missing, or the states belong to another pipeline.
        """
        iterator = with_state(item if args is None else args.item)
        restore(directory, iterator, getattr(args, "strict", True))
        return iterator

    def structure(self, directory: Any) -> None:
        """Return None: a state has no tree of arrays. Older versions of Orbax ask for it."""


@ocp.args.register_with_handler(CheckpointHandler, for_save=True)
@dataclass
class CheckpointSave(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Arguments to save an iterator: `ocp.args.Composite(loader=CheckpointSave(iterator))`."""

    item: Any


@ocp.args.register_with_handler(CheckpointHandler, for_restore=True)
@dataclass
class CheckpointRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Arguments to restore an iterator: `ocp.args.Composite(loader=CheckpointRestore(iterator))`. Orbax returns the iterator.

    Attributes:
        item: the iterator, which is moved to the saved place.
        strict: True (default): refuse states of another pipeline. False: resume although source, sampler or operations
            differ from those of the states, as `iterator.set_state(state, strict=False)` does.
    """

    item: Any
    strict: bool = True
