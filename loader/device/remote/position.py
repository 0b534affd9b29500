"""The position of the user of a `RemoteLoader` in the streams of all hosts.

In: a function that asks the hosts. Out: the values that iterators return, such as the length and
the last records. Hosts are asked only for values that the controlling process does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ...state.kept import Keeper


class RemotePosition:
    """A position of the user: between the last batch received and the next one.

    Args:
        step: number of the next batch.
        ask: function that asks all shards for a value. It takes the value's name in
            `StreamPosition`, and perhaps an argument, and returns a list in the order of the
            shards.
        shortest: True if the shard with the fewest batches ends the stream.
        keeper: holder of the values that the user has added to the state.
    """

    def __init__(
        self, step: int, ask: Callable[..., list[Any]], shortest: bool, keeper: Keeper
    ) -> None:
        self.step, self._ask, self._shortest, self._keeper = step, ask, shortest, keeper

    @property
    def epoch(self) -> NoReturn:  # a progress line would ask for it again and again
        raise TypeError(
            "the iterator of a RemoteLoader does not know its epoch, because only the hosts do. "
            "Loop over loader.epochs(…), and read epochs.epoch."
        )

    @property
    def passed(self) -> int:
        return int(max(self._ask("passed")))

    def len(self) -> int:
        lengths = self._ask("len")
        return int(min(lengths) if self._shortest else max(lengths))

    @property
    def part_epochs(self) -> dict[str, int]:
        return _largest(self._ask("part_epochs"))

    @property
    def part_records(self) -> dict[str, int]:
        return _largest(self._ask("part_records"))

    def get_extra_state(self) -> Any:
        return self._keeper.kept.extra_values

    def set_extra_state(self, values: Any) -> None:
        self._keeper.set_extra(values)

    def last_records(self) -> Any:
        return _joined(self._ask("last_records"))

    def records_at(self, step: int) -> Any:
        return _joined(self._ask("records_at", step))


def _largest(shards: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return, for each name (of a part of a mix), the largest number that any shard has for it.

    Each shard counts the records of all shards up to its own last record, so the shard that is
    farthest has the right number.
    """
    return {name: max(shard[name] for shard in shards) for name in shards[0]}


def _joined(shards: Sequence[Any]) -> Any:
    """Join the record keys of all shards to one array, one shard after another.

    If each shard has a dict of such arrays (by part of a mix), the result is a dict, too.
    """
    if isinstance(shards[0], dict):
        names = dict.fromkeys(name for shard in shards for name in shard)
        return {
            name: np.concatenate([shard[name] for shard in shards if name in shard])
            for name in names
        }
    return np.concatenate(shards)
