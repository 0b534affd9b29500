"""Elastic streams: the datasets of an interleave are divided over shards, and each has a place of its own.

In: a stream of an interleave, with functions and filters after it. Out: an iterator of one shard's batches, whose places any
number of shards go on from.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ....chains.stream import over_leaves
from ....common.messages import first_few, short_repr
from ....errors import CheckpointError
from ....loader.plan.compile import line_of
from ....loader.plan.joins import Read
from ....loader.state.loader_state import LoaderState
from ....operations import Filter
from .files import InterleaveIterDataset, ParquetIterDataset, as_places
from .iter_dataset import IterDataset, as_stream
from .iterators import DatasetIterator
from .states import is_grains

_FRESH, _ENDED = None, "ended"
ShardStates = dict[int, Any]
"""By the number of a dataset in the whole interleave: the state of its iterator; None: not begun; "ended"."""


class ElasticStreamIterator(DatasetIterator[Any]):
    """The batches of one shard, which has the datasets `shard_index`, `shard_index + shard_count`, … of an interleave.

    Args:
        dataset: an interleave, and what is done to its elements one by one.
        batch_size: of this shard; 0: none.
        shard_options: the part for this process.

    Raises:
        ValueError: there is no interleave, or what comes after it keeps or counts elements.
    """

    def __init__(self, dataset: Any, batch_size: int, shard_options: Any) -> None:
        super().__init__(())
        self._whole, self._interleave = dataset, _interleave_of(dataset)
        self._batch_size, self.shard_options = batch_size, shard_options
        count = len(self._interleave.datasets)
        self._own: Sequence[int] = range(shard_options.shard_index, count, shard_options.shard_count)
        self._begin(dict.fromkeys(self._own, _FRESH))

    def _begin(self, states: ShardStates) -> None:
        """Those that were begun come first, so that they are open."""
        self._begun_with = states
        left = sorted((number for number in states if states[number] != _ENDED), key=lambda n: states[n] is _FRESH)
        self._numbers = left
        datasets = [_Begun(self._interleave.datasets[number], states[number]) for number in left]
        self._shard = InterleaveIterDataset(datasets, cycle_length=self._interleave.cycle_length)
        self._shard = self._shard.with_dataset_options(self._interleave.dataset_options)
        stream = self._whole.chain_stream
        tree = over_leaves(stream.tree, lambda leaf: dataclasses.replace(leaf, source=leaf.source.of(self._shard)))
        mine: Any = IterDataset.of_stream(dataclasses.replace(stream, tree=tree))
        self._iterator = iter(mine.batch(self._batch_size) if self._batch_size else mine)

    def __next__(self) -> Any:
        return next(self._iterator)

    def get_state(self) -> dict[str, Any]:
        """The place of this shard, for the same shard of as many."""
        begun = {str(number): state for number, state in self._begun_with.items()}
        return {"begun_with": begun, "iterator": self._iterator.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to where this shard stood.

        Raises:
            CheckpointError: it is the state of another shard, or of another dataset.
        """
        begun = self._places_before(state, self._own)
        if sorted(begun) != list(self._own):
            raise CheckpointError(
                f"the state is of datasets {first_few(sorted(begun))}, and this shard has {first_few([*self._own])}; after a "
                "run on other shards pass the states of all of them to set_states."
            )
        self.close()
        self._begin(begun)
        self._iterator.set_state(state.get("iterator", state))

    def set_states(self, states: Sequence[dict[str, Any]]) -> None:
        """Go on where shards stood that were more or fewer.

        Args:
            states: of all of them; Grain's in the order of shards.

        Raises:
            CheckpointError: the state of one of this shard's datasets is missing.
        """
        places: ShardStates = {}
        for number, state in enumerate(states):
            other = copy.copy(self)
            own = range(number, len(self._interleave.datasets), len(states))
            other._own = sorted(begun := self._places_before(state, own))
            other._begin(begun)
            other._iterator.set_state(state.get("iterator", state))
            places |= other.get_shard_states()
            other.close()
        self.set_shard_states(places)

    def get_shard_states(self) -> ShardStates:
        """The place in each dataset of this shard, by its number in the whole interleave.

        Together, those of all shards are the place of the run, for any number of shards. The last elements are read once more.
        """
        cursor = LoaderState.from_dict(self._iterator.get_state()).cursor
        shard: Any = iter(self._shard)
        known, text = cursor.notes[0] or (0, "")
        if text:
            shard.set_state(json.loads(text))
        for _ in range(cursor.positions[0] - known):
            next(shard)
        place = as_places(shard.get_state())
        shard.close()
        found = dict.fromkeys(self._own, _ENDED)
        for local in range(place["next_dataset"], len(self._numbers)):
            found[self._numbers[local]] = self._begun_with[self._numbers[local]]
        for local, state in filter(None, place["open"]):
            found[self._numbers[local]] = state
        return found

    def set_shard_states(self, shard_states: Mapping[Any, Any]) -> None:
        """Go on where other shards stood.

        Args:
            shard_states: what `get_shard_states()` of all of them gave, ours or Grain's, in one dict; numbers may be text, as
                JSON has them.

        Raises:
            CheckpointError: the state of one of this shard's datasets is missing.
        """
        states = {int(number): _of_grains(state) for number, state in shard_states.items()}
        if missing := [number for number in self._own if number not in states]:
            raise CheckpointError(
                f"the states of the datasets {first_few(missing)} are missing; pass those of all shards, in one dict."
            )
        self.close()
        self._begin({number: states[number] for number in self._own})

    def _places_before(self, state: Any, own: Sequence[int]) -> ShardStates:
        """The places that the shard of a state had begun with; a state of Grain's has none, and is that of some datasets.

        Raises:
            CheckpointError: it is no such state.
        """
        try:
            if is_grains(state) and "iterators_in_use_states" in state:
                return dict.fromkeys(own, _FRESH)
            return {int(number): each for number, each in state["begun_with"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CheckpointError(f"{short_repr(state)} is no state of an ElasticIterator over a stream.") from None

    def start_prefetch(self) -> None:
        self._iterator.start_prefetch()

    def close(self) -> None:
        """Stop all work."""
        self._iterator.close()


def _of_grains(state: Any) -> Any:
    """The place in a dataset, also from Grain's words."""
    if not isinstance(state, dict) or "exhausted" not in state:
        return state
    return _ENDED if state["exhausted"] else state["state"]


class _Begun(IterDataset[Any]):
    """A dataset from a state on."""

    def __init__(self, dataset: Any, state: Any) -> None:
        super().__init__()
        self.dataset, self.state = dataset, state

    def __iter__(self) -> Any:
        iterator = iter(as_stream(self.dataset))
        if self.state is not _FRESH:
            iterator.set_state(self.state)
        return iterator


def _interleave_of(dataset: Any) -> InterleaveIterDataset:
    """The interleave that a stream is made from. Raises ValueError: see `ElasticStreamIterator`."""
    base, operations = line_of(dataset.chain_stream.tree)
    found = getattr(base.leaf.source, "dataset", None) if isinstance(base, Read) else None
    if isinstance(found, ParquetIterDataset):
        found = found.by_file()
    if not isinstance(found, InterleaveIterDataset):
        raise ValueError(
            "ElasticIterator of a stream requires an InterleaveIterDataset in the dataset graph, and no mix, zip, packing, "
            "random map or map_with_index after it: do these to the datasets that are interleaved."
        )
    for operation in operations:
        if not (isinstance(operation, Filter) or (operation.one_to_one and operation.takes is None)):
            raise ValueError(
                f"ElasticIterator of a stream does not support {type(operation).__name__} after the interleave, which keeps "
                "elements back; do it to the datasets that are interleaved."
            )
    return found
