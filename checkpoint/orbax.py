"""Saving an iterator with Orbax: its argument-style handlers.

In: an iterator with `get_state`, `set_state` and `start_prefetch`. Out: one JSON file for each process. Needs orbax-checkpoint;
`headrace.checkpoint` is the public door, and imports this when somebody comes through it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orbax.checkpoint as ocp

from ..loader.state.files import restore, state_file, to_bytes, with_state


class CheckpointHandler(ocp.CheckpointHandler):  # type: ignore[misc]
    """Writes and reads the state of an iterator, in `process_<i>-of-<n>.json`.

    The state is that of the moment of the call, also with an asynchronous checkpointer: it is written before the call returns.
    """

    def save(self, directory: Any, item: Any = None, args: Any = None) -> None:
        """Write the state of `args.item` (or `item`, as older Orbax has it)."""
        state = with_state(item if args is None else args.item).get_state()
        state_file(directory).write_bytes(to_bytes(state))

    def restore(self, directory: Any, item: Any = None, args: Any = None) -> Any:
        """Bring `args.item` to the saved place and begin to prefetch there.

        Raises:
            CheckpointError: the states are not all there, or those of another pipeline.
        """
        iterator = with_state(item if args is None else args.item)
        restore(directory, iterator, getattr(args, "strict", True))
        return iterator

    def structure(self, directory: Any) -> None:
        """None: a state has no tree of arrays to tell of. Older Orbax asks."""


@ocp.args.register_with_handler(CheckpointHandler, for_save=True)
@dataclass
class CheckpointSave(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """`ocp.args.Composite(loader=CheckpointSave(iterator))`."""

    item: Any


@ocp.args.register_with_handler(CheckpointHandler, for_restore=True)
@dataclass
class CheckpointRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """`ocp.args.Composite(loader=CheckpointRestore(iterator))`: the iterator is brought to the saved place, and returned.

    Attributes:
        item: the iterator.
        strict: True (default); False goes on although source, sampler or operations are not those of the states, as
            `iterator.set_state(state, strict=False)` does.
    """

    item: Any
    strict: bool = True
