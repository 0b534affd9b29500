"""Save and restore iterators: with Orbax, or in a small file at every step.

>>> import pathlib, tempfile
>>> import orbax.checkpoint as ocp
>>> import headrace
>>> iterator = iter(headrace.load(range(8), batch_size=2))
>>> next(iterator).tolist()
[0, 1]
>>> again = iter(headrace.load(range(8), batch_size=2))
>>> with tempfile.TemporaryDirectory() as folder:
...     with ocp.CheckpointManager(pathlib.Path(folder)) as manager:
...         save = headrace.checkpoint.CheckpointSave(iterator)
...         saved = manager.save(1, args=ocp.args.Composite(loader=save))
...         manager.wait_until_finished()
...         restore = headrace.checkpoint.CheckpointRestore(again)
...         _ = manager.restore(1, args=ocp.args.Composite(loader=restore))
>>> next(again).tolist()
[2, 3]

Iterators also save themselves with `save_checkpointables(path, {"loader": iterator})` of
`orbax.checkpoint.experimental.v1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.messages import short_repr
from ..errors import MissingExtraError
from .preemption import Preemptible, on_preemption
from .state_file import StateFile

if TYPE_CHECKING:
    from ..loader import DataLoader, DataLoaderIterator
    from .orbax import CheckpointHandler as CheckpointHandler
    from .orbax import CheckpointRestore as CheckpointRestore
    from .orbax import CheckpointSave as CheckpointSave

_NAMES = ("CheckpointHandler", "CheckpointRestore", "CheckpointSave")

__all__ = [*_NAMES, "Preemptible", "StateFile", "from_grain_state", "on_preemption"]


def from_grain_state(state: bytes | dict[str, Any], loader: DataLoader) -> DataLoaderIterator:
    """Make an iterator over the records that a Grain `DataLoader` had not delivered yet.

    Each of these records comes exactly once, whatever number of workers Grain had. If some of
    Grain's workers were ahead of others, the records that slower workers had not delivered come
    first. States of this iterator are headrace states, for any number of workers.

    Args:
        state: the JSON bytes that `get_state()` of Grain's iterator returned (version 2), in the
            process with the same shard; or the dict decoded from them.
        loader: a loader of the same records, with `IndexSampler(…, algorithm="grain")` of the same
            arguments and shard.

    Raises:
        CheckpointError: `state` is not such a state, or `loader` cannot continue from it, for
            example because the sampler differs (the message says what differs), or Grain had
            several workers and the loader has a flat map.

    >>> import json
    >>> import headrace
    >>> sampler = headrace.IndexSampler(6, shuffle=False, num_epochs=1, algorithm="grain")
    >>> loader = headrace.DataLoader(data_source=range(6), sampler=sampler)
    >>> last = {"last_seen_indices": {"0": 2, "1": 1}, "last_worker_index": 0}
    >>> state = json.dumps({"version": 2, **last, "worker_count": 2}).encode()
    >>> list(from_grain_state(state, loader))
    [3, 4, 5]
    """
    from ..compat.grain_state import state_after

    iterator = iter(loader)
    iterator.set_state(state_after(state, loader.loader_description.pipeline).to_json())
    return iterator


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(
                f"module 'headrace.checkpoint' has no attribute {short_repr(name)}. Use one of its "
                f"names: {', '.join(__all__)}."
            )
        try:
            from . import orbax as orbax_handlers
        except ImportError as error:
            if (error.name or "").startswith(("orbax", "jax")):
                raise MissingExtraError(
                    f'headrace.checkpoint.{name} needs Orbax: pip install "headrace[jax]"'
                ) from error
            raise
        return getattr(orbax_handlers, name)


def __dir__() -> list[str]:
    return sorted(__all__)
