"""The files of a checkpoint: one for each process, with the names that Grain uses.

In: a folder, as a path object that has `/`, `exists`, `glob`, `read_bytes` and `write_bytes`. If
JAX is imported, the index of this process and the number of processes come from JAX; otherwise,
there is one process. Out: the bytes of states.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from ...common.messages import a_kind_of, first_few, remedy_for, short_repr, shorten, shorten_lines
from ...errors import CheckpointError
from .checks.missing_shards import MissingShardsError

_NAME = re.compile(r"process_([0-9]{1,9})-of-([0-9]{1,9})\.json")


def state_file(folder: Any) -> Any:
    """Return the path of this process's file in a folder: `process_<index>-of-<count>.json`.

    Index and count are those of JAX's processes. If JAX is not imported, there is one process, and
    the name is `process_0-of-1.json`.
    """
    index, count = _process()
    return folder / f"process_{index}-of-{count}.json"


def has_state(item: Any) -> bool:
    """Return True if an object has a state: the methods `get_state` and `set_state`."""
    return hasattr(item, "get_state") and hasattr(item, "set_state")


def with_state(item: Any) -> Any:
    """Return `item`, after checking that it has a state (a method `get_state`).

    Raises:
        TypeError: it has no `get_state`. The message says what to pass instead.
    """
    if not hasattr(item, "get_state"):
        remedy = (
            "Write iterator = iter(loader), and pass iterator."
            if isinstance(item, Iterable)
            else "Pass an iterator, iter(loader)."
        )
        raise TypeError(
            f"{short_repr(item)} is {a_kind_of(item)}, which has no position and so no state. "
            f"{remedy}"
        )
    return item


def restore(folder: Any, iterator: Any, strict: bool = True) -> None:
    """Move an iterator to the position saved in a folder, and begin to prefetch there.

    If possible, a process reads only its own file. It reads the files of all processes if the
    checkpoint was saved by another number of processes, or if the order of records has changed
    since.

    Args:
        folder: folder with the files.
        iterator: iterator to move.
        strict: False accepts states of another source, sampler or other operations.

    Raises:
        CheckpointError: states are missing, cannot be read, or belong to another pipeline.
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
    """Restore an iterator from this process's file; from all files if all states are needed.

    Args:
        folder: folder with the files.
        own: path of this process's file.
        iterator: iterator to move.
        strict: False accepts states of another source, sampler or other operations.

    Raises:
        CheckpointError: a state cannot be used; or the states of all shards are needed, and some
            are missing.
        OSError: a file cannot be read.
    """
    try:
        iterator.set_state(from_bytes(own.read_bytes(), iterator), **as_said(strict))
    except MissingShardsError:
        states = _states_in(folder)
        if states is None:
            raise
        iterator.set_states(states, **as_said(strict))


def as_said(strict: bool) -> dict[str, bool]:
    """Return keyword arguments for `set_state`: {"strict": False} if `strict` is False, else {}.

    So `strict` is passed only if it is False. Iterators of other libraries, whose `set_state` does
    not have this argument, can then be restored, too.
    """
    return {} if strict else {"strict": False}


def process_of(path: Any) -> tuple[int, int] | None:
    """Return (index, count) of processes from the name of a file; None for any other name.

    Names of state files are `process_<index>-of-<count>.json`.
    """
    found = _NAME.fullmatch(path.name)
    return (int(found[1]), int(found[2])) if found else None


def _states_in(folder: Any) -> list[bytes] | None:
    """Return the states of all processes from the files in a folder, in the order of processes.

    Return None if some files are missing, or if there are files of runs on different numbers of
    processes.
    """
    files = sorted((path for path in _files_in(folder) if process_of(path)), key=process_of)  # type: ignore[arg-type]
    counts = {process_of(path)[1] for path in files}  # type: ignore[index]
    whole = len(counts) == 1 and len(files) == counts.pop()
    return [bytes(path.read_bytes()) for path in files] if whole else None


def _files_in(folder: Any) -> list[Any]:
    return list(folder.glob("process_*-of-*.json")) if folder.exists() else []


def _all_states(folder: Any, file: str) -> list[bytes]:
    states = _states_in(folder)
    if states is not None:
        return states
    found = first_few(sorted(path.name for path in _files_in(folder))) or "no state"
    raise CheckpointError(
        f"the folder contains neither {file} nor the states of all processes of another run, but "
        f"{found}. Pass the folder of a complete checkpoint."
    )


def to_bytes(state: Any) -> bytes:
    """Return the bytes of a state, to be written to a file.

    States of headrace are JSON text already, and are returned unchanged. In other libraries, states
    are dicts, and are returned as JSON.
    """
    return state if is_json_text(state) else json.dumps(state).encode()


def is_json_text(state: Any) -> bool:
    """Return True if a state is JSON text.

    States of headrace are JSON text; states of other libraries are dicts.
    """
    return isinstance(state, (bytes, bytearray, str))


def from_bytes(content: bytes, iterator: Any) -> Any:
    """Convert bytes that `to_bytes` returned to a state of the iterator.

    Returns:
        A dict if the iterator's states are dicts; else the bytes.

    Raises:
        CheckpointError: the iterator's states are dicts, but the bytes are not JSON.
    """
    if is_json_text(iterator.get_state()):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"the state is not JSON ({error}). Pass what get_state() returned."
        ) from None


def unreadable(path: Any, error: OSError) -> CheckpointError:
    """Return a CheckpointError that says which file cannot be read, and why.

    Args:
        path: path that the message names if `error` has no path.
        error: the error of the operating system.
    """
    place = error.filename or path
    remedy = remedy_for(error, "Pass the path of a saved state that this process may read")
    return CheckpointError(f"{shorten(place)} cannot be read: {error.strerror or error}. {remedy}.")


async def write_later(folder_to_come: Any, state: Any) -> None:
    """Wait until the folder exists, then write the state to this process's file in it.

    Args:
        folder_to_come: object of Orbax with `await_creation()`, which waits for the folder and
            returns its path.
        state: the state, as bytes or a dict.
    """
    import asyncio  # which takes longer than the rest of this package

    content = to_bytes(state)  # now: a dict may change
    folder = await folder_to_come.await_creation()
    await asyncio.to_thread(state_file(folder).write_bytes, content)


async def restore_later(folder: Any, iterator: Any) -> None:
    """Restore an iterator from a folder, in another thread.

    Raises:
        CheckpointError: states are missing, cannot be read, or belong to another pipeline.
    """
    import asyncio

    await asyncio.to_thread(restore, folder, iterator)


def _process() -> tuple[int, int]:
    jax = sys.modules.get("jax")
    return (0, 1) if jax is None else (jax.process_index(), jax.process_count())
