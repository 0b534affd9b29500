"""The options of a device feeder (which puts batches on devices), and the import of jax.

jax is imported when a feeder is described.

In: the user's arguments. Out: the same arguments, checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ...common.controllers import warn_of_one_controller
from ...common.messages import a_kind_of, short_repr
from ...common.validation import one_of, true_or_false, whole_number
from ...errors import MissingExtraError
from .hosts.verdict import POLICIES, OnUneven


def jax_for(what: str) -> Any:
    """Import jax, and return the module `jax`.

    Args:
        what: name of the function that needs jax, for the error message.

    Raises:
        MissingExtraError: jax is not installed.
    """
    try:
        import jax
    except ImportError as error:
        raise MissingExtraError(f'{what} needs jax: pip install "headrace[jax]"') from error
    return jax


class CommonOptions(Protocol):
    """Interface of the options that all feeders have, with devices and without.

    A feeder is the object that makes batches ahead of the user.

    Attributes:
        source: the loader, or another iterable of batches.
        transform: function that is applied to each batch on the host; None for no function.
        on_uneven: what to do if hosts have different amounts of data.
        host_buffer: number of batches that may wait on the host, read and transformed.
        device_buffer: number of batches that may wait for the user.
    """

    @property
    def source(self) -> Iterable[Any]: ...
    @property
    def transform(self) -> Callable[[Any], Any] | None: ...
    @property
    def on_uneven(self) -> OnUneven: ...
    @property
    def host_buffer(self) -> int: ...
    @property
    def device_buffer(self) -> int: ...


@dataclass(frozen=True, eq=False)
class FeederOptions:
    """The options of a device feeder, as attributes.

    The class `DeviceLoader` describes each of them.

    Raises:
        MissingExtraError: jax is not installed.
        TypeError, ValueError: an argument has the wrong type, or is outside its range.
    """

    source: Iterable[Any]
    sharding: Any
    host_buffer: int = 4
    device_buffer: int = 2
    transform: Callable[[Any], Any] | None = None
    on_unsupported: Literal["error", "keep"] = "error"
    on_uneven: OnUneven = "error"
    pinned_host: bool = False

    def __post_init__(self) -> None:
        jax_for("to_device")
        warn_of_one_controller("to_device")
        from .shardings import as_shardings

        if not isinstance(self.source, Iterable):
            raise TypeError(
                f"the source of batches is {short_repr(self.source)}, {a_kind_of(self.source)}. "
                "Pass a loader, or an iterable of batches."
            )
        host, device = self.host_buffer, self.device_buffer
        for name, number in (("host_buffer", host), ("device_buffer", device)):
            object.__setattr__(self, name, whole_number(name, number, 1, None, "a positive int"))
        if self.transform is not None and not callable(self.transform):
            raise TypeError(
                f"transform={short_repr(self.transform)} is not a function. Pass a function that "
                "takes a batch and returns a batch."
            )
        one_of("on_unsupported", self.on_unsupported, "error", "keep")
        one_of("on_uneven", self.on_uneven, *POLICIES)
        true_or_false("pinned_host", self.pinned_host)
        object.__setattr__(self, "sharding", as_shardings(self.sharding))
