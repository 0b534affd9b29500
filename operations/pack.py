"""Pack: documents of unequal length become rows of one length, with little padding or none.

In: elements with arrays of tokens. Out: rows of fixed length, which know of each token which segment it belongs to.

A pack works on a window of elements, as a `Batch` does on its elements, and makes several rows of them. No row holds
documents of two windows: so a window is a unit of work, like a batch, and a stream goes on from any row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..common.costs import as_lengths
from ..common.generators.keyed_random import child_row
from ..common.messages import short_repr
from ..common.validation import whole_number
from ..errors import PackError
from ..migration_hints.decorators import explains_init
from .chain import ChainMethods, ChainT
from .packing.documents import leaf_paths
from .packing.packer import Packer
from .packing.pieces import Ints, Pieces
from .packing.plan import PackPlan
from .packing.rules import Strategy, TooLong
from .packing.settings import BARE, Path, Settings, name, value_at
from .protocol import Context, Element, Operation, Step


@explains_init
class Pack(Operation):
    """Packs documents, arrays of tokens of unequal length, into rows of `length` tokens.

    Elements are dicts (of dicts) of arrays, whose first axes count tokens and may differ. For each leaf `x` a row has:

    * `x`, `[length, …]`: the tokens of several documents, one after the other, then padding;
    * `x_segment_ids`, `int32[length]`: from 1 the number in the row of the document that the token is of, 0 for padding;
    * `x_positions`, `int32[length]`: the place of the token in its segment, from 0; 0 for padding.

    An element that is one array and no dict is packed as if it was `{"tokens": array}`, a named tuple or a dataclass as if it
    was the dict of its fields. Several leaves, as inputs and targets, are packed together: a document has one segment id in all
    of them. Rows are dicts.

    Documents of `window` elements are packed together, and no row holds documents of two windows. Nothing is left out but
    documents without a token. Rows come in the order of the documents that they began with.

    Args:
        length: tokens of a row; or a dict with one for each leaf.
        strategy: "best_fit" (default) puts each document where it leaves the least space, the longest first; 1,000 documents
            with a mean of a quarter of the length fill 99 %. "first_fit" puts each into the first row that has room, in
            the order in which they come. "concat_then_split" puts them one after the other, and splits one where a row
            is full: only the last row of a window is padded.
        window: elements that are packed together (default 1,000). More of them fill rows better, and take more memory.
        max_segments: documents that a row may have. None (default): any number.
        pad_value: stands after the last token (default 0); one number, or a dict with one for each leaf.
        meta_features: keys of elements that are not packed but passed along: a row has an array `[segments, …]`, with the
            value of segment i at i - 1. With `max_segments` it is `[max_segments, …]`, filled up with `pad_value` (None where
            values are no numbers), so that rows can be batched.
        too_long: what becomes of a document longer than a row. "split" (default) makes segments of it that are no longer,
            "cut" drops what is over, "error" refuses it.
        bos: a token that is put at the beginning, where `bos_at` says; a dict by leaf if there are several. It counts as a
            token of the row. Leaves that are to stay aligned need one each, `{"tokens": 1, "mask": 0}`. None (default): none
            is put.
        bos_at: "segments" (default) puts `bos` before each segment, also before the rest of a split document. "rows" puts it
            before the first segment of each row, and it belongs to that.
        eos: a token that is put at the end of each document; a dict by leaf, as for `bos`. It counts as a token of the row. A
            split document has it at its end alone. A document that is cut has it, too. None (default): none is put.
        bos_replaces: True has `bos` take the place of the first token that is there, as Grain does it: then a document keeps
            all its tokens only if it begins with `bos` itself. Default False.

    Raises:
        TypeError, ValueError: an argument is not of its kind or outside its range.
        PackError: while packing, when a leaf is no array or unlike that of the first document, a document is too long, or
            arguments name leaves that are not there.

    >>> import numpy as np
    >>> import headrace
    >>> documents = [np.array([1, 1, 1]), np.array([2, 2, 2]), np.array([3])]
    >>> sampler = headrace.IndexSampler(3, num_epochs=1)
    >>> loader = headrace.DataLoader(data_source=documents, sampler=sampler, operations=[Pack(4, window=3)])
    >>> for row in loader:
    ...     print(row["tokens"], row["tokens_segment_ids"], row["tokens_positions"])
    [1 1 1 3] [1 1 1 2] [0 1 2 0]
    [2 2 2 0] [1 1 1 0] [0 1 2 0]
    """

    one_to_one = False
    plans_rows = True

    def __init__(
        self,
        length: int | Mapping[Any, Any],
        strategy: Strategy = "best_fit",
        window: int = 1000,
        *,
        max_segments: int | None = None,
        pad_value: Any = 0,
        meta_features: Sequence[Any] = (),
        too_long: TooLong = "split",
        bos: Any = None,
        bos_at: str = "segments",
        eos: Any = None,
        bos_replaces: bool = False,
    ) -> None:
        self.window = whole_number("window", window, 1, None, "a positive int")
        self.settings = Settings(
            length, strategy, max_segments, pad_value, meta_features, too_long, bos, bos_at, bos_replaces, eos
        )

    @property
    def takes(self) -> int:  # type: ignore[override]
        """The window."""
        return self.window

    def __repr__(self) -> str:
        return f"Pack({short_repr(self.settings.length)}, {self.settings.strategy!r}, window={self.window})"

    def identity_parameters(self) -> dict[str, Any]:
        """All but the window: a stream may go on with another one."""
        return self.settings.identity_parameters()

    def connect(self, then: Step, context: Context, number: int) -> Step:
        step = PackStep(self, then, context, number)
        context.take_all[number] = step.take_all
        context.at_end.append(step.finish)
        return step.push

    def plan(self, lengths: Any) -> PackPlan:
        """The rows of documents whose lengths are known, before any is read.

        Args:
            lengths: `int[documents]`; or a dict with such an array for each leaf, in which `meta_features` may be missing.

        Raises:
            PackError: a document is too long and `too_long` is "error"; or arguments name other leaves than `lengths`.
            LengthsError, TypeError: these are no lengths.
        """
        arrays, packed = self._leaves_of(lengths)
        found = _as_table(arrays, packed)
        rules = self.settings.rules(packed)
        for document in rules.refused(found)[:1].tolist():
            raise self.settings.too_long_error(found[document].tolist(), packed)
        return PackPlan(found, rules, self.window)

    def _leaves_of(self, lengths: Any) -> tuple[list[Ints], list[Path]]:
        """The lengths of each leaf that is packed, and these leaves in the order in which elements have them."""
        named = lengths if isinstance(lengths, Mapping) else {self._only_leaf(): lengths}
        found = [path for path in leaf_paths(named) if not self.settings.is_meta(path)]
        if isinstance(lengths, Mapping) or isinstance(
            self.settings.length, Mapping
        ):  # else documents tell their leaves
            self.settings.check([*found, *((key,) for key in self.settings.meta_features)])
        return [_checked(value_at(named, path), path) for path in found], found

    def _only_leaf(self) -> Any:
        """The leaf that lengths without a name are of."""
        if not isinstance(self.settings.length, Mapping):
            return BARE
        if len(self.settings.length) > 1:
            raise PackError(
                f"lengths are given for one leaf, and length={short_repr(self.settings.length)} has several; pass a dict of "
                "lengths."
            )
        return next(iter(self.settings.length))

    def pieces(self, elements: Sequence[Element]) -> Pieces:
        """The pieces of these documents, those of a window, by rows."""
        return Packer(self.settings).pieces(elements)

    def row(self, elements: Sequence[Element], pieces: Pieces) -> Element:
        """The row that a plan says, `plan.row(i)`, of its documents.

        Args:
            elements: the documents `pieces.documents`, in that order.
            pieces: of the row.
        """
        return self.planned(elements, pieces)[0]

    def planned(self, elements: Sequence[Element], pieces: Pieces) -> list[Element]:
        """As `row`, of several rows: `end_to_end` puts their pieces together."""
        return Packer(self.settings).planned(elements, pieces)


def _as_table(arrays: list[Ints], leaves: list[Path]) -> Ints:
    """`int64[documents, leaves]`, of the lengths of each leaf."""
    for array, leaf in zip(arrays, leaves):
        if array.shape != arrays[0].shape:
            raise PackError(
                f"there are {len(array)} lengths of leaf {name(leaf)}, and {len(arrays[0])} of {name(leaves[0])}; pass one for "
                "each document, as many for each leaf."
            )
    return np.stack(arrays, axis=1)


def _checked(lengths: Any, leaf: Path) -> Ints:
    """The lengths of a leaf. Raises LengthsError, TypeError: they are none."""
    return as_lengths(lengths, np.shape(lengths)[0] if np.ndim(lengths) else 0, f"lengths of leaf {name(leaf)}")


class PackStep:
    """Documents wait until a window is full, and are pushed on as rows.

    Args:
        pack: the operation.
        then: the step to push rows to.
        context: of the chain. A row goes on with the place of the first element of its window, as a child of it.
        number: of the operation.
    """

    __slots__ = ("_context", "_first", "_number", "_packer", "_then", "_waiting", "_window")

    def __init__(self, pack: Pack, then: Step, context: Context, number: int) -> None:
        self._window = pack.window
        self._packer = Packer(pack.settings, context.allocate)
        self._then, self._context, self._number = then, context, number
        self._waiting: list[Element] = []
        self._first = (0, 0, 0)

    def push(self, element: Element) -> None:
        """Take one element, which stands where the context says."""
        if not self._waiting:
            self._begin()
        self._waiting.append(element)
        if len(self._waiting) == self._window:
            self._emit()

    def take_all(self, elements: Iterator[Element]) -> None:
        """Take all there are, wherever they stand."""
        more = True
        while more:  # no longer: a function that raised StopIteration would be called again
            if not self._waiting:
                self._begin()
            self._waiting.extend(islice(elements, self._window - len(self._waiting)))
            more = len(self._waiting) == self._window
            if more:
                self._emit()

    def _begin(self) -> None:
        self._first = self._context.seed, self._context.position, self._context.row

    def _emit(self) -> None:
        context, documents = self._context, self._waiting
        last = context.seed, context.position, context.row
        self._waiting = []
        try:
            rows = self._packer.rows(documents)
        except Exception:
            context.blame(self._number, self._packer.at)
            raise
        context.seed, context.position, first_row = self._first
        for index, row in enumerate(rows):
            context.row, context.packed = child_row(first_row, index), (documents, index)
            self._then(row)
        context.packed = None
        context.seed, context.position, context.row = last

    def finish(self) -> None:
        """Push the rows of a last, shorter window on."""
        if self._waiting:
            self._emit()


class PackMethods(ChainMethods[ChainT]):
    """The method of a stream for this operation; that of a `MapDataset` plans rows from lengths."""

    def pack(
        self, length: int | Mapping[Any, Any], strategy: Strategy = "best_fit", window: int = 1000, **settings: Any
    ) -> ChainT:
        """Documents as rows of one length, as `Pack` makes them of each window of elements.

        Args:
            length: tokens of a row, as of `Pack`.
            strategy: likewise.
            window: likewise.
            **settings: other arguments of `Pack`.

        >>> import numpy as np
        >>> from headrace import MapDataset
        >>> documents = MapDataset.range(1, 4).to_iter_dataset().map(lambda x: np.full(x, x))
        >>> [row["tokens"].tolist() for row in documents.pack(3)]
        [[1, 2, 2], [3, 3, 3]]
        """
        return self.then(Pack(length, strategy, window, **settings))
