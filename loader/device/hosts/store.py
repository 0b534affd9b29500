"""Stores by which processes exchange messages: a protocol, and jax's key-value store.

The key-value store belongs to jax's coordination service. For processes without jax, `folder.py`
has a store with the same methods.

In: texts with keys. Out: the texts that other processes have set.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, Protocol

from ....errors import HostsError

WAIT_MS = 200
"""Milliseconds after which a waiting process checks whether it should stop."""


class MessageStore(Protocol):
    """Interface of a store of texts by key, which all processes of a run can read and set.

    The parts of a key are separated by "/", like the folders of a path. Only the transfer thread of
    a run calls the methods.

    Attributes:
        is_open: True after `open` has returned True.
        most_certain: largest number of steps to which processes may agree in advance.
    """

    most_certain: float

    @property
    def is_open(self) -> bool: ...

    def open(self, stopped: Callable[[], bool]) -> bool:
        """Wait until all processes use the store, and return True.

        Return False if `stopped()` becomes True before.
        """

    def set(self, key: str, value: str) -> None:
        """Set the text of a key, which no process has set before."""

    def replace(self, key: str, value: str) -> None:
        """Set the text of a key again, in place of the text that this process has set before."""

    def get(self, key: str, wait_ms: int = WAIT_MS) -> str | None:
        """Wait until a key exists, and return its text.

        Return None if the key does not exist after `wait_ms` milliseconds.
        """

    def there(self, folder: str) -> dict[str, str]:
        """Return the texts of all keys that are in a folder now, by the last part of the key.

        A folder is a common beginning of keys. This call does not wait.
        """

    def delete(self, folder: str) -> None:
        """Delete all keys in a folder (a common beginning of keys)."""

    def count(self, key: str) -> int:
        """Add one to the number of a key, and return the result; 0 if this store cannot count."""


class KeyValueStore:
    """Store of messages in the key-value store of jax's coordination service.

    Raises:
        HostsError: jax runs without its coordination service.
    """

    is_open = True
    most_certain: float = math.inf  # JAX has a service of its own by which processes end together

    def __init__(self) -> None:
        self._client = _client()

    def open(self, stopped: Callable[[], bool]) -> bool:
        return True

    def set(self, key: str, value: str) -> None:
        self._client.key_value_set(key, value)

    def replace(self, key: str, value: str) -> None:
        self._client.key_value_set(key, value, allow_overwrite=True)

    def get(self, key: str, wait_ms: int = WAIT_MS) -> str | None:
        try:
            return str(self._client.blocking_key_value_get(key, wait_ms))
        except RuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            return None

    def there(self, folder: str) -> dict[str, str]:
        return {
            key.rpartition("/")[2]: value for key, value in self._client.key_value_dir_get(folder)
        }

    def delete(self, folder: str) -> None:
        self._client.key_value_delete(folder)

    def count(self, key: str) -> int:
        increment = getattr(self._client, "key_value_increment", None)
        return 0 if increment is None else int(increment(key, 1))


def jax_processes() -> tuple[int, int]:
    """Return the index of this process among the processes of jax, and the number of processes.

    This does not import jax, and does not start its devices.

    Raises:
        HostsError: the processes are not connected, by `jax.distributed.initialize()`.
    """
    _client()
    state = _global_state()
    return int(state.process_id), int(state.num_processes)


def _global_state() -> Any:
    if "jax" not in sys.modules:  # so it is not initialized either
        return None
    try:
        from jax._src.distributed import global_state
    except (ImportError, AttributeError):
        return None
    return global_state


def _client() -> Any:
    state = _global_state()
    client = None if state is None else state.client
    if client is None:
        raise HostsError(
            "several processes agree on the number of batches by the coordination service of jax, "
            "which does not run. Call jax.distributed.initialize() first. Without jax, pass a "
            "folder that all processes share: loader.across_hosts(folder=…)."
        )
    return client
