"""Pack: combine documents of unequal length into rows of one length, with little or no padding.

A row has the number of its document (segment) for each token. `Pack` collects a window of
consecutive elements and makes several rows of them. No row contains documents of two windows.
Therefore windows can be processed independently, and a stream can resume at any row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..common.costs import as_lengths
from ..common.generators.keyed_random import child_row
from ..common.messages import short_repr
from ..common.validation import array_of, whole_number
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
    """Pack documents, i.e. arrays of tokens of unequal length, into rows of `length` tokens.

    Elements are dicts (of dicts) of arrays, whose first axes count tokens and may differ in length.
    For each leaf `x` a row has:

    * `x`, `[length, …]`: the tokens of several documents, one after the other, then padding;
    * `x_segment_ids`, `int32[length]`: number of the token's document in the row, from 1; 0 for
      padding;
    * `x_positions`, `int32[length]`: index of the token in its segment, from 0; 0 for padding.

    An element that is a single array is packed as `{"tokens": array}`, a named tuple or dataclass
    as the dict of its fields. Several leaves, such as inputs and targets, are packed together: a
    document has the same segment id in all of them. Rows are dicts.

    The documents of `window` elements are packed together; no row contains documents of two
    windows. Documents without a token are dropped. Rows are in the order of the documents that were
    put into them first (with "best_fit", their longest).

    Args:
        length: number of tokens in a row; or a dict with a length for each leaf.
        strategy: "best_fit" (default) puts each document where it leaves the least space, the
            longest first. With 1,000 documents of a mean length of a quarter row, 99 % of the
            tokens are not padding. "first_fit" puts each document, in their order, into the first
            row with enough space. "next_fit" puts each document into the row of the document before
            it, or into a new row if there is too little space: documents keep their order, and 16
            to 20 % of these tokens are padding. "concat_then_split" puts documents one after the
            other, and splits a document where a row is full: with one leaf, and without `bos` and
            `max_segments`, only the last row of a window is padded.
        window: number of elements that are packed together (default 1,000). A larger window needs
            less padding and more memory.
        max_segments: maximum number of documents in a row. None (default): no limit.
        pad_value: padding (default 0); a number, or a dict by leaf.
        meta_features: keys of elements that are not packed. For each key, a row has an array
            `[segments, …]`, with the value of segment i at index i - 1. With `max_segments` its
            shape is `[max_segments, …]`, filled with `pad_value` (None if values are not numbers),
            so that rows can be batched.
        too_long: what happens to a document that is longer than a row: "split" (default) splits it
            into segments, "cut" drops its end, "error" raises.
        bos: token that is inserted at the beginning, see `bos_at`; a dict by leaf if there are
            several leaves. It counts as a token of the row. If leaves must stay aligned, pass a
            token for each, `{"tokens": 1, "mask": 0}`. None (default): no token.
        bos_at: "segments" (default) inserts `bos` before each segment, also before the rest of a
            split document. "rows" inserts it before the first segment of each row, as part of that
            segment.
        eos: token that is appended to each document; a dict by leaf, as for `bos`. It counts as a
            token of the row. A split document has it only at its end. A cut document has it, too.
            None (default): no token.
        bos_replaces: True: `bos` replaces the first token, as in Grain. Then a document keeps all
            its tokens only if it begins with `bos` itself. Default False.

    Raises:
        TypeError, ValueError: an argument has a wrong type or is out of range.
        PackError: while packing, if a leaf is not an array or differs from that of the first
            document, a document is too long, or an argument names a missing leaf.

    >>> import numpy as np
    >>> import headrace
    >>> documents = [np.array([1, 1, 1]), np.array([2, 2, 2]), np.array([3])]
    >>> sampler = headrace.IndexSampler(3, num_epochs=1)
    >>> pack = Pack(4, window=3)
    >>> loader = headrace.DataLoader(data_source=documents, sampler=sampler, operations=[pack])
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
            length,
            strategy,
            max_segments,
            pad_value,
            meta_features,
            too_long,
            bos,
            bos_at,
            bos_replaces,
            eos,
        )

    @property
    def takes(self) -> int:  # type: ignore[override]
        """Number of elements in a window, i.e. that are packed together."""
        return self.window

    def __repr__(self) -> str:
        return (
            f"Pack({short_repr(self.settings.length)}, {self.settings.strategy!r}, "
            f"window={self.window})"
        )

    def identity_parameters(self) -> dict[str, Any]:
        """Return all parameters except the window.

        A checkpoint may be restored with another window.
        """
        return self.settings.identity_parameters()

    def connect(self, then: Step, context: Context, number: int) -> Step:
        step = PackStep(self, then, context, number)
        context.take_all[number] = step.take_all
        context.at_end.append(step.finish)
        return step.push

    def plan(self, lengths: Any) -> PackPlan:
        """Return a plan of the rows of documents whose lengths are known, before any is read.

        Args:
            lengths: length of each document, `int[documents]`; or a dict with such an array for
                each leaf. Leaves in `meta_features` may be missing.

        Raises:
            PackError: a document is too long and `too_long` is "error"; an argument names a leaf
                that is not in `lengths`; or leaves have different numbers of lengths.
            LengthsError, TypeError: `lengths` are not lengths.
        """
        arrays, packed = self._leaves_of(lengths)
        found = _as_table(arrays, packed)
        rules = self.settings.rules(packed)
        for document in rules.refused(found)[:1].tolist():
            raise self.settings.too_long_error(found[document].tolist(), packed)
        return PackPlan(found, rules, self.window)

    def _leaves_of(self, lengths: Any) -> tuple[list[Ints], list[Path]]:
        """Return `(arrays, paths)`: the lengths and the path of each packed leaf.

        They are in the order of optree (sorted keys).

        Raises:
            PackError: an argument names a leaf that is not in `lengths`, or one array is given for
                several leaves.
            LengthsError, TypeError: `lengths` are not lengths.
        """
        named = lengths if isinstance(lengths, Mapping) else {self._only_leaf(): lengths}
        found = [path for path in leaf_paths(named) if not self.settings.is_meta(path)]
        # else documents tell their leaves
        if isinstance(lengths, Mapping) or isinstance(self.settings.length, Mapping):
            self.settings.check([*found, *((key,) for key in self.settings.meta_features)])
        return [_checked(value_at(named, path), path) for path in found], found

    def _only_leaf(self) -> Any:
        """Return the name of the leaf whose lengths are passed as one array.

        Raises:
            PackError: `length` is a dict with several leaves.
        """
        if not isinstance(self.settings.length, Mapping):
            return BARE
        if len(self.settings.length) > 1:
            raise PackError(
                f"lengths= is a single array, but length={short_repr(self.settings.length)} names "
                "several keys. Pass lengths= a dict with an array for each of these keys."
            )
        return next(iter(self.settings.length))

    def pieces(self, elements: Sequence[Element]) -> Pieces:
        """Return the pieces of documents in each row of a window, with the documents' lengths.

        Args:
            elements: the documents of the window.

        Raises:
            PackError: a document cannot be packed.
        """
        return Packer(self.settings).pieces(elements)

    def row(self, elements: Sequence[Element], pieces: Pieces) -> Element:
        """Make one row of a plan from its documents.

        Args:
            elements: the documents `pieces.documents`, in that order.
            pieces: pieces of the row, from `plan.row(i)`.

        Raises:
            PackError: a document cannot be packed, or does not have the planned length.
        """
        return self.planned(elements, pieces)[0]

    def planned(self, elements: Sequence[Element], pieces: Pieces) -> list[Element]:
        """Make several rows of a plan, and return them in their order.

        Args:
            elements: the documents of all these rows, one for each piece, in the order of the
                pieces.
            pieces: pieces of all these rows, combined by `end_to_end`.

        Raises:
            PackError: a document cannot be packed, or does not have the planned length.
        """
        return Packer(self.settings).planned(elements, pieces)


