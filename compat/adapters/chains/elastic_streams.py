"""Elastic streams: interleaves whose datasets are divided over shards, with one state per dataset.

In: a stream made by an interleave, with maps and filters after it. Out: an iterator over one
shard's batches. The states of all shards together can be restored by any number of shards.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ....chains.trees import over_leaves
from ....common.messages import first_few, short_repr
from ....errors import CheckpointError
from ....loader.plan.compile import line_of
from ....loader.plan.joins import Read
from ....loader.state.schema import LoaderState
from ....operations import Filter
from ....sources.run_through import run_through_dataset
from .files import InterleaveIterDataset, ParquetIterDataset, as_places
from .iter_dataset import IterDataset, as_stream
from .iterators import DatasetIterator
from .states import is_grains

_FRESH, _ENDED = None, "ended"
ShardStates = dict[int, Any]
"""State of the iterator of each dataset, by the index of the dataset in the interleave.

The state is None for a dataset that was not begun, and "ended" for one that has ended.
"""


class ElasticStreamIterator(DatasetIterator[Any]):
    """An iterator over the batches of one shard of an interleave.

    The shard reads the datasets `shard_index`, `shard_index + shard_count`, … of the interleave.

    Args:
        dataset: an interleave, with operations after it that treat each element separately.
        batch_size: number of elements in a batch of this shard; 0 for no batches.
        shard_options: the shard of this process.

    Raises:
        ValueError: if `dataset` contains no interleave, or an operation after it buffers or counts
            elements.
    """

    def __init__(self, dataset: Any, batch_size: int, shard_options: Any) -> None:
        super().__init__(())
        self._whole, self._interleave = dataset, _interleave_of(dataset)
        self._batch_size, self.shard_options = batch_size, shard_options
        count = len(self._interleave.datasets)
        self._own: Sequence[int] = range(
            shard_options.shard_index, count, shard_options.shard_count
        )
        self._begin(dict.fromkeys(self._own, _FRESH))

    def _begin(self, states: ShardStates) -> None:
        """Replace the iterator by one over this shard's datasets, each begun at its state.

        Datasets that were already begun are opened first; datasets that have ended are left out.

        Args:
            states: state of each of this shard's datasets, by its index in the interleave.
        """
        self._begun_with = states
        left = sorted(
            (number for number in states if states[number] != _ENDED),
            key=lambda n: states[n] is _FRESH,
        )
        self._numbers = left
        datasets = [_Begun(self._interleave.datasets[number], states[number]) for number in left]
        self._shard = InterleaveIterDataset(datasets, cycle_length=self._interleave.cycle_length)
        self._shard = self._shard.with_dataset_options(self._interleave.dataset_options)
        stream = self._whole.chain_stream
        tree = over_leaves(
            stream.tree, lambda leaf: dataclasses.replace(leaf, source=leaf.source.of(self._shard))
        )
        mine: Any = IterDataset.of_stream(dataclasses.replace(stream, tree=tree))
        self._iterator = iter(mine.batch(self._batch_size) if self._batch_size else mine)

    def __next__(self) -> Any:
        return next(self._iterator)

    def get_state(self) -> dict[str, Any]:
        """Return the state of this shard.

        Only the same shard, in a run with the same number of shards, can restore it with
        `set_state`.
        """
        begun = {str(number): state for number, state in self._begun_with.items()}
        return {"begun_with": begun, "iterator": self._iterator.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state of this shard.

        Raises:
            CheckpointError: if it is the state of another shard or of another dataset.
        """
        begun = self._places_before(state, self._own)
        if sorted(begun) != list(self._own):
            raise CheckpointError(
                f"the state has the datasets {first_few(sorted(begun))}, but this shard has "
                f"{first_few([*self._own])}. After a change of shards, pass the states of all "
                "former shards to set_states."
            )
        self.close()
        self._begin(begun)
        self._iterator.set_state(state.get("iterator", state))

    def set_states(self, states: Sequence[dict[str, Any]]) -> None:
        """Resume from the states of all shards of another run.

        The other run may have had another number of shards.

        Args:
            states: one state for each shard; states made by Grain in the order of the shards.

        Raises:
            CheckpointError: if the state of one of this shard's datasets is missing.
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
        """Return the state of each of this shard's datasets, by its index in the interleave.

        The states of all shards, merged, are a checkpoint that any number of shards can restore.
        This call reads the most recent elements a second time.
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
        """Resume from the states of the interleaved datasets.

        Args:
            shard_states: the results of `get_shard_states()` of all shards, of headrace or Grain,
                merged into one dict. Keys may be text, as in JSON.

        Raises:
            CheckpointError: if the state of one of this shard's datasets is missing.
        """
        states = {int(number): _of_grains(state) for number, state in shard_states.items()}
        if missing := [number for number in self._own if number not in states]:
            raise CheckpointError(
                f"the states of the datasets {first_few(missing)} are missing. Pass the states of "
                "all shards: to set_shard_states in one dict, to set_states in a list."
            )
        self.close()
        self._begin({number: states[number] for number in self._own})

    def _places_before(self, state: Any, own: Sequence[int]) -> ShardStates:
        """Return the dataset states with which an iterator began.

        `state` is a state that it returned later.

        A state of Grain does not contain these: then all datasets in `own` count as not begun.

        Args:
            state: the state of a shard, of headrace or of Grain.
            own: indices of the datasets of that shard.

        Raises:
            CheckpointError: if `state` is not a state of an `ElasticIterator` over a stream.
        """
        try:
            if is_grains(state) and "iterators_in_use_states" in state:
                return dict.fromkeys(own, _FRESH)
            return {int(number): each for number, each in state["begun_with"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CheckpointError(
                f"{short_repr(state)} is not a state that an ElasticIterator over a stream "
                "returned. Pass what its get_state() returned."
            ) from None

    def start_prefetch(self) -> None:
        self._iterator.start_prefetch()

    def close(self) -> None:
        """Stop reading, and end the work of the datasets."""
        self._iterator.close()


def _of_grains(state: Any) -> Any:
    """Convert Grain's state of one dataset to headrace's form.

    A state in headrace's form is returned unchanged.
    """
    if not isinstance(state, dict) or "exhausted" not in state:
        return state
    return _ENDED if state["exhausted"] else state["state"]


class _Begun(IterDataset[Any]):
    """A dataset whose iterator begins at a given state.

    Args:
        dataset: a stream, or a dataset with random access.
        state: a state of its iterator; None for the start.
    """

    def __init__(self, dataset: Any, state: Any) -> None:
        super().__init__()
        self.dataset, self.state = dataset, state

    def __iter__(self) -> Any:
        iterator = iter(as_stream(self.dataset))
        if self.state is not _FRESH:
            iterator.set_state(self.state)
        return iterator


def _interleave_of(dataset: Any) -> InterleaveIterDataset:
    """Return the interleave from which a stream is made.

    Raises:
        ValueError: if the stream contains no interleave, or an operation after it buffers or counts
            elements.
    """
    base, operations = line_of(dataset.chain_stream.tree)
    found = run_through_dataset(base.leaf.source) if isinstance(base, Read) else None
    if isinstance(found, ParquetIterDataset):
        found = found.by_file()
    if not isinstance(found, InterleaveIterDataset):
        raise ValueError(
            "ElasticIterator of a stream requires an InterleaveIterDataset in the dataset graph, "
            "with no mix, zip, packing, random map or map_with_index after it. Make the stream "
            "with InterleaveIterDataset(datasets, cycle_length=…), and apply these to each dataset "
            "before it."
        )
    for operation in operations:
        if not (
            isinstance(operation, Filter) or (operation.one_to_one and operation.takes is None)
        ):
            raise ValueError(
                f"ElasticIterator of a stream does not support {type(operation).__name__} after "
                "the interleave, because it does not make one element of each element. Apply it to "
                "each dataset before the interleave."
            )
    return found
