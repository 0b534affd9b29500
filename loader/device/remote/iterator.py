"""The iterator of a `RemoteLoader`: it calls the loaders of all hosts, and makes global arrays of their rows.

In: a description. Out: batches on the sharding; and a state of all hosts.
"""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Self

import jax
import numpy as np
from jax.experimental.colocated_python import colocated_cpu_devices, colocated_python_class
from jax.sharding import NamedSharding

from ....common.closing import ClosedAtExit
from ....common.messages import short_repr
from ....common.validation import warn
from ....errors import CheckpointError, ClosedError, HostsError
from ...timing.listeners import begins
from ...timing.snapshot import Snapshot
from ..hosts.shard_options import shard_of
from ..hosts.verdict import FILLING, Go, Offer, Refuse, Stop, Verdict, decide
from ..prepared import Prepared
from ..queue import Times
from ..shardings import leading_parts
from ..stats import Watch
from .caller import AskedBatch, Caller
from .host import BATCH, FAILED, Answer, HostSide, Share, answer_of, last_stats
from .options import RemoteOptions
from .stats import LoaderOfHost, RemoteStats


@dataclass
class _Step:
    """A step that all hosts were asked for.

    Attributes:
        asked: what each host was asked for.
        verdict: what all hosts do; None: not yet decided.
        rows: number of rows of each host's batch, of those that are real.
        leaves: leaves of each host; None for a host whose rows are all zeros.
        layout: a batch without rows.
        wanted: number of rows of each host, with those that are filled in.
    """

    asked: list[AskedBatch]
    verdict: Verdict | None = None
    rows: list[int] = field(default_factory=list)
    leaves: list[list[Any] | None] = field(default_factory=list)
    layout: Prepared | None = None
    wanted: int = 0

    def is_answered(self) -> bool:
        return all(asked.answer.is_ready() for asked in self.asked)


