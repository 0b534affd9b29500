"""A source whose elements are planned batches. It makes each batch from records of another source.

In: keys of batches. Out: batches. The records of all batches of a call are read in one call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import first_few, short_repr
from ...errors import CheckpointError
from ...operations import BudgetBatch
from ...operations.budget.rows import check_lengths
from ...operations.budget.shapes import BatchShapes
from ...operations.budget.windows import BudgetWindows
from ...operations.protocol import FROM_READERS
from ...samplers import ShardOptions
from ...samplers.history import Changes, Values
from ...samplers.protocol import ENDLESS
from ...sources.facts import SourceFacts
from ...sources.provenance import UsedRecord
from ..protocol import PlannedSource
from ..records import PlacedRecords
from .keys import DealtLayers
from .order import BudgetOrder
from .plans import FormerPlan, shapes_of

Ints = NDArray[np.int64]


class BudgetSource(PlannedSource):
    """Source that returns planned batches by their keys.

    Args:
        input: records of the batches, by place (index in the epoch).
        operation: the `BudgetBatch`, which makes a batch from records.
        order: order of the batches (of any shard). It tells which records a key stands for.
        lengths: lengths of the records, by place, from which batches were planned.
    """

    def __init__(
        self, input: PlacedRecords, operation: BudgetBatch, order: BudgetOrder, lengths: Ints
    ) -> None:
        self._input, self._operation, self._order, self._lengths = input, operation, order, lengths

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            reads_ahead=self._input.reads_ahead,
            made_of=self.made_of,
            describe_key=self.describe_key,
            planned=True,
            records_of=self.records_of,
            records_each=self._records_each,
        )

    def __len__(self) -> int:
        return ENDLESS

    def __repr__(self) -> str:
        return f"batches of {self._input!r}"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of the source of the records.

        The batches are identified by the fingerprint of their order.
        """
        return self._input.fingerprint

    def _records_each(self) -> int:
        """Return the mean number of records in a batch, at least 1."""
        return max(-(-len(self._order.windows.places) // max(self._order.epoch_length, 1)), 1)

    def __getitem__(self, key: int) -> Any:
        return self.__getitems__(np.array([key], dtype=np.int64))[0]

    def __getitems__(self, keys: Ints) -> list[Any]:
        """Return the batches with these keys, after reading all of their records in one call.

        Raises:
            LengthsError: a record is longer than planned.
        """
        if not len(keys):
            return []
        batches = [self._order.plans.places(key, at_least=1) for key in keys.tolist()]
        counts = self._order.plans.batch_keys(keys).records.tolist()
        places = np.concatenate([places for _, places, _ in batches])
        epochs = np.repeat(
            [epoch for epoch, _, _ in batches], [len(places) for _, places, _ in batches]
        )
        records = iter(self._input.records(epochs, places))
        return [
            self._batch([next(records) for _ in range(len(places))], places, count, shape)
            for (_, places, shape), count in zip(batches, counts)
        ]

    def _batch(self, records: list[Any], places: Ints, count: int, shape: tuple[int, int]) -> Any:
        def check(real: Ints) -> None:
            check_lengths(
                real,
                self._lengths[places[:count]],
                lambda row: self._input.name_of(int(places[row])),
            )

        rows, length = shape
        return self._operation.padding.batch(
            records, count, rows, length, FROM_READERS.notify, check
        )

    def records_of(self, keys: Ints) -> Ints:
        """Return the keys of the records in the batches `keys`, one batch after another."""
        found = [self._input.keys(self._order.plans.places(key)[1]) for key in keys.tolist()]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def with_changes(
        self, order: BudgetOrder, changes: Changes
    ) -> tuple[BudgetSource, BudgetOrder]:
        """Return the source and the order of batches with the earlier plans.

        These plans were changed during the run.

        Args:
            order: the order of this source's batches, without earlier plans.
            changes: the changes of an order, whose last plan is the current one.

        Raises:
            CheckpointError: `changes` is damaged.
        """
        begins = [change.position for change in changes]
        if begins != sorted(begins) or any("shapes" not in change.values for change in changes):
            raise CheckpointError(
                f"the state is damaged: changes={short_repr([*map(list, changes)])}. Restore "
                "another checkpoint."
            )
        plans = tuple(
            FormerPlan(after.position, self._windows_of(shapes_of(before.values["shapes"])))
            for before, after in pairwise(changes)
        )
        return self._of(dataclasses.replace(order, former=plans))

    def with_max_tokens(
        self, order: BudgetOrder, max_tokens: int
    ) -> tuple[BudgetSource, BudgetOrder]:
        """Return the source and the order of batches for another `max_tokens`.

        They are planned from the same lengths.

        Raises:
            TypeError, ValueError: `max_tokens` is not an int, or too small.
            LengthsError: a record is too long.
        """
        operation = self._operation.with_max_tokens(max_tokens)
        order = dataclasses.replace(order, windows=operation.windows(self._lengths))
        return BudgetSource(self._input, operation, order, self._lengths), order

    def of_epoch(self, order: BudgetOrder, epoch: int) -> tuple[BudgetSource, BudgetOrder]:
        """Return this source, and the order of the batches of one epoch."""
        return self, order.of_epoch(epoch)

    def may_resume(self, order: BudgetOrder, saved: Values) -> bool:
        return (
            "shapes" in saved
            and "epoch" not in saved
            and _lasting(saved) == _lasting(order.fingerprint)
        )

    def replanned(
        self, order: BudgetOrder, saved: Values, layers: Any, positions: Sequence[int]
    ) -> tuple[BudgetSource, BudgetOrder, DealtLayers]:
        former = dataclasses.replace(order, windows=self._windows_of(shapes_of(saved["shapes"])))
        former = former.after(layers, ShardOptions(0, len(positions)))
        changed = former.changed(order.windows, positions)
        return *self._of(changed.with_shard_options(order.shard_options)), changed.layers

    def _windows_of(self, shapes: BatchShapes) -> BudgetWindows:
        return self._operation.windows_of(self._lengths, shapes)

    def _of(self, order: BudgetOrder) -> tuple[BudgetSource, BudgetOrder]:
        return BudgetSource(self._input, self._operation, order, self._lengths), order

    def place_of(self, record_key: int) -> int | None:
        """Return the place of a record in an epoch; None if the record is in no epoch."""
        return self._input.place_of(record_key, len(self._lengths))

    def describe_key(self, key: int) -> str:
        """Return the keys of a batch's records as text for messages; "none" for an empty batch."""
        return first_few(self.records_of(np.array([key], dtype=np.int64)).tolist()) or "none"

    def made_of(self, key: int) -> list[UsedRecord]:
        """Return the records of a batch, each with its row in the batch."""
        epoch, places, _ = self._order.plans.places(key)
        rows = enumerate(places.tolist())
        return [
            used._replace(row=row)
            for row, place in rows
            for used in self._input.made_of(epoch, place)
        ]


def _lasting(order: Values) -> Values:
    """Return values of an order that depend on neither number of epochs nor shapes of batches."""
    return {name: value for name, value in order.items() if name not in ("epochs", "shapes")}
