"""Messages between processes, in the key-value store of jax's coordination service.

In: short texts under keys. Out: those of other processes. It needs no device and no collective, so that it can be used beside a
training step without ever coming between the step's own messages. The one file that knows jax's inner names for it.
"""

from __future__ import annotations

from typing import Any

from ....errors import HostsError

WAIT_MS = 200
"""Milliseconds between two looks of a waiting process whether it should stop."""


class Store:
    """The store. Raises `HostsError` when it is made and jax runs without its coordination service."""

    def __init__(self) -> None:
        self._client = _client()

    def set(self, key: str, value: str) -> None:
        """Leave a text; a key is set once."""
        self._client.key_value_set(key, value)

    def get(self, key: str, wait_ms: int = WAIT_MS) -> str | None:
        """The text of a key, once it is there; None if that takes longer than `wait_ms`."""
        try:
            return str(self._client.blocking_key_value_get(key, wait_ms))
        except RuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            return None

    def there(self, folder: str) -> dict[str, str]:
        """The texts that are in a folder now, by the last part of their keys."""
        return {key.rpartition("/")[2]: value for key, value in self._client.key_value_dir_get(folder)}

    def delete(self, folder: str) -> None:
        """Forget all keys of a folder."""
        self._client.key_value_delete(folder)

    def count(self, key: str) -> int:
        """Add one to a number; the sum, or 0 with a jax that cannot count."""
        increment = getattr(self._client, "key_value_increment", None)
        return 0 if increment is None else int(increment(key, 1))


def _client() -> Any:
    try:
        from jax._src.distributed import global_state

        client = global_state.client
    except (ImportError, AttributeError):
        client = None
    if client is None or not hasattr(client, "blocking_key_value_get"):
        raise HostsError(
            "batches for devices of several processes need the coordination service of jax, by which the processes agree on "
            "the number of batches; call jax.distributed.initialize() first."
        )
    return client
