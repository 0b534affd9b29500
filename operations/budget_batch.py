"""BudgetBatch: batches of records of similar length, in few shapes, up to `max_tokens` tokens each.

If lengths are known before reading, the loader plans the batches (`planned/budget/`), and this
operation only makes their arrays. Otherwise it batches windows (consecutive records) of a stream.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..common.generators.keyed_random import KeyedGenerator, child_row
from ..common.messages import short_repr
from ..common.validation import one_of, whole_number
from ..errors import LengthsError, SeedError
from .budget.rows import RowPadding, check_kinds
from .budget.shapes import BatchShapes, Ints, chosen_lengths, padded_lengths
from .budget.windows import BudgetWindows
from .chain import ChainMethods, ChainT
from .protocol import Context, Element, Operation, SeedFor, Step

STREAM_WINDOW = 4096
"""Default number of records in a window of a stream."""


class BudgetBatch(Operation):
    """Batches of records of similar length, in a few shapes.

    Rows times padded length is at most `max_tokens`. Records are dicts of arrays whose first axes
    count tokens and may differ in length. The length of a record is the length of its longest
    array, not counting `meta_features`. A record that is a single array is batched as `{"tokens":
    array}`. A batch is a dict:

    * for each leaf an array `[rows, length, …]`, padded at the end; `rows · length` is at most
      `max_tokens`;
    * `lengths`, `int32[rows]`: length of each record in the batch; 0 for a row without a record;
    * `mask`, `bool[rows, length]`: True up to the length of the record, also in a shorter array of
      the same record.

    All batches with the same padded length have the same number of rows. So a jitted step compiles
    at most once for each padded length. Batches are in random order, and so are records of similar
    length.

    If lengths are known, from the source or from `lengths=`, batches are planned before anything is
    read. Then `len(loader)` and `records_at` work, and all shards have the same number of batches,
    with the same shape at each step. If all epochs have the same records, they also have the same
    number of batches of each shape, but each epoch puts other records together. If lengths are
    unknown, batches are made of windows (consecutive records) of the stream, on one shard only.

    Args:
        max_tokens: maximum of rows times padded length in a batch, per shard.
        pad_to: padded lengths, such as `(128, 256, 512)`; or their number (default 8): then the
            lengths with the least padding are chosen, which needs known lengths.
        max_records: maximum number of rows. None (default): no limit.
        multiple_of: the number of rows is a multiple of this (default 1), such as the number of
            local devices.
        window: number of records that are batched together. None (default): all records of an epoch
            if lengths are known, otherwise 4,096. A larger window needs less padding.
        lengths: lengths of the records, in the order of the source: an array, the name of a field,
            or a function of a record, which is called for every record. None (default): the
            source's own lengths, if no operation comes before.
        too_long: what happens to a record that is longer than all of `pad_to`: "error" (default)
            raises, "drop" drops the record, "truncate" cuts it.
        pad_value: padding (default 0); a number, or a dict by leaf.
        meta_features: keys of arrays that do not consist of tokens, and are stacked without
            padding. Numbers and texts are always stacked in this way.
        seed: seed of the random orders. None (default): the seed of the sampler or the dataset.

    Raises:
        TypeError, ValueError: an argument has a wrong type or is out of range; a length of `pad_to`
            exceeds `max_tokens`.
        LengthsError: a record is too long, or longer than its known length; or lengths are needed
            and unknown.
        BatchError: while batching, if records differ in structure.

    >>> import numpy as np
    >>> import headrace
    >>> records = [np.ones(length, np.int32) for length in (2, 7, 3, 2, 8, 1)]
    >>> batches = headrace.BudgetBatch(16, pad_to=(4, 8), lengths=[2, 7, 3, 2, 8, 1])
    >>> loader = headrace.load(records, transformations=[batches], num_epochs=1)
    >>> sorted((batch["tokens"].shape, sorted(batch["lengths"].tolist())) for batch in loader)
    [((2, 8), [7, 8]), ((4, 4), [1, 2, 2, 3])]
    """

    one_to_one = False
    reads_position = True
    plans_batches = True
    single_shard = (
        "makes batches of windows of one stream, so that shards would have unequal numbers of "
        "them. With known lengths, shards have batches of one shape at each step: name records in "
        "omit= in place of a Filter, store the results of a FlatMap in files, and pass lengths= to "
        "BudgetBatch, or to MapDataset.budget_batch(…) before to_iter_dataset()"
    )

    def __init__(
        self,
        max_tokens: int,
        *,
        pad_to: int | Sequence[int] = 8,
        max_records: int | None = None,
        multiple_of: int = 1,
        window: int | None = None,
        lengths: Any = None,
        too_long: Literal["error", "drop", "truncate"] = "error",
        pad_value: Any = 0,
        meta_features: Sequence[Any] = (),
        seed: int | None = None,
    ) -> None:
        positive = "a positive int"
        self.max_tokens = whole_number("max_tokens", max_tokens, 1, None, positive)
        self.max_records = (
            None
            if max_records is None
            else whole_number("max_records", max_records, 1, None, positive)
        )
        self.multiple_of = whole_number("multiple_of", multiple_of, 1, None, positive)
        self.window = None if window is None else whole_number("window", window, 1, None, positive)
        self.too_long = one_of("too_long", too_long, "error", "drop", "truncate")
        self.seed = None if seed is None else whole_number("seed", seed, 0, (1 << 64) - 1, "an int")
        self.padding = RowPadding(pad_value, check_kinds(pad_value, meta_features))
        self.pad_to = padded_lengths(pad_to)
        self.shapes = None if isinstance(self.pad_to, int) else self._shapes(self.pad_to)
        self.lengths = lengths

    def _shapes(self, lengths: Sequence[int]) -> BatchShapes:
        return BatchShapes.of(lengths, self.max_tokens, self.max_records, self.multiple_of)

    def with_max_tokens(self, max_tokens: int) -> BudgetBatch:
        """Return a copy with another maximum of rows times padded length.

        Raises:
            TypeError, ValueError: `max_tokens` is not an int, or too small.
        """
        other = copy.copy(self)
        other.max_tokens = whole_number("max_tokens", max_tokens, 1, None, "a positive int")
        other.shapes = None if isinstance(self.pad_to, int) else other._shapes(self.pad_to)
        return other

    @property
    def takes(self) -> int:  # type: ignore[override]
        """Number of records in a window of a stream: `window`, or `STREAM_WINDOW` if it is None."""
        return self.window or STREAM_WINDOW

    def with_chain_seed(self, seed_for: SeedFor, number: int) -> BudgetBatch:
        """Return a copy with its own seed, for use in a chain of datasets.

        Args:
            seed_for: function that returns the seed, from "budget_batch" and this operation's seed
                or None. If it raises SeedError, the seed is 0.
            number: not used.
        """
        other = copy.copy(self)
        try:
            other.seed = seed_for("budget_batch", self.seed)
        except SeedError:
            other.seed = 0
        return other

    def __repr__(self) -> str:
        return f"BudgetBatch({self.max_tokens}, pad_to={short_repr(self.pad_to)})"

    def identity_parameters(self) -> dict[str, Any]:
        """Return all parameters, by name, except the window, which checkpoints store separately."""
        return {name: value for name, value in vars(self).items() if name != "window"}

    @property
    def content_parameters(self) -> dict[str, Any]:
        """The parameters that decide how a record looks in a batch.

        Those for shapes and order of batches are not among them.
        """
        return {name: vars(self)[name] for name in ("too_long", "padding")}

    def windows(self, lengths: Ints) -> BudgetWindows:
        """Return the plan of batches for records with these lengths.

        Args:
            lengths: `int64[records]`.

        Raises:
            LengthsError: a record is too long, and `too_long` is "error".
            ValueError: `multiple_of` records exceed `max_records` or `max_tokens`.
        """
        shapes = self.shapes
        if shapes is None:
            assert isinstance(self.pad_to, int), "lengths have shapes"
            most = (self.max_tokens // self.multiple_of) or 1
            fitting = lengths[lengths <= most]
            longest = [most] if self.too_long == "truncate" and len(fitting) < len(lengths) else []
            present = np.concatenate([fitting, longest]).astype(np.int64)
            shapes = self._shapes(chosen_lengths(present, self.pad_to) if len(present) else (1,))
        return self.windows_of(lengths, shapes)

    def windows_of(self, lengths: Ints, shapes: BatchShapes) -> BudgetWindows:
        """Return the plan of batches of these shapes, for records with these lengths.

        Args:
            lengths: `int64[records]`.
            shapes: shapes of the batches.

        Raises:
            LengthsError: a record is too long, and `too_long` is "error".
        """
        return BudgetWindows(
            self.fitted(lengths, shapes), shapes, self.window or max(len(lengths), 1)
        )

    def fitted(self, lengths: Ints, shapes: BatchShapes) -> Ints:
        """Return the lengths of records, `int64[records]`.

        If `too_long` is "truncate", they are cut to the longest shape.

        If it is "drop", records that are too long keep their lengths, with which they fit no shape.

        Args:
            lengths: `int64[records]`, lengths of the records.
            shapes: shapes of the batches.

        Raises:
            LengthsError: a record is too long, and `too_long` is "error".
        """
        beyond = np.flatnonzero(lengths > shapes.longest)
        if len(beyond) and self.too_long == "error":
            and_others = f" (and {len(beyond) - 1} more)" if len(beyond) > 1 else ""
            record = f"record {beyond[0]}{and_others}, counted from 0 among {len(lengths)} records,"
            raise self._too_long(record, int(lengths[beyond[0]]), shapes.longest)
        return np.minimum(lengths, shapes.longest) if self.too_long == "truncate" else lengths

    def _too_long(self, record: str, length: int, longest: int) -> LengthsError:
        """Return the error for a record that is too long.

        Args:
            record: number of the record, for the message.
            length: length of the record.
            longest: largest padded length.
        """
        most = self.max_tokens // self.multiple_of or 1
        and_multiple = f" and multiple_of={self.multiple_of}" if self.multiple_of > 1 else ""
        if length > most and isinstance(self.pad_to, int):
            return LengthsError(
                f"{record} is {length} long, over {most}, the largest length of batches of "
                f"max_tokens={self.max_tokens}{and_multiple}. "
                'Pass too_long="drop" or "truncate", or a larger max_tokens=.'
            )
        and_tokens = (
            f", and max_tokens={length * self.multiple_of} or more" if length > most else ""
        )
        return LengthsError(
            f"{record} is {length} long, over {longest}, the largest padded length. "
            'Pass too_long="drop" or "truncate", or '
            f"lengths to pad to, such as pad_to=({longest}, {length}){and_tokens}."
        )

    def connect(self, then: Step, context: Context, number: int) -> Step:
        if self.shapes is None:
            raise LengthsError(
                f"pad_to={self.pad_to} chooses lengths from the lengths of all records, which are "
                "unknown in a stream. Pass the lengths to pad to, such as pad_to=(128, 256, 512). "
                "Or pass lengths= of the records, which works in MapDataset.budget_batch, and in a "
                "DataLoader without a MixSampler and with only maps before BudgetBatch."
            )
        if self.lengths is not None:
            raise LengthsError(
                "lengths= of BudgetBatch has no effect in a stream, whose batches are made of "
                "windows of its records. Pass it in a DataLoader, or to MapDataset.budget_batch(…) "
                "before to_iter_dataset(), or leave it out."
            )
        step = BudgetStep(self, self.shapes, then, context, number)
        context.at_end.append(step.finish)
        return step.push


class BudgetStep:
    """Step that collects records until a window is full, and pushes its batches to the next step.

    Args:
        operation: the operation.
        shapes: shapes of the batches.
        then: next step, to which batches are pushed.
        context: context of the chain. The place of a batch is derived from the place (seed,
            position, row) of the first record in its window.
        number: index of the operation in the pipeline.
    """

    def __init__(
        self, operation: BudgetBatch, shapes: BatchShapes, then: Step, context: Context, number: int
    ) -> None:
        self._operation, self._shapes = operation, shapes
        self._then, self._context, self._number = then, context, number
        self._generator_at = KeyedGenerator(number).at
        self._waiting: list[Element] = []
        self._first = (0, 0, 0)

    def push(self, element: Element) -> None:
        """Add one record to the window; if it is full, push its batches.

        The record's place is in the context.
        """
        if not self._waiting:
            self._first = self._context.seed, self._context.position, self._context.row
        self._waiting.append(element)
        if len(self._waiting) == self._operation.takes:
            self.finish()

    def finish(self) -> None:
        """Push the batches of the collected records, if any, also if the window is not full.

        Raises:
            LengthsError: a record is too long, and `too_long` is "error".
            BatchError: records differ in structure.
        """
        if not self._waiting:
            return
        context, records = self._context, self._waiting
        last = context.seed, context.position, context.row
        self._waiting = []
        try:
            batches = self._batches(records)
        except Exception:
            context.blame(self._number)
            raise
        context.seed, context.position, first_row = self._first
        for index, (places, shape) in enumerate(batches):
            context.row, context.packed = child_row(first_row, index), (places, None)
            try:
                batch = self._made([records[place] for place in places], shape)
            except Exception:
                context.blame(self._number, places[0])
                raise
            self._then(batch)
        context.packed = None
        context.seed, context.position, context.row = last

    def _batches(self, records: Sequence[Element]) -> list[tuple[list[int], int]]:
        """Return, for each batch, its records' indices in the window, and the index of its shape.

        Args:
            records: the records of the window.

        Raises:
            LengthsError: a record is too long, and `too_long` is "error".
        """
        own, (seed, position, row) = self._operation.seed, self._first
        lengths = self._operation.fitted(self._operation.padding.lengths_of(records), self._shapes)
        windows = BudgetWindows(lengths, self._shapes, len(records))
        generator = self._generator_at(seed if own is None else own, position, row)
        line = windows.places.astype(np.int64)
        ends = np.cumsum(windows.counts[0])
        for start, stop in zip([0, *ends.tolist()], ends.tolist()):
            generator.shuffle(line[start:stop])
        steps = generator.permutation(int(windows.steps_on(1).before[-1]))
        nothing = np.zeros_like(steps)
        starts, stops, shapes = windows.pieces(1, nothing, steps, nothing)
        return [
            (line[start:stop].tolist(), shape)
            for start, stop, shape in zip(starts.tolist(), stops.tolist(), shapes.tolist())
        ]

    def _made(self, records: Sequence[Element], shape: int) -> Element:
        rows, length = self._shapes.rows[shape], self._shapes.lengths[shape]
        return self._operation.padding.batch(
            records, len(records), rows, length, self._context.notify
        )


class BudgetBatchMethods(ChainMethods[ChainT]):
    """Dataset method `budget_batch`."""

    def budget_batch(self, max_tokens: int, **settings: Any) -> ChainT:
        """Batch records of similar length within a budget of tokens, as `BudgetBatch` does.

        The batches have a few shapes.

        Batches of a `MapDataset` are planned from the lengths of its elements. They come from the
        source, if only the order of records was changed, or from `lengths=`: an array with one
        length for each element, or a function of an element. Then all shards have the same number
        of batches, with the same shape at each step. If `repeat` comes after it, each epoch has new
        batches. Batches of a stream are made of windows (consecutive records), on one shard only.

        Args:
            max_tokens: maximum of rows times padded length in a batch, per shard.
            **settings: other arguments of `BudgetBatch`.

        Raises:
            TypeError, ValueError: an argument has a wrong type or is out of range.
            LengthsError: the lengths of a `MapDataset` are unknown.

        >>> import numpy as np
        >>> from headrace import MapDataset
        >>> records = MapDataset.range(1, 7).map(lambda x: np.full(x, x))
        >>> batches = records.budget_batch(12, pad_to=(3, 6), lengths=[1, 2, 3, 4, 5, 6])
        >>> len(batches), sorted(batches[index]["tokens"].shape for index in range(len(batches)))
        (3, [(2, 6), (2, 6), (4, 3)])
        """
        return self.then(BudgetBatch(max_tokens, **settings))
