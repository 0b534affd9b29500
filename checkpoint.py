"""Saving iterators with Orbax.

>>> import pathlib, tempfile
>>> import orbax.checkpoint as ocp
>>> import millrace
>>> iterator = iter(millrace.load(range(8), batch_size=2))
>>> next(iterator).tolist()
[0, 1]
>>> with tempfile.TemporaryDirectory() as folder, ocp.CheckpointManager(pathlib.Path(folder)) as manager:
...     saved = manager.save(1, args=ocp.args.Composite(loader=millrace.checkpoint.CheckpointSave(iterator)))
...     manager.wait_until_finished()
...     again = iter(millrace.load(range(8), batch_size=2))
...     _ = manager.restore(1, args=ocp.args.Composite(loader=millrace.checkpoint.CheckpointRestore(again)))
>>> next(again).tolist()
[2, 3]

Iterators also save themselves with `save_checkpointables(path, {"loader": iterator})` of `orbax.checkpoint.experimental.v1`.
"""

from __future__ import annotations

from typing import Any

from .errors import MissingExtraError

_NAMES = ("CheckpointHandler", "CheckpointRestore", "CheckpointSave")

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'millrace.checkpoint' has no attribute {name!r}; it has {', '.join(_NAMES)}.")
    try:
        from .loader import orbax_handlers
    except ImportError as error:
        if (error.name or "").startswith(("orbax", "jax")):
            raise MissingExtraError(f'millrace.checkpoint.{name} needs Orbax; pip install "millrace[jax]".') from error
        raise
    return getattr(orbax_handlers, name)