def _as_table(arrays: list[Ints], leaves: list[Path]) -> Ints:
    """Return the lengths of all leaves in one array, `int64[documents, leaves]`.

    Args:
        arrays: `int64[documents]` for each leaf.
        leaves: paths of the leaves, for the error message.

    Raises:
        PackError: leaves have different numbers of lengths.
    """
    for array, leaf in zip(arrays, leaves):
        if array.shape != arrays[0].shape:
            raise PackError(
                f"leaf {name(leaf)} has {len(array)} lengths, but leaf {name(leaves[0])} has "
                f"{len(arrays[0])}. Pass one length for each document and leaf."
            )
    return np.stack(arrays, axis=1)


def _checked(lengths: Any, leaf: Path) -> Ints:
    """Return the lengths of a leaf as `int64[documents]` after a check.

    Args:
        lengths: a length for each document.
        leaf: path of the leaf, for the error message.

    Raises:
        LengthsError, TypeError: `lengths` are not lengths.
    """
    return as_lengths(
        lengths, (array_of(lengths).shape or (0,))[0], f"lengths of leaf {name(leaf)}"
    )


class PackStep:
    """Step that collects documents until a window is full, and pushes its rows to the next step.

    Args:
        pack: the operation.
        then: next step, to which rows are pushed.
        context: context of the chain. The place of a row is derived from the place (seed, position,
            row) of the first element in its window.
        number: index of the operation in the pipeline.
    """

    __slots__ = ("_context", "_first", "_number", "_packer", "_then", "_waiting", "_window")

    def __init__(self, pack: Pack, then: Step, context: Context, number: int) -> None:
        self._window = pack.window
        self._packer = Packer(pack.settings, context.allocate)
        self._then, self._context, self._number = then, context, number
        self._waiting: list[Element] = []
        self._first = (0, 0, 0)

    def push(self, element: Element) -> None:
        """Add one element to the window.

        If the window is then full, pack it, and push its rows to the next step. The element's place
        (seed, position, row) is read from the context that all steps share.
        """
        if not self._waiting:
            self._begin()
        self._waiting.append(element)
        if len(self._waiting) == self._window:
            self._emit()

    def take_all(self, elements: Iterator[Element]) -> None:
        """Add all elements of an iterator.

        A window gets the place (seed, position, row) that the context has when the window begins.
        """
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
        """Push the rows of the last window, which may have fewer elements; nothing if empty."""
        if self._waiting:
            self._emit()


class PackMethods(ChainMethods[ChainT]):
    """Method `pack` of a stream. A `MapDataset` has its own, which plans rows from lengths."""

    def pack(
        self,
        length: int | Mapping[Any, Any],
        strategy: Strategy = "best_fit",
        window: int = 1000,
        **settings: Any,
    ) -> ChainT:
        """Pack documents into rows of one length, as `Pack` does with each window of elements.

        Args:
            length: number of tokens in a row; or a dict with a length for each leaf.
            strategy: how the row of a document is chosen: "best_fit" (default), "first_fit",
                "next_fit" or "concat_then_split"; see `Pack`.
            window: number of elements that are packed together (default 1,000).
            **settings: other arguments of `Pack`.

        Raises:
            TypeError, ValueError: an argument has a wrong type or is out of range.

        >>> import numpy as np
        >>> from headrace import MapDataset
        >>> documents = MapDataset.range(1, 4).to_iter_dataset().map(lambda x: np.full(x, x))
        >>> [row["tokens"].tolist() for row in documents.pack(3)]
        [[1, 2, 2], [3, 3, 3]]
        """
        return self.then(Pack(length, strategy, window, **settings))