class RemoteIterator(ClosedAtExit):
    """One pass over the stream of a `RemoteLoader`. Its state is one small tree of all hosts, after the last batch received.

    Attributes:
        mask: `bool[rows]` on the same sharding, False for rows of the last batch that were filled in; None without "pad" or
            "repeat", and before a batch was received.
    """

    def __init__(self, description: RemoteOptions) -> None:
        self._own = description
        self._hosts: list[Caller] | None = None
        self._watch = Watch()
        self._pending: deque[_Step] = deque()
        self._closed = False
        self._begin(None, 0)

    def _begin(self, states: str | None, step: int) -> None:
        """Let the hosts begin with the states of all shards, a JSON text, at a step; None: from the beginning."""
        self.mask: Any = None
        self._states, self._former_steps = states, step
        self._taken = 0
        self._ended = False
        self._told: list[tuple[str, Any]] = []  # the statistics of hosts that have ended

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Return the next global batch.

        Raises:
            StopIteration: the stream has ended on all hosts; with "drop", on one of them.
            HostsError: a host failed; hosts have batches of different shapes, or, with "error", different numbers of rows;
                or the devices of a host cannot divide its rows equally.
            CheckpointError: a state that was restored does not fit the loader.
            ClosedError: the iterator was closed.
        """
        self._check_open()
        if self._ended:
            raise StopIteration
        began = time.perf_counter()
        hosts = self._ask_ahead()
        for ahead, step in enumerate(self._pending):
            if ahead and not step.is_answered():
                break
            if step.verdict is None:
                self._decide(hosts, step, self._taken + ahead)
            if not isinstance(step.verdict, Go):
                break
        verdict = self._pending[0].verdict
        if isinstance(verdict, Refuse):
            raise HostsError(verdict.message)
        if isinstance(verdict, Stop):
            self._ended = True
            raise StopIteration
        decided = time.perf_counter()
        batch, mask = self._assembled(hosts, self._pending[0])
        self._pending.popleft()
        ended = time.perf_counter()
        self._watch.note(began, ended, Times(began, decided, decided, decided, decided, ended))
        self.mask = mask
        self._taken += 1
        return batch

    def start_prefetch(self) -> None:
        """Start to load on the hosts now, instead of at the first `next`. Raises ClosedError after `close`."""
        self._check_open()
        if not self._ended:
            self._ask_ahead()

    def _ask_ahead(self) -> list[Caller]:
        """Ask the hosts for the next batches, and return the hosts."""
        hosts = self._hosts or self._open()
        while len(self._pending) < self._own.buffer_size:
            self._pending.append(_Step([host.ask(self._taken) for host in hosts]))
        return hosts

    def _open(self) -> list[Caller]:
        parts = leading_parts(self._own.sharding, self._own.host_of)
        remote, hosts = colocated_python_class(HostSide), []
        starts = self._own.sharding.devices_indices_map((sum(map(len, set(parts.values()))),))
        for key, held in sorted(parts.items(), key=lambda item: min(item[1])):
            devices = [device for device in starts if self._own.host_of(device) == key]
            own = sorted(held)
            places = tuple(own.index(starts[device][0].indices(len(starts))[0]) for device in devices)
            share = Share(shard_of(key, parts), len(own), places, self._own.on_uneven == "repeat")
            cpus = tuple(colocated_cpu_devices(tuple(devices)))
            hosts.append(Caller(devices, cpus, share.shard[0], len(own), remote(self._own.make_loader, share)))
        self._hosts = hosts
        begins(self)
        for host in hosts:
            if self._states is not None and host.restore(self._states).kind == FAILED:
                message = host.text("message")
                self._end_hosts()  # else the next call would begin from the start
                raise CheckpointError(f"the state does not fit the loader of a host: {message}")
        return hosts

    def _decide(self, hosts: list[Caller], step: _Step, number: int) -> None:
        """Decide what all hosts do at a step, and get the leaves of hosts that had expected another batch."""
        answers = [answer_of(asked.answer) for asked in step.asked]
        verdict = step.verdict = decide(self._offers(hosts, answers, number), number)
        if not isinstance(verdict, Go):
            return
        for host, answer in zip(hosts, answers):
            if answer.warns:
                warn(host.text("message", number))
        step.layout = next(host.layout(answer.layout) for host, answer in zip(hosts, answers) if answer.kind == BATCH)
        step.rows = [answer.rows for answer in answers]
        step.wanted = max(step.rows) if verdict.rows is None else verdict.rows
        if any(step.wanted % host.parts for host in hosts):
            step.verdict = Refuse(
                f"batch {number} of this run has {step.wanted} rows of each host, which its devices cannot divide into "
                f"{hosts[0].parts} equal parts. Choose another batch size, drop_remainder=True, or "
                'on_uneven="pad".'
            )
            return
        for host, asked, answer in zip(hosts, step.asked, answers):
            leaves = self._leaves(host, asked, answer, step, number, verdict)
            if isinstance(leaves, Refuse):
                step.verdict = leaves
                return
            step.leaves.append(leaves)

    def _leaves(
        self, host: Caller, asked: AskedBatch, answer: Answer, step: _Step, number: int, verdict: Go
    ) -> list[Any] | Refuse | None:
        """Return the leaves of a host, filled up; None if all of its rows are zeros; or an error.

        Args:
            host: the host.
            asked: what it was asked for.
            answer: what it answered.
            step: the step.
            number: number of the step in this run.
            verdict: what all hosts do.
        """
        if answer.kind == BATCH:
            same = asked.expected == (answer.layout, step.wanted)
            return asked.leaves if same else host.take(number, answer.layout, step.wanted)
        if self._own.on_uneven != "repeat":
            return None
        answer = host.again(number, verdict.at - answer.at - 1)
        if answer.kind != BATCH:
            return Refuse(
                f"a host cannot repeat a batch: {host.text('message', number)}. Correct the cause, and start again."
            )
        own, layout = host.layout(answer.layout).arrangement.described, step.layout
        if layout is None or own != layout.arrangement.described:
            return Refuse(
                f"a host whose stream has ended would repeat a batch with {own}, but the batch of the others has another "
                'shape. Make all batches alike, or pass on_uneven="pad".'
            )
        return host.take(number, answer.layout, step.wanted)

    def _offers(self, hosts: list[Caller], answers: list[Answer], step: int) -> dict[int, Offer]:
        offers, policy = {}, self._own.on_uneven
        for number, (host, answer) in enumerate(zip(hosts, answers)):
            if answer.kind == FAILED:
                offers[number] = Offer("failed", policy, detail=host.text("message", step))
            elif answer.kind == BATCH:
                layout = host.layout(answer.layout).arrangement.described
                usual = answer.usual if policy in FILLING else 0
                offers[number] = Offer("batch", policy, answer.rows, usual, host.parts, layout, at=answer.at)
            else:
                offers[number] = Offer("end", policy, at=answer.at)
        return offers

    def _assembled(self, hosts: list[Caller], step: _Step) -> tuple[Any, Any]:
        """Return the global batch, of the pieces that the hosts have made for their devices, and its mask or None."""
        assert step.layout is not None
        devices = [device for host in hosts for device in host.devices]
        pieces: list[Any] = []
        for number, like in enumerate(step.layout.leaves):
            for host, leaves in zip(hosts, step.leaves):
                if leaves is None:
                    pieces += self._zeros(host, like, step.wanted)
                else:
                    by_device = {shard.device: shard.data for shard in leaves[number].addressable_shards}
                    pieces += [by_device[cpu] for cpu in host.cpus]
        placed = jax.device_put(pieces, devices * len(step.layout.leaves))
        rows, each = step.wanted * len({host.shard for host in hosts}), len(devices)
        arrays = [
            jax.make_array_from_single_device_arrays(
                (rows, *like.shape[1:]), self._own.sharding, placed[number * each : (number + 1) * each]
            )
            for number, like in enumerate(step.layout.leaves)
        ]
        mask = self._mask(hosts, step) if self._own.on_uneven in FILLING else None
        return step.layout.arrangement.structure.unflatten(arrays), mask

    def _zeros(self, host: Caller, like: Any, rows: int) -> list[Any]:
        shape, dtype = (rows // host.parts, *like.shape[1:]), jax.dtypes.canonicalize_dtype(like.dtype)
        return [jax.numpy.zeros(shape, dtype, device=device) for device in host.devices]

    def _mask(self, hosts: list[Caller], step: _Step) -> Any:
        shards = {host.shard: rows for host, rows in zip(hosts, step.rows)}
        mask = np.concatenate([np.arange(step.wanted) < shards[shard] for shard in sorted(shards)])
        return jax.device_put(mask, NamedSharding(self._own.sharding.mesh, self._own.sharding.spec))

    @property
    def host_count(self) -> int:
        """Number of hosts on which loaders run."""
        return len(leading_parts(self._own.sharding, self._own.host_of))

    def stats(self) -> RemoteStats:
        """Return how long you waited for batches, in seconds for each cause, and the times of the loaders of all hosts.

        `print` the result for a table. Each host is asked, which takes about a millisecond for each, and perhaps the time of a
        batch that the host is making. Any thread may call this, also after `close`.
        """
        hosts, told = self._hosts, self._told  # another thread may close this iterator meanwhile
        told = told if hosts is None else [host.stats() for host in hosts]
        return RemoteStats.of(self._watch.stats(None), [LoaderOfHost(*each) for each in told])

    def snapshot(self) -> Snapshot:
        """Return counts and times of your steps. No host is asked, so records, bytes and stages are not counted."""
        return self._watch.snapshot(None)

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

    def set_state(self, state: bytes, strict: bool = True) -> None:
        """Move to a state from `get_state`, perhaps of a run on another number of hosts.

        Hosts check the state when they begin, at the next call of another method.

        Args:
            state: result of `get_state`.
            strict: False accepts a state of another source, sampler or other operations.

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
        self._begin(json.dumps({"states": states, "strict": strict}), step)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this iterator was closed. Make a new one, and restore the state in it.")

    def _end_hosts(self) -> None:
        hosts, self._hosts = self._hosts or [], None
        self._pending.clear()
        for ended in [host.end() for host in hosts]:
            self._told += last_stats(ended)

    def close(self) -> None:
        """Stop all work on all hosts. May be called twice."""
        self._closed = True
        self._end_hosts()
