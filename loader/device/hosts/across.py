"""Streams that have the same number of batches on all hosts, and stay on their hosts.

In: a loader. Out: a description of such a stream, whose `iter()` makes the iterator. The function
`across_hosts` is also a method of each class that assigns it to one of its attributes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ....common.messages import a_kind_of, short_repr
from ....common.validation import one_of, whole_number
from .verdict import POLICIES, OnUneven

if TYPE_CHECKING:
    from ...epochs import Epochs
    from .host_feeder import HostFeeder


@dataclass(frozen=True, eq=False)
class HostLoader:
    """A stream with the same number of batches on all hosts, made by `loader.across_hosts(…)`.

    Immutable. Each `iter()` is an independent run from the start, and all hosts must begin their
    runs in the same order.

    Attributes:
        source: a `DataLoader` or a dataset.
        on_uneven: what to do if hosts have different numbers of batches. "error": raise an error on
            all hosts. "drop": end the stream on all hosts when the first host has no batch left.
            "pad": continue until no host has a batch left; missing rows are zeros, and
            `iterator.mask` is False for them. "repeat": as "pad", but missing rows are rows that
            the host had before.
        folder: folder through which the hosts exchange messages, to agree on each batch. None: they
            use jax's coordination service.
        buffer_size: number of batches that may wait for you.

    >>> import headrace
    >>> batches = headrace.load(range(6), batch_size=4, num_epochs=1).across_hosts("pad")
    >>> iterator = iter(batches)
    >>> [(batch.tolist(), iterator.mask.tolist()) for batch in iterator]
    [([0, 1, 2, 3], [True, True, True, True]), ([4, 5, 0, 0], [True, True, False, False])]
    """

    source: Iterable[Any]
    on_uneven: OnUneven = "error"
    folder: str | os.PathLike[str] | None = None
    buffer_size: int = 2

    def __post_init__(self) -> None:
        one_of("on_uneven", self.on_uneven, *POLICIES)
        whole_number("buffer_size", self.buffer_size, 1, None, "a positive int")
        if self.folder is not None and not isinstance(self.folder, (str, os.PathLike)):
            raise TypeError(
                f"folder={short_repr(self.folder)} is {a_kind_of(self.folder)}. Pass the path of a "
                "folder that all hosts share."
            )

    @property
    def transform(self) -> None:
        return None

    @property
    def host_buffer(self) -> int:
        return 1

    @property
    def device_buffer(self) -> int:
        return self.buffer_size

    def __len__(self) -> int:
        """Return the length of the source, which is its number of batches on this host.

        `on_uneven="drop"` may end the stream earlier; "pad" and "repeat" may make it longer.

        Raises:
            TypeError: the source has no length.
        """
        return len(self.source)  # type: ignore[arg-type]

    def epochs(self, count: int | None = None) -> Epochs[HostFeeder]:
        """Return an iterable with one loop per epoch, with equally many batches on all hosts.

        One state covers all epochs; see `DataLoader.epochs`.

        Args:
            count: number of epochs. None (default): all epochs of the sampler.

        Raises:
            TypeError: the source is not a `DataLoader`, or `count` is not an integer.
            ValueError: as in `DataLoader.epochs`.
        """
        from ...epochs import fed_epochs

        return fed_epochs(self, count)

    def __iter__(self) -> HostFeeder:
        from .host_feeder import new_host_feeder

        return new_host_feeder(self)


def across_hosts(
    self: Iterable[Any],
    on_uneven: Literal["error", "drop", "pad", "repeat"] = "error",
    *,
    folder: str | os.PathLike[str] | None = None,
    buffer_size: int = 2,
) -> HostLoader:
    """Return the same stream with equally many batches on all hosts, but not on devices.

    Hosts have different numbers of batches after a `Filter` or `FlatMap`, or if some shards have
    one record more. Without this method, a training step in which all hosts take part would then
    wait for ever for the host that has no batch. For batches on devices, pass `on_uneven=` to
    `to_device` instead.

    Before you ask for a batch, the hosts agree on it: by the coordination service of jax, after
    `jax.distributed.initialize()`, or by files in a folder. If the loader has one shard, nothing is
    agreed on.

    Args:
        self: the loader or dataset whose method this is.
        on_uneven: what all hosts do at a batch that only some of them have. "error" (default):
            raise an error. "drop": end the stream. "pad": continue until no host has a batch left;
            missing rows are zeros, and `iterator.mask` is False for them. "repeat": as "pad", but
            missing rows are rows that the host had before. These are rows of the same batch, or,
            after the last batch of the host, its first batches again.
        folder: folder that all hosts can read and write, for this program alone. The loader of each
            host must have a shard of its own. None (default): use jax.
        buffer_size: number of batches that may wait for you.

    Raises:
        TypeError, ValueError: an argument has the wrong type, or is outside its range.
        HostsError: when a loop begins, if there are several shards, but neither jax's coordination
            service nor a folder.

    >>> import headrace
    >>> not_three = headrace.Filter(lambda x: x != 3)
    >>> loader = headrace.load(
    ...     range(6), transformations=[not_three], batch_size=2, num_epochs=1
    ... )
    >>> [batch.tolist() for batch in loader.across_hosts("repeat")]
    [[0, 1], [2, 4], [5, 5]]
    """
    return HostLoader(self, on_uneven, folder, buffer_size)
