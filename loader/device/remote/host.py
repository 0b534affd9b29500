"""The loader of one host, which runs there by jax's colocated Python.

In: calls of the controlling process, whose arguments are small arrays on the host's CPU devices. Out: arrays on the same
devices. All results of a method have the same shapes, because jax compiles each call once: batches are filled up, and texts are
arrays of a fixed length.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ....common.messages import shorten
from ....errors import HostsError
from ....operations.trees import flatten
from ....samplers import ShardOptions
from ..hosts.template import from_text, to_text
from ..upstream import Upstream

TEXT_BYTES = 1 << 16
"""Size of the arrays in which texts travel, with four bytes for their length."""

KEPT = 64
"""Number of last batches whose states can be asked for; more than are made ahead."""

END, BATCH, FAILED = range(3)
"""First number of the information about a step. The second is the number of rows."""


class Share(NamedTuple):
    """The part of each batch that a host loads.

    Attributes:
        shard: index of its shard, and number of shards.
        parts: number of parts into which the rows that the host loads are divided.
        places: for each of its devices, the index of the part that the device holds.
        spreads: True: a short batch is divided evenly over the parts. False: its rows fill the first parts.
    """

    shard: tuple[int, int]
    parts: int
    places: tuple[int, ...]
    spreads: bool


class HostSide:
    """The loader of one host. Only the controlling process calls its methods, one after another.

    Args:
        make_loader: function that takes `ShardOptions`, and returns a loader or a dataset.
        share: the part of each batch that this host loads.
    """

    def __init__(self, make_loader: Callable[[ShardOptions], Any], share: Share) -> None:
        self._share = share
        self._iterator = iter(make_loader(ShardOptions(*share.shard)))
        self._upstream = Upstream(self._iterator, owned=True)
        self._marks = {0: self._upstream.mark()}
        self._step, self._rows = 0, 0
        self._first: Any = None  # the first batch, which was read for its shapes
        self._message = ""

    def restore(self, token: Any, text: Any) -> Any:
        """Restore the states of all shards, in a text. The result is a number without meaning."""
        states = [state.encode() for state in json.loads(unpacked(text))]
        if len(states) == self._share.shard[1]:
            self._iterator.set_state(states[self._share.shard[0]])
        else:
            self._iterator.set_states(states)
        self._marks = {0: self._upstream.mark()}
        return _on(token, np.int32(0))

    def describe(self, token: Any) -> Any:
        """Return a text with the usual number of rows, and a batch without rows.

        It is "" if there is no batch; after an error, it has -1 and the error.
        """
        try:
            self._first = self._read()
        except Exception as error:
            return _on(token, packed(json.dumps([-1, f"{type(error).__name__}: {shorten(error)}"])))
        if self._first is None:
            return _on(token, packed(""))
        leaves, structure, rows = _split(self._first)
        usual = max(rows, self._upstream.usual_rows(self._marks[1], rows, False))
        return _on(token, packed(json.dumps([usual, to_text(structure.unflatten([leaf[:0] for leaf in leaves]))])))

    def next(self, token: Any, rows: Any, text: Any) -> Any:
        """Return the leaves of the next batch, each with the parts of this host's devices, and information about it.

        Args:
            token: step number.
            rows: number of rows to which batches are filled up.
            text: a batch without rows, as text.
        """
        wanted = int(np.asarray(rows))
        empty, structure = flatten(from_text(unpacked(text)))
        leaves, count, kind = empty, 0, END
        try:
            batch = self._first if self._first is not None else self._read()
            self._first = None
            if batch is not None:
                leaves, own, count = _split(batch)
                kind = BATCH
                if own != structure or count > wanted:
                    raise HostsError(
                        f"a batch has {count} rows of {wanted}, or other leaves than the first one. Make all batches alike."
                    )
        except Exception as error:
            leaves, count, kind, self._message = empty, 0, FAILED, f"{type(error).__name__}: {shorten(error)}"
        self._step += 1
        parts = [self._placed(leaf.astype(like.dtype), count, wanted) for leaf, like in zip(leaves, empty)]
        return [_divided(token, part) for part in parts], _on(token, np.array([kind, count], np.int32))

    def _read(self) -> Any:
        batch = next(self._iterator, None)
        number = len(self._marks) if not self._marks else max(self._marks) + 1
        self._marks[number] = self._upstream.mark()
        self._marks.pop(number - KEPT, None)
        return batch

    def _placed(self, leaf: Any, count: int, wanted: int) -> Any:
        """Return the rows of each device of this host, one device after another."""
        parts = self._share.parts
        whole = np.zeros((wanted, *leaf.shape[1:]), leaf.dtype)
        if self._share.spreads and count % parts == 0:
            whole.reshape(parts, -1, *leaf.shape[1:])[:, : count // parts] = leaf.reshape(
                parts, count // parts, *leaf.shape[1:]
            )
        else:
            whole[:count] = leaf
        pieces = whole.reshape(parts, -1, *leaf.shape[1:])
        return np.concatenate([pieces[place] for place in self._share.places])

    def message(self, token: Any) -> Any:
        """Return the text of the last error."""
        return _on(token, packed(self._message))

    def state(self, token: Any) -> Any:
        """Return the state after some batches, as text. `token` is their number."""
        number = min(int(np.asarray(token)), max(self._marks))
        return _on(token, packed(self._marks[number].get_state().decode()))

    def end(self, token: Any) -> Any:
        """Close the loader. The result is a number without meaning."""
        self._iterator.close()
        return _on(token, np.int32(0))


def _split(batch: Any) -> tuple[list[Any], Any, int]:
    """Return the leaves of a batch, its structure, and its number of rows.

    Raises:
        HostsError: a leaf is not an array of numbers with rows, or the leaves have different numbers of rows.
    """
    leaves, structure = flatten(batch)
    arrays = [np.asarray(leaf) for leaf in leaves]
    rows = {array.shape[0] if array.ndim and array.dtype.kind in "biufc" else -1 for array in arrays}
    if len(rows) != 1 or -1 in rows:
        raise HostsError(
            "a batch for a RemoteLoader must be made of arrays of numbers with one row for each record. Remove other leaves "
            "in a map, and end the loader with a Batch."
        )
    return arrays, structure, rows.pop()


def packed(text: str) -> Any:
    """Return a text as an array of a fixed length.

    Raises:
        HostsError: the text is too long.

    >>> unpacked(packed("a text"))
    'a text'
    """
    content = text.encode()
    if len(content) > TEXT_BYTES - 4:
        raise HostsError(
            f"a state or description has {len(content)} bytes, more than {TEXT_BYTES - 4}. Use a pipeline with fewer parts."
        )
    array = np.zeros(TEXT_BYTES, np.uint8)
    array[:4] = np.frombuffer(len(content).to_bytes(4, "little"), np.uint8)
    array[4 : 4 + len(content)] = np.frombuffer(content, np.uint8)
    return array


def unpacked(array: Any) -> str:
    """Return the text that `packed` made an array of."""
    content = np.asarray(array).tobytes()
    return content[4 : 4 + int.from_bytes(content[:4], "little")].decode()


def _on(token: Any, value: Any) -> Any:
    return jax.device_put(value, NamedSharding(token.sharding.mesh, PartitionSpec()))


def _divided(token: Any, value: Any) -> Any:
    return jax.device_put(value, NamedSharding(token.sharding.mesh, PartitionSpec("device")))


def token_for(devices: Sequence[Any], value: Any) -> Any:
    """Return a value as an array on all CPU devices of a host, for a call of its loader."""
    mesh = jax.sharding.Mesh(np.array(devices), ("device",))
    return jax.device_put(value, NamedSharding(mesh, PartitionSpec()))
