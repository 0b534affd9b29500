"""The feeder without devices: the iterator of a `HostLoader`.

In: a description. Out: batches on the host, the same number on all hosts.
"""

from __future__ import annotations

import os
from typing import Protocol

from ....errors import HostsError
from ..feeder import Feeder
from ..options import CommonOptions
from ..upstream import Upstream
from .agreement import Agreements
from .arrays import OnHost
from .folder import folder_store
from .store import KeyValueStore, MessageStore, jax_processes


class HostOptions(CommonOptions, Protocol):
    """The options of a feeder without devices.

    Attributes:
        folder: folder by which the hosts agree. None: jax's coordination service.
    """

    @property
    def folder(self) -> str | os.PathLike[str] | None: ...


class HostFeeder(Feeder):
    """One pass over a stream, with as many batches as all other hosts have.

    It is made by `iter(loader.across_hosts(…))`. Use it from one thread at a time. Batches are made
    ahead, on threads. Its state is the state after the last batch that *you received*, and any
    `iter(loader)` or `loader.across_hosts(…)` can restore it.

    After an error, the state is the state after the last batch that you received, and the next
    `next` tries again. To stop the threads at once, close it, use it as a context manager, or
    delete it.
    """

    @property
    def agrees(self) -> bool:
        """True if several hosts agree on each batch."""
        return self._agreements.has_others

    def ask_to_stop(self) -> None:
        """Ask all hosts, which agree by a folder, to end their loops after one of the next batches.

        See `stops_here`.
        """
        self._upstream.stops = True

    @property
    def stops_here(self) -> bool:
        """True if a host was asked to end, and all hosts end their loops after the last batch."""
        return self._stops_here


def new_host_feeder(description: HostOptions) -> HostFeeder:
    """Return a feeder that reads the source of a description.

    Raises:
        TypeError: the source is not a `DataLoader` or a dataset.
        HostsError: there are several shards, but neither jax's coordination service nor a folder.
        ValueError: batches shall be repeated, and the source cannot begin again.
    """
    upstream = Upstream.of(description)
    shard = upstream.loader("across_hosts").pipeline.shard
    me, processes, folder = shard.shard_index, range(shard.shard_count), description.folder
    if folder is None and len(processes) > 1:
        try:
            me, count = jax_processes()
        except HostsError:
            upstream.leave()
            raise
        processes = range(count)

    def new_store() -> MessageStore:
        return KeyValueStore() if folder is None else folder_store(folder, me, processes)

    return HostFeeder(
        description, upstream, Agreements(me, processes, new_store), OnHost(description.on_uneven)
    )
