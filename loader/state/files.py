"""The files of a checkpoint: one for each process, named as Grain names them.

In: a folder, as a path with `/`, `exists`, `read_bytes` and `write_bytes`; the processes of JAX, if that runs. Out: bytes.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from ...common.messages import a_kind_of, first_few, short_repr, shorten, shorten_lines
from ...errors import CheckpointError
from .record_checks import OneShardError

_NAME = re.compile(r"process_([0-9]{1,9})-of-([0-9]{1,9})\.json")


def state_file(folder: Any) -> Any:
    """The file of this process."""
    index, count = _process()
    return folder / f"process_{index}-of-{count}.json"


def with_state(item: Any) -> Any:
    """The object that was passed to be saved or restored, if it has a state. Raises TypeError: it has none."""
    if not hasattr(item, "get_state"):
        remedy = (
            "iterator = iter(loader), and pass iterator"
            if hasattr(item, "__iter__")
            else "pass an iterator, iter(loader)"
        )
        raise TypeError(f"{short_repr(item)} is {a_kind_of(item)}, which holds no place and has no state; {remedy}.")
    return item


def restore(folder: Any, iterator: Any, strict: bool = True) -> None:
    """Bring an iterator to the place that was saved, and have it begin to prefetch there.

    A process that finds its own file restores from that. If another number of processes saved, or if the order of the records
    changed since, the files of all processes are read.

    Args:
        folder: with the files.
        iterator: to be brought there.
        strict: False goes on although source, sampler or operations are not those of the states.

    Raises:
        CheckpointError: there are no states, or not all, or they cannot be read, or are those of another pipeline.
    """
    own = state_file(folder)
    try:
        if own.exists():
            _restore_own(folder, own, iterator, strict)
        else:
            iterator.set_states(_all_states(folder, own.name), **as_said(strict))
    except OSError as error:
        raise unreadable(folder, error) from None
    except CheckpointError as error:
        raise CheckpointError(f"{shorten(folder)}: {shorten_lines(error, 400)}") from None
    iterator.start_prefetch()


def _restore_own(folder: Any, own: Any, iterator: Any, strict: bool) -> None:
    """Restore from the file of this process; from all files, if that one does not tell enough."""
    try:
        iterator.set_state(from_bytes(own.read_bytes(), iterator), **as_said(strict))
    except OneShardError:
        states = _states_in(folder)
        if states is None:
            raise
        iterator.set_states(states, **as_said(strict))


def as_said(strict: bool) -> dict[str, bool]:
    """The argument of `set_state`: an iterator of the user's own may not have it, and is strict then."""
    return {} if strict else {"strict": False}


def process_of(path: Any) -> tuple[int, int] | None:
    """The process that wrote a file, and of how many; None for a file of another name."""
    found = _NAME.fullmatch(path.name)
    return (int(found[1]), int(found[2])) if found else None


def _states_in(folder: Any) -> list[bytes] | None:
    """Return the states of all processes; None if some are missing."""
    files = sorted((path for path in _files_in(folder) if process_of(path)), key=process_of)  # type: ignore[arg-type]
    counts = {process_of(path)[1] for path in files}  # type: ignore[index]
    whole = len(counts) == 1 and len(files) == counts.pop()
    return [bytes(path.read_bytes()) for path in files] if whole else None


def _files_in(folder: Any) -> list[Any]:
    return list(folder.glob("process_*-of-*.json")) if folder.exists() else []


def _all_states(folder: Any, own: str) -> list[bytes]:
    states = _states_in(folder)
    if states is not None:
        return states
    there = first_few(sorted(path.name for path in _files_in(folder))) or "no state"
    raise CheckpointError(
        f"there is neither {own}, nor are there the states of all processes of another run, but {there}; "
        "pass the folder of a complete checkpoint."
    )


def to_bytes(state: Any) -> bytes:
    """The bytes of a state for a file: itself, or JSON if it is a dict, as those of other libraries are."""
    return json.dumps(state).encode() if isinstance(state, dict) else state


def from_bytes(content: bytes, iterator: Any) -> Any:
    """The state that `to_bytes` had from an iterator like this one. Raises CheckpointError: the bytes are not JSON."""
    if not isinstance(iterator.get_state(), dict):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the state is not JSON ({error}).") from None


def unreadable(path: Any, error: OSError) -> CheckpointError:
    """The error that says why a file cannot be read."""
    place = error.filename or path
    return CheckpointError(f"{place} cannot be read: {error.strerror or error}; pass the path of a saved state.")


async def write_later(folder_to_come: Any, state: Any) -> None:
    """Write the state once the folder exists."""
    import asyncio  # which takes longer than the rest of this package

    content = to_bytes(state)  # now: a dict may change
    folder = await folder_to_come.await_creation()
    await asyncio.to_thread(state_file(folder).write_bytes, content)


async def restore_later(folder: Any, iterator: Any) -> None:
    """`restore`, awaitable."""
    import asyncio

    await asyncio.to_thread(restore, folder, iterator)


def _process() -> tuple[int, int]:
    jax = sys.modules.get("jax")
    return (0, 1) if jax is None else (jax.process_index(), jax.process_count())
