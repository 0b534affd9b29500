"""The feeder without devices: the iterator of a `HostLoader`, whose batches stay on the host.

In: the description of a stream (`HostLoader`). Out: batches on the host, the same number on all
hosts.
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
    """Interface of the options of a feeder whose batches stay on the host.

    Attributes:
        folder: folder through which the hosts exchange messages, to agree on each batch. None: they
            use jax's coordination service.
    """

    @property
    def folder(self) -> str | os.PathLike[str] | None: ...


class HostFeeder(Feeder):
    """One pass over a stream, with as many batches as all other hosts have.

    It is made by `iter(loader.across_hosts(…))`. Use it from one thread at a time. Batches are made
    ahead, on threads. Its state is the state after the last batch that *you received*. Iterators of
    the loader and of `loader.across_hosts(…)` can restore this state.

    After an error, the state is the state after the last batch that you received, and the next call
    of `next` tries again to make the batch that failed. To stop the threads at once, close the
    feeder, use it as a context manager, or delete it.
    """

    @property
    def agrees(self) -> bool:
        """True if there are several hosts, which agree on each batch before it is delivered."""
        return self._agreements.has_others

    def ask_to_stop(self) -> None:
        """Ask all hosts to end their loops after the same batch: one of the next batches.

        On each host, `stops_here` is True after this batch. The hosts must exchange messages
        through a folder (the argument `folder=` of `across_hosts`).
        """
        self._upstream.stops = True

    @property
    def stops_here(self) -> bool:
        """True if all hosts end their loops after the batch delivered last (see `ask_to_stop`)."""
        return self._stops_here


def new_host_feeder(description: HostOptions) -> HostFeeder:
    """Return a new feeder (iterator over batches that stay on the host) with the given options.

    Raises:
        TypeError: the source is not a `DataLoader` or a dataset.
        HostsError: there are several shards, but neither jax's coordination service nor a folder.
        ValueError: `on_uneven="repeat"`, and the source cannot be iterated again from its
            beginning.
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
