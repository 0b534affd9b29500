"""The iterator of a `RemoteLoader`: it calls the loaders of all hosts, and makes global arrays of their rows.

In: a description. Out: batches on the sharding; and a state of all hosts.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from jax.experimental.colocated_python import colocated_cpu_devices, colocated_python_class
from jax.sharding import NamedSharding

from ....common.closing import ClosedAtExit
from ....common.messages import short_repr
from ....errors import CheckpointError, ClosedError, HostsError
from ....operations.trees import flatten
from ..hosts.shard_options import shard_of
from ..hosts.template import from_text
from ..hosts.verdict import Offer, Refuse, Stop, decide
from ..shardings import leading_parts
from .host import BATCH, FAILED, HostSide, Share, packed, token_for, unpacked
from .options import RemoteOptions


class _Host(NamedTuple):
    """A host as the controlling process sees it.

    Attributes:
        devices: its devices in the sharding.
        cpus: the CPU devices on which its loader's arrays are.
        shard: index of its shard.
        loader: the loader that runs there.
    """

    devices: list[Any]
    cpus: tuple[Any, ...]
    shard: int
    loader: Any

    def token(self, value: Any) -> Any:
        return token_for(self.cpus, value)

    def text(self, method: str, value: int = 0) -> str:
        return unpacked(getattr(self.loader, method)(self.token(np.int32(value))))


class RemoteIterator(ClosedAtExit):
    """One pass over the stream of a `RemoteLoader`. Its state is one small tree of all hosts, after the last batch received.

    Attributes:
        mask: `bool[rows]` on the same sharding, False for rows of the last batch that were filled in; None without "pad",
            and before a batch was received.
    """

    def __init__(self, description: RemoteOptions) -> None:
        self._own = description
        self._hosts: list[_Host] | None = None
        self._pending: deque[list[Any]] = deque()
        self._closed = False
        self._begin(None, 0)

    def _begin(self, states: list[str] | None, step: int) -> None:
        """Let the hosts begin with the states of all shards, at a step; None: from the beginning."""
        self.mask: Any = None
        self._states, self._former_steps = states, step
        self._asked = self._taken = 0
        self._rows, self._template = 0, ""
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Return the next global batch.

        Raises:
            StopIteration: the stream has ended on all hosts; with "drop", on one of them.
            HostsError: a host failed; or, with "error", hosts have different numbers of rows.
            ClosedError: the iterator was closed.
        """
        self._check_open()
        hosts = self._hosts or self._open()
        if not self._template and not self._ended:
            self._describe(hosts)
        if self._ended:
            raise StopIteration
        while len(self._pending) < self._own.buffer_size:
            self._pending.append([self._ask(host) for host in hosts])
            self._asked += 1
        results = self._pending.popleft()
        verdict = decide(self._offers(hosts, results), self._taken)
        if isinstance(verdict, Refuse):
            self._pending.appendleft(results)
            raise HostsError(verdict.message)
        if isinstance(verdict, Stop):
            self._ended = True
            raise StopIteration
        counts = [int(np.asarray(info)[1]) for _, info in results]
        rows = self._rows if verdict.rows is not None else counts[0]
        batch = self._assembled(hosts, [leaves for leaves, _ in results], rows)
        self.mask = self._mask(hosts, counts) if self._own.on_uneven == "pad" else None
        self._taken += 1
        return batch

    def _open(self) -> list[_Host]:
        parts = leading_parts(self._own.sharding, self._own.host_of)
        remote, hosts = colocated_python_class(HostSide), []
        starts = self._own.sharding.devices_indices_map((sum(map(len, set(parts.values()))),))
        for key, held in sorted(parts.items(), key=lambda item: min(item[1])):
            devices = [device for device in starts if self._own.host_of(device) == key]
            own = sorted(held)
            places = tuple(own.index(starts[device][0].indices(len(starts))[0]) for device in devices)
            share = Share(shard_of(key, parts), len(own), places, self._own.on_uneven != "pad")
            loader = remote(self._own.make_loader, share)
            hosts.append(_Host(devices, tuple(colocated_cpu_devices(tuple(devices))), share.shard[0], loader))
        self._hosts = hosts
        if self._states is not None:
            for host in hosts:
                host.loader.restore(host.token(np.int32(0)), host.token(packed(json.dumps(self._states))))
        return hosts

    def _describe(self, hosts: list[_Host]) -> None:
        """Ask all hosts for their first batch, so that all know the shapes of batches."""
        told = [json.loads(text) for host in hosts if (text := host.text("describe"))]
        for rows, text in told:
            if rows < 0:
                raise HostsError(f"a host failed before the first batch: {text}. Correct the cause, and start again.")
            self._rows, self._template = max(rows, self._rows), text
        parts = max(len(host.devices) for host in hosts)
        self._rows = -(-self._rows // parts) * parts
        self._ended = not told

    def _ask(self, host: _Host) -> Any:
        token, rows = host.token(np.int32(self._asked)), host.token(np.int32(self._rows))
        return host.loader.next(token, rows, host.token(packed(self._template)))

    def _offers(self, hosts: list[_Host], results: list[Any]) -> dict[int, Offer]:
        offers, policy = {}, self._own.on_uneven
        for number, (host, (_, info)) in enumerate(zip(hosts, results)):
            kind, rows = map(int, np.asarray(info))
            if kind == FAILED:
                offers[number] = Offer("failed", policy, detail=host.text("message"))
            elif kind == BATCH:
                usual = self._rows if policy == "pad" else 0
                offers[number] = Offer("batch", policy, rows, usual, divisor=len(host.devices))
            else:
                offers[number] = Offer("end", policy)
        return offers

    def _assembled(self, hosts: list[_Host], results: list[Any], rows: int) -> Any:
        """Return the global batch, of the pieces that the hosts have made for their devices."""
        shards = len({host.shard for host in hosts})
        arrays = []
        for number in range(len(results[0])):
            pieces, devices = [], []
            for host, leaves in zip(hosts, results):
                by_device = {shard.device: shard.data for shard in leaves[number].addressable_shards}
                for device, cpu in zip(host.devices, host.cpus):
                    piece = by_device[cpu]
                    pieces.append(piece if rows == self._rows else piece[: piece.shape[0] * rows // self._rows])
                    devices.append(device)
            arrays.append(self._global(pieces, devices, rows * shards))
        return flatten(from_text(self._template))[1].unflatten(arrays)

    def _global(self, pieces: list[Any], devices: list[Any], rows: int) -> Any:
        placed = jax.device_put(pieces, devices)
        shape = (rows, *pieces[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, self._own.sharding, placed)

    def _mask(self, hosts: list[_Host], counts: list[int]) -> Any:
        shards = {host.shard: count for host, count in zip(hosts, counts)}
        mask = np.concatenate([np.arange(self._rows) < shards[shard] for shard in sorted(shards)])
        return jax.device_put(mask, NamedSharding(self._own.sharding.mesh, self._own.sharding.spec))

    @property
    def step(self) -> int:
        """Number of the next batch, from 0. Batches of earlier runs count."""
        return self._former_steps + self._taken

    def get_state(self) -> bytes:
        """Return the state of all hosts after the last batch received, as JSON bytes. Raises ClosedError after `close`."""
        if self._closed:
            raise ClosedError("this iterator was closed, and its hosts have forgotten their states. Save them before.")
        hosts = self._hosts or self._open()
        states = {host.shard: host.text("state", self._taken) for host in hosts}
        return json.dumps(
            {"remote": 1, "step": self.step, "shards": [states[shard] for shard in sorted(states)]}
        ).encode()

    def set_state(self, state: bytes) -> None:
        """Move to a state from `get_state`, perhaps of a run on another number of hosts.

        Raises:
            CheckpointError: it is not a state of a `RemoteLoader`.
            ClosedError: the iterator was closed.
        """
        self._check_open()
        try:
            told = json.loads(state)
            step, states = int(told["step"]), list(map(str, told["shards"]))
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"{short_repr(state)} is not a state of a RemoteLoader. Pass the result of its get_state()."
            ) from error
        self._end_hosts()
        self._begin(states, step)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this iterator was closed. Make a new one, and restore the state in it.")

    def _end_hosts(self) -> None:
        hosts, self._hosts = self._hosts or [], None
        self._pending.clear()
        for host in hosts:
            jax.block_until_ready(host.loader.end(host.token(np.int32(0))))

    def close(self) -> None:
        """Stop all work on all hosts. May be called twice."""
        self._closed = True
        self._end_hosts()
