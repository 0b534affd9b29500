"""The method `change` of iterators and device feeders.

In: the arguments of a call. Out: a dict with the new value of each kind of change, which the method
`_change` of the subclass gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Changeable:
    """Base class of iterators and device feeders whose run can be changed before it ends.

    A subclass defines `_change`.
    """

    def change(
        self,
        *,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        omit: Any = None,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        at_step: int | None = None,
    ) -> None:
        """Change the weights, the omitted records or the batch size from a step on, during the run.

        All shards must make the same call, before any of them comes to the step, because nothing is
        sent between them. The iterator of a `RemoteLoader` changes the run on all hosts by one
        call. What was prefetched is dropped, and workers start again.

        Weights of a mix: every state after the call contains the change. A program with the earlier
        weights, or with the new ones, can restore such a state on any number of shards. To change
        the batch size at an earlier step, too, call `change(batch_size=)` first.

        Other changes are made when the iterator comes to the step. There is an exception: weights
        of records and omitted records are not changed if a shard has no record at this step.
        `set_state` drops changes whose step has not come. A state of a later step must be restored
        in a program that describes the change.

        The first possible step is `step`, the next element. Batches that a device feeder has read
        already stay as they are, so its first possible step is `step + host_buffer + device_buffer
        + 2`; with `across_hosts`, it is `step + buffer_size + 3`. For a `RemoteLoader`, it is `step
        + buffer_size`.

        Args:
            weights: for a mix, numbers: a dict by name of the part, or a list. For a
                `WeightedSampler`, a weight for each record.
            omit: records to omit besides those that are omitted already, in the form that
                `DataLoader` takes.
            batch_size: number of elements in the last `Batch`.
            max_tokens: maximum of rows times padded length in a planned `BudgetBatch`, from its
                next `window` on.
            at_step: number of the first changed element. None (default): the first possible step;
                on several shards, all must then be at the same step.

        Raises:
            TypeError: not exactly one change is given; the pipeline cannot be changed in this way
                (joined streams, for example); or a feeder does not read from a `DataLoader`.
            ValueError: the step is too early; a value is outside its range; weights of a mix begin
                after the end of a shard; a batch size changes before the step of such weights,
                which were set by an earlier call; or (here, or in a later `next`) the step is
                inside a window of records that cannot be made again.
            RecordKeyError, SourceError, EmptyStreamError: `omit` cannot be used, as for
                `DataLoader`.
            InUseError: another thread is inside `next` of the iterator.
            ClosedError: the iterator of a `RemoteLoader` was closed.

        >>> import headrace
        >>> parts = {"web": range(100), "books": range(100, 200)}
        >>> sampler = headrace.MixSampler(parts, when_exhausted="repeat")
        >>> loader = headrace.DataLoader(
        ...     data_source=parts, sampler=sampler, operations=[headrace.Batch(4)]
        ... )
        >>> iterator = iter(loader)
        >>> next(iterator).tolist()
        [100, 0, 101, 1]
        >>> iterator.change(weights={"web": 1, "books": 0}, at_step=2)
        >>> iterator.change(batch_size=2, at_step=3)
        >>> [next(iterator).tolist() for _ in range(3)]
        [[102, 2, 103, 3], [4, 5, 6, 7], [8, 9]]
        """
        wanted = {
            "weights": weights,
            "omit": omit,
            "batch_size": batch_size,
            "max_tokens": max_tokens,
        }
        self._change(wanted, at_step)

    def _change(self, wanted: Mapping[str, Any], at_step: int | None) -> None:
        """Make one change from a step on.

        Args:
            wanted: the new value of each kind of change, by name of the argument of `change`; None
                for arguments that were not passed.
            at_step: number of the first changed element; None: the first possible step.
        """
        raise NotImplementedError
