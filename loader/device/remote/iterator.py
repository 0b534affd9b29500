"""The iterator of a `RemoteLoader`: calls the loaders of all hosts, makes global arrays.

In: a description. Out: batches on the sharding, whose rows come from all hosts; and one state that
covers all hosts.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle
from jax.experimental.colocated_python import colocated_cpu_devices, colocated_python_class

from ....errors import CheckpointError, ClosedError, HostsError
from ...state.kept import Keeper, Kept
from ...state.position import StreamPositionAPI
from ...state.schema import parsed
from ...timing.listeners import begins
from ...timing.snapshot import Snapshot
from ..hosts.shard_options import shard_of
from ..hosts.verdict import Go, Refuse, Stop
from ..queue import Times
from ..shardings import leading_parts
from ..stats import Watch
from .caller import Caller
from .host import FAILED, SKIPPED, STATE, HostSide, Share
from .options import RemoteOptions
from .position import RemotePosition
from .states import as_one, of_shards
from .stats import LoaderOfHost, RemoteStats
from .step import Step, assembled, decide_step
from .texts import last_stats


class RemoteIterator(StreamPositionAPI):
    """One pass over the stream of a `RemoteLoader`.

    Its state is the state after the last batch that you received: one JSON text for all hosts.

    Attributes:
        mask: array `bool[rows]` on the same sharding as the last batch, False for rows that were
            filled in. None if `on_uneven` is neither "pad" nor "repeat", and before a batch was
            received.
    """

    def __init__(self, description: RemoteOptions) -> None:
        self._own = description
        self._hosts: list[Caller] | None = None
        self._watch = Watch()
        self._pending: deque[Step] = deque()
        self._closed = False
        self._changing = threading.RLock()  # while hosts begin or end
        self._begin(None, 0, Kept())

    def _begin(self, states: str | None, step: int, kept: Kept) -> None:
        """Set the position from which the hosts begin when they are called next.

        Args:
            states: JSON text with the states of all shards; None to begin from the start.
            step: number of steps before this position.
            kept: values of the user that are part of the state.
        """
        self._keeper = Keeper(kept)
        self.mask: Any = None
        self._states, self._former_steps = states, step
        self._taken = 0
        self._ended = False
        self._told: list[tuple[str, Any]] = []  # the statistics of hosts that have ended

    def __next__(self) -> Any:
        """Return the next global batch.

        Raises:
            StopIteration: the stream has ended on all hosts; with `on_uneven="drop"`, on one of
                them.
            HostsError: a host failed; hosts have batches of different shapes; the devices of a host
                cannot divide its rows equally; or, with `on_uneven="error"`, hosts have different
                numbers of rows.
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
                decide_step(self._own, hosts, step, self._taken + ahead)
            if not isinstance(step.verdict, Go):
                break
        verdict = self._pending[0].verdict
        if isinstance(verdict, Refuse):
            raise HostsError(verdict.message)
        if isinstance(verdict, Stop):
            self._ended = True
            raise StopIteration
        decided = time.perf_counter()
        batch, mask = assembled(self._own, hosts, self._pending[0])
        self._pending.popleft()
        ended = time.perf_counter()
        self._watch.note(began, ended, Times(began, decided, decided, decided, decided, ended))
        self.mask = mask
        self._taken += 1
        return batch

    def start_prefetch(self) -> None:
        """Start to load on the hosts now, instead of at the first `next`.

        Raises ClosedError after `close`.
        """
        self._check_open()
        if not self._ended:
            self._ask_ahead()

    def _ask_ahead(self) -> list[Caller]:
        """Ask all hosts for batches, until `buffer_size` batches are requested from each host.

        Return the `Caller` of each host.
        """
        hosts = self._hosts or self._open()
        while len(self._pending) < self._own.buffer_size:
            self._pending.append(Step([host.ask(self._taken) for host in hosts]))
        return hosts

    def _open(self) -> list[Caller]:
        with self._changing:  # metrics may ask on another thread
            self._check_open()
            return self._hosts or self._opened()

    def _opened(self) -> list[Caller]:
        parts = leading_parts(self._own.sharding, self._own.host_of)
        remote, hosts = colocated_python_class(HostSide), []
        starts = self._own.sharding.devices_indices_map((sum(map(len, set(parts.values()))),))
        for key, held in sorted(parts.items(), key=lambda item: min(item[1])):
            devices = [device for device in starts if self._own.host_of(device) == key]
            own = sorted(held)
            places = tuple(
                own.index(starts[device][0].indices(len(starts))[0]) for device in devices
            )
            share = Share(shard_of(key, parts), len(own), places, self._own.on_uneven == "repeat")
            cpus = tuple(colocated_cpu_devices(tuple(devices)))
            hosts.append(
                Caller(
                    devices, cpus, share.shard[0], len(own), remote(self._own.make_loader, share)
                )
            )
        for host in hosts:
            if self._states is not None and host.restore(self._states).kind == FAILED:
                message, self._hosts = host.text("message"), hosts
                self._end_hosts()  # else the next call would begin from the start
                raise CheckpointError(f"the state does not fit the loader of a host: {message}")
        self._hosts = hosts  # only now, as the user's thread may be another one
        begins(self)
        return hosts

    @property
    def host_count(self) -> int:
        """Number of hosts on which loaders run."""
        return len(leading_parts(self._own.sharding, self._own.host_of))

    def stats(self) -> RemoteStats:
        """Return how long you waited for batches, and the times of the loaders of all hosts.

        The waits are in seconds for each cause. `print` the result for a table. Each host is asked
        for its times, which takes a few milliseconds per host. A host that is making a batch
        answers after that batch. Any thread may call this, also after `close`.
        """
        hosts, told = self._hosts, self._told  # another thread may close this iterator meanwhile
        told = told if hosts is None else [each for host in hosts for each in host.stats()]
        return RemoteStats.of(self._watch.stats(None), [LoaderOfHost(*each) for each in told])

    def snapshot(self) -> Snapshot:
        """Return counts and times of your steps.

        No host is asked, so the numbers of records and bytes, and the times of operations, are
        missing.
        """
        return self._watch.snapshot(None)

    @property
    def step(self) -> int:
        """Number of the next batch, from 0. Batches before a restored state count."""
        return self._former_steps + self._taken

    def get_state(self) -> bytes:
        """Return one state for all hosts, after the last batch received, as JSON bytes.

        Raises:
            ClosedError: the iterator was closed.
        """
        if self._closed:
            raise ClosedError(
                "this iterator was closed, and its hosts have ended their loaders. Call "
                "get_state() before close()."
            )
        states = [state.decode() for state in self._ask(STATE)]
        return as_one(self.step, states, self.get_extra_state())

    def set_state(self, state: bytes, strict: bool = True) -> None:
        """Move to a state from `get_state`, perhaps of a run on another number of hosts.

        This call does not check whether the state fits the loader. The hosts check it when they are
        asked for the next batch or for a value.

        Args:
            state: result of `get_state`.
            strict: False accepts a state of another source, sampler or other operations.

        Raises:
            CheckpointError: `state` is not a state of a `RemoteLoader`.
            ClosedError: the iterator was closed.
        """
        self._check_open()
        step, states, own = of_shards(state)
        told = json.dumps({"states": states, "strict": strict, "equal_steps": False})
        with self._changing:
            self._end_hosts()
            self._begin(told, step, own)

    def set_states(
        self, states: Sequence[Any], strict: bool = True, equal_steps: bool = False
    ) -> None:
        """Continue a run without `RemoteLoader`, in which each shard had a process of its own.

        This call does not check whether the states fit the loader. The hosts check it when they are
        asked for the next batch or for a value.

        Args:
            states: results of `get_state` of the iterators or feeders on each of the shards, in any
                order.
            strict: False accepts states of another source, sampler or other operations.
            equal_steps: True allows a list with the state of a single shard, if all shards were at
                the same step and none had ended.

        Raises:
            CheckpointError: an item of `states` is not the state of a shard.
            ClosedError: the iterator was closed.
        """
        self._check_open()
        read = sorted(parsed(states), key=lambda state: state.shard)
        texts = [state.to_json().decode() for state in read]
        farthest = max(read, key=lambda state: state.step, default=None)
        step, own = (0, Kept()) if farthest is None else (farthest.step, farthest.kept)
        told = json.dumps({"states": texts, "strict": strict, "equal_steps": equal_steps})
        with self._changing:
            self._end_hosts()
            self._begin(told, step, own)

    def here(self) -> Any:
        """Return the user's position in the stream as a `RemotePosition`, for tools.

        Reading a value of the position asks each host, which takes a few milliseconds per host.
        """
        return RemotePosition(self.step, self._ask, self._own.on_uneven == "drop", self._keeper)

    @property
    def skipped_count(self) -> int:
        """Number of failed records or batches that were skipped, summed over all hosts."""
        return sum(self._ask(SKIPPED))

    def _change(self, wanted: Mapping[str, Any], at_step: int | None) -> None:
        self._check_open()
        content = cloudpickle.dumps((self._taken, wanted, at_step, self._own.buffer_size))
        for host in self._open():
            host.change(content)

    def _ask(self, question: str, *argument: int) -> list[Any]:
        """Ask all hosts a question about the position after the last batch.

        Args:
            question: one of `QUESTIONS`, such as "last_records".
            *argument: argument of the question, if it has one.

        Returns:
            One answer for each shard, in the order of the shards.
        """
        if self._closed:
            raise ClosedError(
                "this iterator was closed, and its hosts have ended their loaders. Call this "
                "method before close()."
            )
        by_shard = {host.shard: host for host in self._open()}
        return [
            by_shard[shard].tell(self._taken, question, *argument) for shard in sorted(by_shard)
        ]

    def _description_text(self) -> str:
        return f"step={self.step}, host_count={self.host_count}"

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(
                "this iterator was closed. Make a new one, and restore the state in it."
            )

    def _end_hosts(self) -> None:
        hosts, self._hosts = self._hosts or [], None
        self._pending.clear()
        for ended in [host.end() for host in hosts]:
            self._told += last_stats(ended)

    def close(self) -> None:
        """Stop all work on all hosts. May be called twice."""
        with self._changing:
            self._closed = True
            self._end_hosts()
