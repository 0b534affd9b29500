"""The feeder of devices: the iterator of a `DeviceLoader`, which puts batches on devices.

In: the options of the feeder (`FeederOptions`), which contain the loader to read. Out: batches, as
trees of `jax.Array`.
"""

from __future__ import annotations

import jax

from .feeder import Feeder
from .hosts.agreement import Agreements
from .options import FeederOptions
from .shardings import processes_of
from .transfer import Transfer
from .upstream import Upstream


class DeviceFeeder(Feeder):
    """One pass over a stream, whose batches are put on devices before the user needs them.

    It is made by `iter(loader.to_device(…))`. Use it from one thread at a time. While the feeder is
    open, do not use the iterator from which it reads: that iterator is ahead of you. When the
    feeder is closed or deleted, an iterator that you passed returns to your position if it has a
    state; otherwise the batches that were read ahead are lost.

    The feeder's state is the state after the last batch that *you received*, whatever is in the
    buffers. The feeder keeps no batch that it gave you, so you can delete it or donate its buffers.
    If the feeder reads from something other than a `DataLoader`, steps, epochs and records are
    unknown, and asking for them raises a TypeError.

    After an error, the state is the state after the last batch that you received, and the next call
    of `next` tries again to make the batch that failed. A plain iterable cannot go back: there, the
    next call of `next` returns the batch after the failed batch. To stop the threads at once, close
    the feeder, use it as a context manager, or delete it.
    """


def new_feeder(description: FeederOptions) -> DeviceFeeder:
    """Return a new feeder (iterator over batches on devices) with the given options."""
    agreements = Agreements(jax.process_index(), processes_of(description.sharding))
    return DeviceFeeder(description, Upstream.of(description), agreements, Transfer(description))
