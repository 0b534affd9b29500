"""Grain's packing into bins: documents of unequal length become rows of equal length.

In: dicts of arrays. Out: dicts of rows, with segment ids and positions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import getitem
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....common.messages import first_few, short_repr, shorten
from ....common.validation import whole_number
from ....errors import PackError
from ....loader.plan.compile import compiled
from ....operations.trees import flatten
from ..chains.iter_dataset import IterDataset
from ..chains.iterators import Resumed
from ..chains.thresholds import TakesOptions
from ..prefetching import WithOptionsIterDataset


class Packing(TakesOptions, IterDataset[Any]):
    """Base of streams that pack several elements of their parent into one."""

    def fed_by(
        self, options: Any, worker_init_fn: Callable[[int, int], None] | None
    ) -> Packing | None:
        """Return this packing with a parent whose elements workers make.

        Return None if workers would not help.

        They do not help if no operations run on the records, or if the records must be read in
        order.

        Args:
            options: `MultiprocessingOptions`.
            worker_init_fn: called in each worker first.
        """
        parent, stream = self._parent, self._parent.chain_stream
        if not stream.operations or any(leaf.in_order for leaf in compiled(stream.tree).leaves):
            return None
        return self._of(parent.mp_prefetch(options, worker_init_fn))

    def with_dataset_options(self, options: Any) -> Packing:
        """Return a copy of this packing whose parent has these `DatasetOptions`."""
        return self._of(WithOptionsIterDataset(self._parent, options))

    def _of(self, parent: Any) -> Packing:
        other = copy.copy(self)
        other.__dict__["_parents"] = (parent,)
        return other


Element = Mapping[str, Any]
Path: TypeAlias = tuple[Any, ...]
"""Keys that lead from the root of a tree to a leaf."""
Later: TypeAlias = Callable[[], dict[str, Any]]
"""A function that returns a state."""


# as Grain names them in an error that programs look for
_PACKERS = {"first": "PackedBatch", "best": "packer"}


def length_of(value: Any) -> int:
    """Return the number of tokens of a feature: its length, or 1 for a number."""
    return 1 if np.ndim(value) == 0 else len(value)


class BinPack(Packing):
    """A stream that packs documents into several bins at a time.

    When a document fits into no bin, all bins become rows.
    The rows are emitted in shuffled order, unless `shuffle_bins` is False.

    Args:
        parent: a stream of documents: dicts of arrays.
        length_struct: length of a row, for each feature. Other features, except meta features, are
            omitted. A feature may be a tree with a length for each leaf; then it must be a meta
            feature, and its alignment and padding are trees, too.
        num_packing_bins: number of bins that are filled at a time.
        seed: for the order of the rows.
        shuffle_bins: True (default) shuffles the rows; False keeps the order of the bins.
        shuffle_bins_group_by_feature: name of a feature; rows are sorted by the mean of its
            distinct values other than 0.
        meta_features: features without segment ids and positions. A meta feature without a length
            is emitted as a list of the documents' values.
        pack_alignment_struct: for a feature, a number; each document starts at a multiple of it.
        padding_struct: for a feature, the value that fills the rest of a row; default 0.
        max_sequences_per_bin: maximal number of documents in a bin; None (default) for no limit.

    Raises:
        ValueError: if `num_packing_bins` or `max_sequences_per_bin` is not positive, or
            `shuffle_bins_group_by_feature` is not in a row; or, while iterating, if a document is
            longer than a row (`PackError`), or a feature that is a tree is no meta feature.
    """

    fit: ClassVar[Literal["first", "best"]]

    def __init__(
        self,
        parent: Any,
        *,
        length_struct: Mapping[str, int],
        num_packing_bins: int,
        seed: int = 0,
        shuffle_bins: bool = True,
        shuffle_bins_group_by_feature: str | None = None,
        meta_features: Sequence[str] = (),
        pack_alignment_struct: Any = None,
        padding_struct: Any = None,
        max_sequences_per_bin: int | None = None,
    ) -> None:
        super().__init__(parent)
        self.length_struct = dict(length_struct)
        self.num_packing_bins = whole_number(
            "num_packing_bins", num_packing_bins, 1, None, "a number of bins"
        )
        self.bins_seed, self.shuffle_bins = seed, shuffle_bins
        self.group_by = shuffle_bins_group_by_feature
        self.meta_features = tuple(meta_features)
        self.alignments = dict(pack_alignment_struct or {})
        self.paddings = dict(padding_struct or {})
        self.most = max_sequences_per_bin
        if self.most is not None and self.most < 1:
            raise ValueError(
                "If specified, `max_sequences_per_bin` must be a positive integer, but got "
                f"{self.most}. Pass None for no limit."
            )
        names = [*self.length_struct, *self.meta_features]
        if self.group_by is not None and self.group_by not in names:
            raise ValueError(
                f"shuffle_bins_group_by_feature={short_repr(self.group_by)} is not a feature of a "
                f"row. Name one of {first_few(names, 8)}."
            )

    def __iter__(self) -> Any:
        parent = iter(self._parent)
        return Resumed(
            partial(self._resumed, parent), partial(_state, parent.state_later(), 0, 0), parent
        )

    def _resumed(self, parent: Any, state: dict[str, Any] | None) -> Iterator[tuple[Any, Later]]:
        """Yield rows, each with a function that returns the state after it.

        A state has the parent's state before the first document of the current bins, and the
        number of rows emitted since.

        Args:
            parent: an iterator over the documents.
            state: the state from which to begin; None: the current place of `parent`.

        Raises:
            PackError: if a document is longer than a row.
        """
        if state is None:
            return self._rows(parent, parent.state_later(), 0, 0)
        parent.set_state(state["parent"])
        return self._rows(parent, lambda: state["parent"], state["next_row"], state["counter"])

    def _rows(
        self, parent: Any, start: Later, emitted: int, counter: int
    ) -> Iterator[tuple[Any, Later]]:
        first: tuple[Later, Element] | None = None
        while True:
            bins: Bins | None = None
            while True:  # fill them
                taken: tuple[Later, Element | None] = first or (
                    parent.state_later(),
                    next(parent, None),
                )
                before, element = taken
                first = None
                if element is None:
                    break
                bins = bins or Bins(self, element)
                if not bins.add(element):
                    first = before, element
                    break
            if bins is None:
                return
            for row in bins.order(self.bins_seed + counter - emitted)[emitted:]:
                emitted, counter = emitted + 1, counter + 1
                yield bins.row(row), partial(_state, start, emitted, counter)
            start, emitted = before, 0


def _state(start: Later, emitted: int, counter: int) -> dict[str, Any]:
    return {"parent": start(), "next_row": emitted, "counter": counter}


class FirstFitPackIterDataset(BinPack):
    """A packing in which a document goes into the first bin that has room.

    Arguments and exceptions as for its base class `BinPack`.
    """

    fit = "first"


class BestFitPackIterDataset(BinPack):
    """A packing in which a document goes into the fullest bin that has room.

    Arguments and exceptions as for its base class `BinPack`.
    """

    fit = "best"


class Bins:
    """Bins that are being filled.

    Args:
        pack: the packing, for its options.
        like: an element; its arrays give the dtypes and the trailing axes of the bins.
    """

    def __init__(self, pack: BinPack, like: Element) -> None:
        self._pack = pack
        self._structure: Any  # a dict, or a dict of trees
        lengths, self._structure = flatten(pack.length_struct)
        self._paths: list[Path] = self._structure.paths()  # of each leaf
        self._capacities = np.array(lengths, dtype=np.int64)
        self._free = np.zeros((len(lengths), pack.num_packing_bins), dtype=np.int64)
        self._documents = np.zeros(pack.num_packing_bins, dtype=np.int32)
        self._values = [
            self._empty(path, length, _at(like, path)) for path, length in zip(self._paths, lengths)
        ]
        self._ids = [np.zeros((pack.num_packing_bins, length), np.int32) for length in lengths]
        self._positions = [
            np.zeros((pack.num_packing_bins, length), np.int32) for length in lengths
        ]
        self._alignments = [_option_at(pack.alignments, path) or 1 for path in self._paths]
        others = [name for name in pack.meta_features if name not in pack.length_struct]
        self._lists: dict[str, list[list[Any]]] = {
            name: [[] for _ in self._documents] for name in others
        }

    def _empty(self, path: Path, length: int, value: Any) -> NDArray[Any]:
        array = np.asarray(value)
        shape = (self._pack.num_packing_bins, length, *array.shape[1:])
        return np.full(shape, _option_at(self._pack.paddings, path) or 0, dtype=array.dtype)

    def add(self, element: Element) -> bool:
        """Put a document into a bin; return True if a bin had room for it.

        Raises:
            PackError: if the document is longer than an empty bin.
        """
        parts = [_at(element, path) for path in self._paths]
        lengths = np.array([length_of(part) for part in parts], dtype=np.int64)
        if (lengths > self._capacities).any():
            found, packer = self._structure.unflatten(lengths.tolist()), _PACKERS[self._pack.fit]
            raise PackError(
                f"Inputs to {packer} must be truncated to max length: a document has "
                f"{shorten(found, 120)} tokens, but a row holds at most "
                f"{shorten(self._pack.length_struct, 120)}. Cut the document with map(…) before "
                "the packing, or raise length_struct."
            )
        fits = self._bins_that_fit(lengths[:, None], self._capacities[:, None])
        if not fits.any():
            return False
        fullness = fits if self._pack.fit == "first" else np.where(fits, self._free.sum(axis=0), -1)
        self._put(element, parts, int(np.argmax(fullness)), lengths.tolist())
        return True

    def _bins_that_fit(self, lengths: NDArray[Any], capacities: NDArray[Any]) -> NDArray[Any]:
        """Return a bool for each bin: True if a document fits into it.

        A bin with the maximal number of documents counts as full: only for best fit, as in Grain,
        an empty document still fits.

        Args:
            lengths: number of tokens of the document for each leaf, `int64[leaves, 1]`.
            capacities: length of a row for each leaf, `int64[leaves, 1]`.
        """
        taken = self._free + lengths
        if self._pack.most is not None:
            is_full = self._documents >= self._pack.most
            taken = taken + is_full * (capacities if self._pack.fit == "best" else capacities + 1)
        fits: NDArray[Any] = (taken <= capacities).all(axis=0)
        return fits

    def _put(self, element: Element, parts: list[Any], row: int, lengths: list[int]) -> None:
        self._documents[row] += 1
        for leaf, (part, length) in enumerate(zip(parts, lengths)):
            start = int(self._free[leaf, row])
            place = (row, slice(start, start + length))
            self._values[leaf][place] = part
            self._ids[leaf][place] = self._documents[row]
            self._positions[leaf][place] = np.arange(length, dtype=np.int32)
            self._free[leaf, row] = (
                -(-(start + length) // self._alignments[leaf]) * self._alignments[leaf]
            )
        for name, lists in self._lists.items():
            if name in element:
                lists[row].append(element[name])

    @property
    def count(self) -> int:
        """The number of bins that contain documents."""
        return int(np.count_nonzero(self._documents))

    def row(self, number: int) -> dict[str, Any]:
        """Return the row made of the bin with index `number`, with sorted keys as in Grain.

        Raises:
            ValueError: if a feature that is a tree is not a meta feature.
        """
        row: dict[str, Any] = self._structure.unflatten([values[number] for values in self._values])
        for (name, *inner), ids, positions in zip(self._paths, self._ids, self._positions):
            if name in self._pack.meta_features:
                continue
            if inner:
                raise ValueError(
                    f"Failed to extract segment ids for '{name}', which has type {type(row[name])} "
                    "rather than np.ndarray. Perhaps it should be marked as a meta feature? Name "
                    "it in meta_features, or map it to an array."
                )
            row |= {f"{name}_segment_ids": ids[number], f"{name}_positions": positions[number]}
        row |= {name: lists[number] for name, lists in self._lists.items()}
        return dict(sorted(row.items()))

    def order(self, seed: int) -> list[int]:
        """Return the indices of the bins with documents, in the order in which they are emitted.

        Args:
            seed: seed of the shuffle.
        """
        if not self._pack.shuffle_bins:
            return list(range(self.count))
        shuffled: list[int] = np.random.default_rng(seed).permuted(range(self.count)).tolist()
        if self._pack.group_by is None:
            return shuffled
        grouped = {**self._structure.unflatten(self._values), **self._lists}[self._pack.group_by]
        means = [_mean_of_distinct(row) for row in grouped[: self.count]]
        return sorted(
            range(self.count), key=lambda number: (means[number], shuffled[number], number)
        )


def _at(tree: Any, path: Path) -> Any:
    return reduce(getitem, path, tree)


def _option_at(struct: Mapping[str, Any], path: Path) -> Any:
    """Return the option for a leaf, or None if the leaf's feature has no such option.

    Args:
        struct: option of each feature that has it; a tree of options for a feature that is a tree.
        path: keys that lead to the leaf, the feature's name first.
    """
    return _at(struct, path) if path[0] in struct else None


def _mean_of_distinct(row: NDArray[Any] | list[Any]) -> float:
    distinct = np.unique(row)
    there = np.count_nonzero(distinct)
    return float(distinct.sum() / there) if there else 0.0
