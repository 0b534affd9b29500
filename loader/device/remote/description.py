"""Description of a loader that one process controls and that runs on many hosts.

`iter()` of a description makes an iterator over the batches of all hosts.

In: a function that makes the loader of a host, and a sharding. Out: iterators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....common.validation import whole_number
from .options import RemoteOptions

if TYPE_CHECKING:
    from .epochs import RemoteEpochs
    from .iterator import RemoteIterator


class RemoteLoader(RemoteOptions):
    """A stream of global batches, whose rows are loaded on the hosts of their devices. Immutable.

    Experimental. One process controls devices of many hosts, as on Pathways, where
    `jax.process_index()` is 0 everywhere. A loader runs on each host, by
    `jax.experimental.colocated_python`; records never pass through the controlling process.

    Attributes:
        make_loader: function that takes `ShardOptions`, and returns a loader or a dataset, whose
            batches are arrays of numbers. The function runs on each host. So it must be importable
            there, or cloudpickle must be able to pickle it.
        sharding: sharding of the batches, `NamedSharding` or `(mesh, axis names)`, which divides
            their rows.
        on_uneven: what to do at a step at which hosts have different numbers of rows: "error",
            "drop", "pad" or "repeat", as in `to_device`.
        host_of: function that returns a key of the host of a device. Default: `host_of_device`,
            which uses the process or task index that jax gives the device.
        buffer_size: number of batches that are made ahead.

    Raises:
        MissingExtraError: jax is not installed, or is too old.
        TypeError, ValueError: an argument has the wrong type, or is outside its range.
        ShardingError: the sharding has no mesh, or divides other axes than the rows; or, when a
            loop begins, hosts hold unequal parts.

    >>> import jax, headrace
    >>> def make_loader(shard):
    ...     return headrace.load(range(8), batch_size=4, num_epochs=1, shard_options=shard)
    >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ("data",))
    >>> with iter(headrace.RemoteLoader(make_loader, (mesh, "data"))) as batches:
    ...     [batch.tolist() for batch in batches]
    [[0, 1, 2, 3], [4, 5, 6, 7]]
    """

    def epochs(self, count: int) -> RemoteEpochs:
        """Return an iterable with one loop per epoch.

        Use it as `for epoch in loader.epochs(3): for batch in epoch:`. An epoch is the same as in
        `DataLoader.epochs` of the loaders on the hosts. At the end of each epoch, hosts may have
        different numbers of rows; `on_uneven` says what to do then. One state covers all epochs,
        and can be restored on another number of hosts. For each epoch, `make_loader` is called
        again.

        Args:
            count: number of epochs.

        Raises:
            TypeError: `count` is not an integer; or, when a loop begins, `make_loader` does not
                return a `DataLoader`.
            ValueError: `count` is below 1; or, when a loop begins, as in `DataLoader.epochs`.

        >>> import jax, headrace
        >>> def make_loader(shard):
        ...     return headrace.load(range(3), batch_size=2, shard_options=shard)
        >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ("data",))
        >>> with headrace.RemoteLoader(make_loader, (mesh, "data")).epochs(2) as epochs:
        ...     [[batch.tolist() for batch in epoch] for epoch in epochs]
        [[[0, 1], [2]], [[0, 1], [2]]]
        """
        from .epochs import RemoteEpochs

        return RemoteEpochs(self, whole_number("count", count, 1, None, "a number of epochs"))

    def __iter__(self) -> RemoteIterator:
        from .iterator import RemoteIterator

        return RemoteIterator(self)
