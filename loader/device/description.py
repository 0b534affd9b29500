"""The description of a device feeder: its source, its sharding and its buffers.

`iter()` of a description makes a feeder, which reads the source and puts its batches on devices.

In: a loader, an iterator or any iterable, and a sharding. Out: feeders. The function `to_device` is
also a method of each class that assigns it to one of its attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from ...common.messages import shorten
from ...common.validation import whole_number
from ...migration_hints.decorators import explained_as
from .hosts.verdict import OnUneven
from .options import FeederOptions

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from jax.sharding import Mesh, Sharding

    from ..epochs import Epochs
    from .device_feeder import DeviceFeeder

    class Device(Protocol):
        """Interface of `jax.Device`, for type checkers only."""

        @property
        def platform(self) -> str: ...

        @property
        def process_index(self) -> int: ...

    ShardingLike: TypeAlias = (
        Device | Sharding | tuple[Mesh, Any] | Mapping[Any, Any] | Sequence[Any] | DataclassInstance
    )


class DeviceLoader(FeederOptions):
    """A stream of batches on devices, made by `loader.to_device(…)` and `headrace.device_put(…)`.

    Immutable. `iter()` makes a feeder, the iterator that transfers the batches. If the source can
    be iterated several times, each feeder is an independent run from the start. If the source is an
    iterator, only one feeder can run at a time, and each feeder begins at the iterator's position
    at that time. If the iterator has a state, the next feeder continues after the last batch that
    the user received from the earlier feeder. Otherwise, the batches that the earlier feeder had
    read ahead are lost.

    Without jax's option `jax_enable_x64`, jax has no 64-bit integers, and converts them to 32 bits.
    The first value that does not fit into 32 bits causes a warning.

    Attributes:
        source: a `DataLoader`, an iterator, or any iterable of trees of arrays.
        sharding: a device, a `Sharding`, `(mesh, axis names)`, or a tree of these. In a tree, each
            sharding is used for all leaves below it.
        host_buffer: number of batches that may wait on the host, read and transformed.
        device_buffer: number of transferred batches that may wait on the devices. They need memory
            in addition to the batches that you hold.
        transform: function that is applied to each batch on the host, on the feeder's thread. None:
            no function.
        on_unsupported: "error": raise an error if a batch has leaves that jax cannot put on
            devices, such as strings and objects. "keep": you receive these leaves unchanged, on the
            host. With "keep", leaves for which a tree of shardings has None or no key also stay on
            the host.
        on_uneven: what to do if hosts have different amounts of data, or if a batch cannot be
            divided over the devices. "error": raise an error. "drop": end the stream before this
            batch, on all hosts. "pad": fill batches up with rows of zeros; `feeder.mask` is False
            for these rows. "repeat": fill batches up with rows that this host had before. These are
            rows of the same batch, or, after the last batch of this host, its first batches again.
        pinned_host: transfer through page-locked memory. Untested on GPUs.

    Raises:
        MissingExtraError: jax is not installed.
        TypeError, ValueError: an argument has the wrong type, or is outside its range.
        ValueError: when a loop begins, if `on_uneven="repeat"` and the source is neither a
            `DataLoader` nor a dataset. Also when the first batch is requested, if another running
            feeder reads from the same iterator.

    >>> import jax, headrace
    >>> batches = headrace.load(range(6), batch_size=3, num_epochs=1).to_device(jax.devices()[0])
    >>> [batch.sum().item() for batch in batches]
    [3, 12]
    """

    def __len__(self) -> int:
        """Return the length of the source, which is its number of batches in this process.

        On several hosts, `on_uneven="drop"` may end the stream earlier; "pad" and "repeat" may make
        it longer.

        Raises:
            TypeError: the source has no length.
        """
        return len(self.source)  # type: ignore[arg-type]

    def epochs(self, count: int | None = None) -> Epochs[DeviceFeeder]:
        """Return an iterable with one loop per epoch, whose batches are on devices.

        See `DataLoader.epochs`. One state covers all epochs. Each epoch has its own feeder, which
        begins to read when the loop of the epoch begins.

        Args:
            count: number of epochs. None (default): all epochs of the sampler.

        Raises:
            TypeError: the source is not a `DataLoader`, or `count` is not an integer.
            ValueError: as in `DataLoader.epochs`.
        """
        from ..epochs import fed_epochs

        return fed_epochs(self, count)

    def __iter__(self) -> DeviceFeeder:
        from .device_feeder import new_feeder

        return new_feeder(self)


@explained_as("to_device")
def to_device(
    self: Iterable[Any],
    sharding_or_device: ShardingLike,
    *,
    host_buffer: int = 4,
    device_buffer: int = 2,
    transform: Callable[[Any], Any] | None = None,
    on_unsupported: Literal["error", "keep"] = "error",
    on_uneven: OnUneven = "error",
    pinned_host: bool = False,
) -> DeviceLoader:
    """Return the same stream as trees of `jax.Array`, transferred before the user asks for them.

    Args:
        self: the loader, iterator or other iterable whose method this is.
        sharding_or_device: a device, a `Sharding`, `(mesh, axis names)`, or a tree of these. In a
            tree, each sharding is used for all leaves below it.
        host_buffer: number of batches that may wait on the host, read and transformed.
        device_buffer: number of transferred batches that may wait on the devices.
        transform: function that is applied to each batch on the host, on the feeder's thread. None:
            no function.
        on_unsupported: what to do with leaves that jax cannot put on devices, such as strings and
            objects. "error": raise an error. "keep": you receive them unchanged, on the host.
        on_uneven: what to do if hosts have different amounts of data, or if a batch cannot be
            divided over the devices: "error", "drop" (end the stream before this batch), "pad"
            (fill up with zeros), or "repeat" (fill up with earlier rows).
        pinned_host: transfer through page-locked memory. Untested on GPUs.

    Raises:
        MissingExtraError: jax is not installed.
        TypeError, ValueError: an argument has the wrong type, or is outside its range.

    >>> import jax, headrace
    >>> loader = headrace.load(range(8), batch_size=4, num_epochs=1)
    >>> with iter(loader.to_device(jax.devices()[0])) as feeder:
    ...     batch = next(feeder)
    ...     state = feeder.get_state()  # after this batch, however far ahead the feeder is
    >>> batch.tolist()
    [0, 1, 2, 3]
    """
    return DeviceLoader(
        self,
        sharding_or_device,
        host_buffer,
        device_buffer,
        transform,
        on_unsupported,
        on_uneven,
        pinned_host,
    )


def device_put(
    ds: Iterable[Any],
    device: ShardingLike,
    *,
    cpu_buffer_size: int = 4,
    device_buffer_size: int = 2,
    **more: Any,
) -> DeviceLoader:
    """Return a stream of batches on devices, transferred before the user asks for them.

    It does the same as `loader.to_device`, with the name and the arguments of Grain's function.
    Unlike `to_device`, it takes batches from any iterable.

    Args:
        ds: a `DataLoader`, its iterator, a Grain dataset, or any iterable or iterator of trees of
            arrays.
        device: a device, a `Sharding`, `(mesh, axis names)`, or a tree of these.
        cpu_buffer_size: number of batches that may wait on the host.
        device_buffer_size: number of batches that may wait on the devices.
        **more: other arguments of `to_device`: `transform`, `on_unsupported`, `on_uneven`,
            `pinned_host`.

    Raises:
        MissingExtraError: jax is not installed.
        TypeError, ValueError: an argument has an unknown name, the wrong type, or is outside its
            range.

    >>> import jax, headrace, numpy as np
    >>> next(iter(headrace.device_put([np.ones(3)], jax.devices()[0]))).sum().item()
    3.0
    """
    known = ("transform", "on_unsupported", "on_uneven", "pinned_host")
    for name in more:
        if name not in known:
            others = ", ".join(("cpu_buffer_size", "device_buffer_size", *known))
            raise TypeError(f"device_put has no argument {shorten(name)}=. Use {others}.")
    for name, size in (
        ("cpu_buffer_size", cpu_buffer_size),
        ("device_buffer_size", device_buffer_size),
    ):
        whole_number(name, size, 1, None, "a positive int")
    return DeviceLoader(
        ds, device, host_buffer=cpu_buffer_size, device_buffer=device_buffer_size, **more
    )
