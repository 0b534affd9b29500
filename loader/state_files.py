"""The files of a checkpoint: one for each process, named as Grain names them.

In: a folder, as a path with `/`, `exists`, `read_bytes` and `write_bytes`; the processes of JAX, if that runs. Out: bytes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from ..errors import CheckpointError


def state_file(folder: Any) -> Any:
    """The file of this process."""
    index, count = _process()
    return folder / f"process_{index}-of-{count}.json"


def read_state(folder: Any) -> bytes:
    """The state that this process saved.

    Raises:
        CheckpointError: there is none.
    """
    file = state_file(folder)
    if not file.exists():
        there = sorted(path.name for path in folder.iterdir()) if folder.exists() else "no such folder"
        raise CheckpointError(f"there is no {file.name} in {folder}, but {there}; restore with as many processes as saved.")
    return bytes(file.read_bytes())


async def write_later(folder_to_come: Any, state: bytes) -> None:
    """Write the state once the folder exists."""
    folder = await folder_to_come.await_creation()
    await asyncio.to_thread(state_file(folder).write_bytes, state)


async def read_then(folder: Any, go_on: Callable[[bytes], None]) -> None:
    """Read the state, and hand it over."""
    go_on(await asyncio.to_thread(read_state, folder))


def _process() -> tuple[int, int]:
    jax = sys.modules.get("jax")
    return (0, 1) if jax is None else (jax.process_index(), jax.process_count())

