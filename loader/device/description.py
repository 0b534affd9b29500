"""The description of a feeder: what to feed, where to, and how far ahead. It holds no thread; `iter()` makes what runs.

`to_device` is a method of whatever has it among its members.

In: a loader, an iterator or any iterable, and a sharding. Out: feeders.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from ...common.messages import a_kind_of, shorten
from ...migration_hints.decorators import explained_as
from .options import FeederOptions

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from jax.sharding import Mesh, Sharding

    from ..epochs import Epochs
    from .feeder import DeviceFeeder

    class Device(Protocol):
        """A `jax.Device`, which is of no type for type checkers."""

        @property
        def platform(self) -> str: ...

        @property
        def process_index(self) -> int: ...

    ShardingLike: TypeAlias = (
        Device | Sharding | tuple[Mesh, Any] | Mapping[Any, Any] | Sequence[Any] | DataclassInstance
    )


class DeviceLoader(FeederOptions):
    """A stream of batches on devices; made by `loader.to_device(…)` and `headrace.device_put(…)`. Immutable.

    Each `iter()` is an independent run from the start, if the source can begin anew. Over an iterator one feeder runs at a
    time, and goes on where that stands: after what the user of the one before received, if it has a state; otherwise
    after what that one had read ahead.

    Without x64, jax has no integers of 64 bits: the first that does not fit into 32 is a warning.

    Attributes:
        source: a `DataLoader`, an iterator, or any iterable of trees of arrays.
        sharding: a device, a `Sharding`, `(mesh, axis names)`, or a tree of these, each for the leaves below it.
        host_buffer: batches that may wait on the host, read and transformed.
        device_buffer: batches that may wait on the devices, transferred. So many are there beside those you hold.
        transform: applied to each batch on the host, on the feeder's thread; None: nothing is.
        on_unsupported: "error", or "keep" to receive strings and objects as they are, on the host, and leaves for which a
            tree of shardings has None, or no key.
        on_uneven: what to do when hosts have different amounts of data, or a batch does not divide: "error"; "drop" to end
            there, on all hosts; "pad" to fill up with zeros, see `feeder.mask`.
        pinned_host: go through page-locked memory. Untested on GPUs.

    Raises:
        MissingExtraError: jax is not installed.
        TypeError, ValueError: an argument of the wrong kind, or outside its range.

    >>> import jax, headrace
    >>> batches = headrace.load(range(6), batch_size=3, num_epochs=1).to_device(jax.devices()[0])
    >>> [batch.sum().item() for batch in batches]
    [3, 12]
    """

    def __len__(self) -> int:
        """Number of batches of this process, where the source knows it."""
        return len(self.source)  # type: ignore[arg-type]

    def epochs(self, count: int | None = None) -> Epochs[DeviceFeeder]:
        """A loop per epoch on devices, with one state over all of it; see `DataLoader.epochs`.

        Each epoch has a feeder of its own, which begins to read when its loop does.

        Raises:
            TypeError: it feeds from something else than a `DataLoader`.
        """
        from ..epochs import Epochs

        loops = getattr(self.source, "epochs", None)
        epochs = loops(count) if callable(loops) and not isinstance(self.source, DeviceLoader) else None
        if not isinstance(epochs, Epochs):
            raise TypeError(f"epochs needs a DataLoader to feed from, and this is {a_kind_of(self.source)}.")
        return epochs.opened_by(lambda loader: iter(dataclasses.replace(self, source=loader)))

    def __iter__(self) -> DeviceFeeder:
        from .feeder import DeviceFeeder
        from .upstream import Upstream

        iterator = iter(self.source)
        return DeviceFeeder(self, Upstream(iterator, owned=iterator is not self.source))


@explained_as("to_device")
def to_device(
    self: Iterable[Any],
    sharding_or_device: ShardingLike,
    *,
    host_buffer: int = 4,
    device_buffer: int = 2,
    transform: Callable[[Any], Any] | None = None,
    on_unsupported: Literal["error", "keep"] = "error",
    on_uneven: Literal["error", "drop", "pad"] = "error",
    pinned_host: bool = False,
) -> DeviceLoader:
    """The same stream as trees of `jax.Array`, transferred ahead of the user; see `DeviceLoader` for the arguments.

    >>> import jax, headrace
    >>> loader = headrace.load(range(8), batch_size=4, num_epochs=1)
    >>> with iter(loader.to_device(jax.devices()[0])) as feeder:
    ...     batch = next(feeder)
    ...     state = feeder.get_state()  # after this batch, however far ahead the feeder is
    >>> batch.tolist()
    [0, 1, 2, 3]
    """
    return DeviceLoader(
        self, sharding_or_device, host_buffer, device_buffer, transform, on_unsupported, on_uneven, pinned_host
    )


def device_put(
    ds: Iterable[Any], device: ShardingLike, *, cpu_buffer_size: int = 4, device_buffer_size: int = 2, **more: Any
) -> DeviceLoader:
    """Batches of anything on devices, ahead of the user: Grain's name and arguments for `loader.to_device`.

    Args:
        ds: a `DataLoader`, its iterator, a Grain dataset, or any iterable or iterator of trees of arrays.
        device: a device, a `Sharding`, `(mesh, axis names)`, or a tree of these.
        cpu_buffer_size: batches that may wait on the host.
        device_buffer_size: batches that may wait on the devices.
        **more: other arguments of `to_device`: `transform`, `on_unsupported`, `on_uneven`, `pinned_host`.

    Raises:
        MissingExtraError: jax is not installed.

    >>> import jax, headrace, numpy as np
    >>> next(iter(headrace.device_put([np.ones(3)], jax.devices()[0]))).sum().item()
    3.0
    """
    known = ("transform", "on_unsupported", "on_uneven", "pinned_host")
    for name in more:
        if name not in known:
            others = ", ".join(("cpu_buffer_size", "device_buffer_size", *known))
            raise TypeError(f"device_put has no argument {shorten(name)}=; it has {others}.")
    return DeviceLoader(ds, device, host_buffer=cpu_buffer_size, device_buffer=device_buffer_size, **more)
