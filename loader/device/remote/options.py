"""Options of a loader that one process controls and that runs on many hosts.

In: the user's arguments. Out: the same arguments, checked. jax is imported when a loader is
described.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....common.messages import a_kind_of, short_repr
from ....common.validation import one_of, whole_number
from ....errors import MissingExtraError, ShardingError
from ....samplers import ShardOptions
from ..hosts.verdict import POLICIES, OnUneven
from ..options import jax_for


def host_of_device(device: Any) -> Any:
    """Return a key of the host to which a device belongs, the same for all devices of the host.

    It is the device's `virtual_task_index` if it has one, as on Pathways, where all devices have
    the same `process_index`. Otherwise it is the `process_index`.
    """
    task = getattr(device, "virtual_task_index", None)
    return device.process_index if task is None else task


@dataclass(frozen=True, eq=False)
class RemoteOptions:
    """The options of a loader on many hosts, as attributes.

    The class `RemoteLoader` describes each of them.

    Raises:
        MissingExtraError: jax is not installed, or is too old.
        TypeError, ValueError: an argument has the wrong type, or is outside its range.
        ShardingError: the sharding has no mesh, or divides other axes than the rows.
    """

    make_loader: Callable[[ShardOptions], Any]
    sharding: Any
    on_uneven: OnUneven = "error"
    host_of: Callable[[Any], Any] = host_of_device
    buffer_size: int = 2

    def __post_init__(self) -> None:
        jax_for("RemoteLoader")
        from ..shardings import as_shardings, leading_parts

        if not callable(self.make_loader):
            raise TypeError(
                f"make_loader={short_repr(self.make_loader)} is {a_kind_of(self.make_loader)}. "
                "Pass a function that takes ShardOptions and returns a loader."
            )
        one_of("on_uneven", self.on_uneven, *POLICIES)
        whole_number("buffer_size", self.buffer_size, 1, 32, "a number of batches from 1 to 32")
        sharding = as_shardings(self.sharding)
        leading_parts(sharding, self.host_of)
        if any(entry is not None for entry in tuple(sharding.spec)[1:]):
            raise ShardingError(
                f"{short_repr(sharding.spec)} divides other axes than the rows (the first axis). "
                "Pass a PartitionSpec with one entry."
            )
        object.__setattr__(self, "sharding", sharding)
        if importlib.util.find_spec("jax.experimental.colocated_python") is None:
            raise MissingExtraError(
                "RemoteLoader needs a jax with jax.experimental.colocated_python: pip install -U "
                "jax"
            )
