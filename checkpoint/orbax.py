"""Orbax handlers that save and restore an iterator, in one JSON file per process.

Needs orbax-checkpoint. Import them from `headrace.checkpoint`, which imports this module when they
are first used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orbax.checkpoint as ocp

from ..loader.state.files import restore, state_file, to_bytes, with_state


class CheckpointHandler(ocp.CheckpointHandler):  # type: ignore[misc]
    """Orbax handler that saves an iterator's state in `process_<i>-of-<n>.json`, process i of n.

    The state is taken during the call of `save`, also with an asynchronous checkpointer.
    """

    def save(self, directory: Any, item: Any = None, args: Any = None) -> None:
        """Write the state of an iterator to this process's file.

        Args:
            directory: folder of the checkpoint, which must exist.
            item: the iterator, if `args` is None, as in older versions of Orbax.
            args: a `CheckpointSave` with the iterator.

        Raises:
            TypeError: the object has no `get_state`. A loader has none: pass `iter(loader)`.
        """
        state = with_state(item if args is None else args.item).get_state()
        state_file(directory).write_bytes(to_bytes(state))

    def restore(self, directory: Any, item: Any = None, args: Any = None) -> Any:
        """Restore an iterator in place, start to prefetch, and return it.

        Args:
            directory: folder of the checkpoint.
            item: the iterator, if `args` is None, as in older versions of Orbax.
            args: a `CheckpointRestore` with the iterator.

        Raises:
            TypeError: the object has no `get_state`. A loader has none: pass `iter(loader)`.
            CheckpointError: a state is missing or cannot be read, or the states belong to another
                pipeline.
        """
        iterator = with_state(item if args is None else args.item)
        restore(directory, iterator, getattr(args, "strict", True))
        return iterator

    def structure(self, directory: Any) -> None:
        """Return None, because a state has no tree of arrays.

        Older versions of Orbax call this; `directory` is not used.
        """


@ocp.args.register_with_handler(CheckpointHandler, for_save=True)
@dataclass
class CheckpointSave(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Arguments to save an iterator: `ocp.args.Composite(loader=CheckpointSave(iterator))`.

    Attributes:
        item: the iterator to save.
    """

    item: Any


@ocp.args.register_with_handler(CheckpointHandler, for_restore=True)
@dataclass
class CheckpointRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Arguments to restore an iterator: `ocp.args.Composite(loader=CheckpointRestore(iterator))`.

    Orbax's `restore` returns the iterator.

    Attributes:
        item: the iterator to restore.
        strict: True (default): refuse states of another pipeline. False: resume although source,
            sampler or operations differ from those of the states, as `iterator.set_state(state,
            strict=False)` does.
    """

    item: Any
    strict: bool = True
