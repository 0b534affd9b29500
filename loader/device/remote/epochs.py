"""Epochs of a loader that one process controls and that runs on many hosts.

In: a description of the loader, and a number of epochs. Out: for each epoch, an iterator over the
batches of all hosts. One state covers all hosts and epochs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....common.messages import a_kind_of
from ....samplers import ShardOptions
from ...epochs import Epochs, epoch_of, epochs_of, start_of_epoch
from ...state.schema import LoaderState
from .iterator import RemoteIterator
from .options import RemoteOptions
from .states import as_one, of_shards


@dataclass(frozen=True)
class OfEpoch:
    """Function that makes the loader of one epoch; it is called on a host.

    Attributes:
        make_loader: function that makes the host's loader, with all epochs.
        count: number of epochs.
        number: number of the epoch, from 0.
    """

    make_loader: Callable[[ShardOptions], Any]
    count: int
    number: int

    def __call__(self, shard: ShardOptions) -> Any:
        """Return the loader of the epoch, for a shard of the data.

        Raises:
            TypeError: `make_loader` does not return a `DataLoader`.
            ValueError: as in `DataLoader.epochs`.
        """
        loader = self.make_loader(shard)
        epochs = epochs_of(loader, self.count)
        if epochs is None:
            raise TypeError(
                "epochs() needs a make_loader that returns a DataLoader, but this one returns "
                f"{a_kind_of(loader)}. Return the result of headrace.load or headrace.DataLoader."
            )
        return epochs.loader_of(self.number)


class RemoteEpochs(Epochs[RemoteIterator]):
    """Epochs of all hosts, one after another, each with an iterator; made by `RemoteLoader.epochs`.

    It has the methods of `Epochs`, but its state covers all hosts, and can be restored on another
    number of hosts. The loaders of all hosts are made again for each epoch. A restored state is
    checked when the loaders of the hosts begin. After `close`, the state cannot be read.
    """

    def __init__(self, description: RemoteOptions, count: int) -> None:
        def of_epoch(number: int) -> Any:
            return dataclasses.replace(
                description, make_loader=OfEpoch(description.make_loader, count, number)
            )

        super().__init__(of_epoch, count, iter)

    def set_state(self, state: bytes, strict: bool = True) -> None:
        """Move to a state from `get_state`, perhaps of a run on another number of hosts.

        Args:
            state: result of `get_state` of a `RemoteEpochs`.
            strict: False accepts a state of another source, sampler or other operations.

        Raises:
            CheckpointError: `state` is not a state of epochs of a `RemoteLoader`.
        """
        _, shards, _ = of_shards(state)
        epoch = epoch_of(LoaderState.from_json(shards[0].encode()))
        self._go_to(epoch, lambda batches: batches.set_state(state, strict))

    def _state_after(self) -> bytes:
        step, shards, own = of_shards(self._batches.get_state())
        after = [start_of_epoch(self._number + 1, each.encode(), step).decode() for each in shards]
        return as_one(step, after, own.extra_values)
