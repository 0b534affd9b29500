"""Batch functions (`batch_fn`) for elements that cannot be stacked as they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.messages import VALUE, a_kind_of, first_few, short_repr, shorten
from ..common.validation import whole_number
from ..errors import BatchError
from .column import as_array
from .protocol import Element, allocate_plainly, current_notify
from .stacking import Stack
from .trees import flatten, leaf_names

Masks = str | Mapping[Any, str] | None


def _check_not_empty(function: str, elements: Sequence[Element]) -> None:
    """Raise BatchError if there are no elements, because then the batch's structure is unknown.

    Args:
        function: name of the batch function, for the message.
        elements: the elements of the batch.
    """
    if len(elements) == 0:
        raise BatchError(f"{function} was called without elements. Pass at least one element.")


def stack(elements: Sequence[Element]) -> Element:
    """Stack elements of equal structure and shapes, as `Batch` does without a `batch_fn`.

    Raises:
        BatchError: there are no elements, or they cannot be stacked.

    >>> stack([{"x": 1}, {"x": 2}])
    {'x': array([1, 2])}
    """
    _check_not_empty("stack", elements)
    rows = Stack(len(elements), allocate_plainly, current_notify())
    rows.add(0, elements[:1])
    rows.add(1, elements[1:])
    return rows.finish(len(elements))


class pad_batch:  # noqa: N801 (used like a function: Batch(8, batch_fn=pad_batch(length=512)))
    """Pad leaves of unequal length, then stack. Use it as `Batch(n, batch_fn=pad_batch(…))`.

    A leaf is ragged if the length of its first axis differs among the elements of a batch. Ragged
    leaves are padded at the end of that axis; the other axes must agree. All other leaves are
    stacked unchanged. An empty array takes the dtype of the others.

    Args:
        length: None (default): pad ragged leaves to the longest one in the batch. An int: pad
            ragged leaves, or the only leaf with an axis, to that length. A dict by key of the
            elements (`{"tokens": 512}`): pad these leaves to these lengths, ragged or not, and
            other ragged leaves to the longest. A longer leaf is an error. If elements have several
            leaves with an axis, pass a dict to get batches of one shape: lengths in one batch may
            be equal by chance, and then no leaf is ragged.
        value: padding, a number (default 0); or a dict by key (`{"tokens": -1}`), in which missing
            leaves get 0.
        mask_key: key of a mask `bool[n, length]` that is added to batches of dicts, True where
            there is no padding. A dict adds a mask for each of several leaves (`{"tokens":
            "tokens_mask"}`). None (default): no mask.

    Raises:
        TypeError, ValueError: a length is not an int, or is negative.
        BatchError: while batching, if a leaf is longer than `length`; leaves differ in another
            axis; an argument names a missing key; `length` is an int, no leaf in a batch is ragged,
            and there are several leaves that it could mean; or a mask cannot be added.

    >>> import numpy as np
    >>> pad_batch(value=-1)([np.array([1, 2, 3]), np.array([4])]).tolist()
    [[1, 2, 3], [4, -1, -1]]
    >>> elements = [{"x": np.array([1, 2])}, {"x": np.array([4])}]
    >>> batch = pad_batch(length=3, mask_key="mask")(elements)
    >>> batch["x"].tolist(), batch["mask"].tolist()
    ([[1, 2, 0], [4, 0, 0]], [[True, True, False], [True, False, False]])
    """

    mask_key: Masks = None

    def __init__(
        self,
        length: int | Mapping[Any, int] | None = None,
        value: Any = 0,
        *,
        mask_key: Masks = None,
    ) -> None:
        lengths = (
            length if isinstance(length, Mapping) else {} if length is None else {None: length}
        )
        remedy = "an int, a dict of ints by key, or None for the longest"
        self.lengths = {
            key: whole_number("length", one, 0, None, remedy) for key, one in lengths.items()
        }
        self.value = value
        # without, states keep the fingerprint that they had before there were masks
        if mask_key is not None:
            self.mask_key = mask_key

    def __call__(self, elements: Sequence[Element]) -> Element:
        _check_not_empty("pad_batch", elements)
        flat = [flatten(element) for element in elements]
        structure = flat[0][1]
        if any(other != structure for _, other in flat):
            return stack(elements)  # which says how they differ
        leaves = zip(*([as_array(leaf) for leaf in leaves] for leaves, _ in flat))
        columns = [_Column(name, column) for name, column in zip(leaf_names(structure), leaves)]
        targets, values = self._targets(columns), self._values(columns)
        padded = [
            _padded(column, targets.get(column.name), values[column.name]) for column in columns
        ]
        batch = stack(
            [
                structure.unflatten([leaves[row] for leaves in padded])
                for row in range(len(elements))
            ]
        )
        for key, mask in self._masks(columns, targets):
            batch = _with_mask(batch, key, mask)
        return batch

    def _targets(self, columns: Sequence[_Column]) -> dict[str, int]:
        """Return the length to which each leaf is padded, by its name.

        Leaves that are not padded are missing.

        Raises:
            BatchError: a leaf is longer than `length`, `length` has a key that the elements do not
                have, or an int `length` could mean several leaves.
        """
        if None in self.lengths:
            targets = dict.fromkeys(
                (column.name for column in _meant(columns, self.lengths[None])), self.lengths[None]
            )
        else:
            targets = {column.name: column.longest for column in columns if column.ragged}
            for key, length in self.lengths.items():
                targets |= {column.name: length for column in _named("length", key, columns)}
        for column in columns:
            if column.longest > targets.get(column.name, column.longest):
                raise BatchError(
                    f"leaf {column.told} has length {column.longest}, over "
                    f"pad_batch(length={targets[column.name]}). Cut it before Batch, or raise "
                    "length."
                )
        return targets

    def _values(self, columns: Sequence[_Column]) -> dict[str, Any]:
        """Return the padding of each leaf, by its name.

        Raises:
            BatchError: `value` has a key that the elements do not have.
        """
        if not isinstance(self.value, Mapping):
            return {column.name: self.value for column in columns}
        values = dict.fromkeys((column.name for column in columns), 0)
        for key, value in self.value.items():
            values |= {column.name: value for column in _named("value", key, columns)}
        return values

    def _masks(
        self, columns: Sequence[_Column], targets: dict[str, int]
    ) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Yield `(key, mask)` for each mask to add to the batch.

        Args:
            columns: leaves of the elements.
            targets: length to which each leaf is padded, by name.
        """
        if isinstance(self.mask_key, Mapping):
            for key, mask_key in self.mask_key.items():
                yield mask_key, _mask(_named("mask_key", key, columns), targets)
        elif self.mask_key is not None:
            yield (
                self.mask_key,
                _mask([column for column in columns if column.name in targets] or columns, targets),
            )


def _padded(column: _Column, length: int | None, value: Any) -> Sequence[Any]:
    """Return the leaves of a column, padded.

    Args:
        column: the leaves.
        length: length after padding. None: return the leaves unchanged.
        value: padding.
    """
    if length is None:
        return [leaf[()] for leaf in column.leaves]
    filled = next((leaf.dtype for leaf in column.leaves if leaf.size), None)
    leaves = [
        leaf if leaf.size or filled is None else leaf.astype(filled) for leaf in column.leaves
    ]
    return [_filled(leaf, length, value) if leaf.ndim else leaf[()] for leaf in leaves]


class _Column:
    """Leaves with one name in all elements of a batch.

    Args:
        name: name of the leaves.
        leaves: leaf of each element.
    """

    def __init__(self, name: str, leaves: Sequence[NDArray[Any]]) -> None:
        self.name = name
        self.told = shorten(name, VALUE) or "of the element"
        self.leaves = leaves
        self.has_axis = any(leaf.ndim for leaf in leaves)
        self.lengths = [len(leaf) if leaf.ndim else 0 for leaf in leaves]
        self.longest = max(self.lengths)
        self.ragged = min(self.lengths) < self.longest

    def below(self, key: Any) -> bool:
        """Return True if the leaves are under this key of the elements."""
        return self.name.startswith(f"[{key!r}]")

    def mask(self, length: int) -> NDArray[np.bool_]:
        """Return `bool[leaves, length]`: True where leaves have values, False for padding."""
        return np.arange(length) < np.array(self.lengths)[:, None]


def _named(argument: str, key: Any, columns: Sequence[_Column]) -> Sequence[_Column]:
    """Return the leaves under a key of the elements.

    Args:
        argument: name of the argument of `pad_batch` that has this key, for the error message.
        key: the key.
        columns: leaves of the elements.

    Raises:
        BatchError: there are none.
    """
    found = [column for column in columns if column.below(key)]
    if not found and not any(column.name for column in columns):
        raise BatchError(
            f"pad_batch({argument}=…) names {short_repr(key)}, but elements are single values "
            "without keys. Map them to dicts with this key before Batch, or, for length= and "
            "value=, pass one number in place of the dict."
        )
    if not found:
        raise BatchError(
            f"pad_batch({argument}=…) names {short_repr(key)}, but elements have no such key, or "
            "only None under it. Name only keys of the elements: "
            f"{first_few([column.told for column in columns])}."
        )
    return found


def _mask(columns: Sequence[_Column], targets: dict[str, int]) -> NDArray[np.bool_]:
    """Return the mask that fits all leaves with an axis.

    Args:
        columns: leaves of the elements.
        targets: length to which each leaf is padded, by name.

    Raises:
        BatchError: the leaves need different masks, or none of them has an axis.
    """
    found = [column for column in columns if column.has_axis]
    masks = [column.mask(targets.get(column.name, column.longest)) for column in found]
    if not masks:
        raise BatchError(
            "mask_key= asks for a mask of the padding, but the leaves are single numbers or texts, "
            "which are not padded. Leave mask_key= out, or name an array in it: "
            "pad_batch(mask_key={'tokens': 'tokens_mask'})."
        )
    if any(not np.array_equal(mask, masks[0]) for mask in masks):
        names = first_few([column.told for column in found])
        raise BatchError(
            f"leaves are padded differently ({names}), so one mask does not fit all of them. Give "
            "a mask to each leaf that needs one: pad_batch(mask_key={'tokens': 'tokens_mask'})."
        )
    return masks[0]


def _meant(columns: Sequence[_Column], length: int) -> Sequence[_Column]:
    """Return the leaves to which an int `length` applies.

    These are ragged leaves, and leaves whose longest value has this length.

    If there are none, and only one leaf has an axis, return that leaf.

    Raises:
        BatchError: there are none, and several leaves have an axis.
    """
    there = [column for column in columns if column.has_axis]
    found = [column for column in there if column.ragged or column.longest == length]
    if found or len(there) < 2:
        return found or there
    raise BatchError(
        "each leaf has the same length in all elements of this batch, so "
        f"pad_batch(length={length}) cannot know which of "
        f"{first_few([column.told for column in there])} to pad. Pass a dict, such as "
        f"length={{'tokens': {length}}}."
    )


def batch_and_pad(
    elements: Sequence[Element] | None = None,
    *,
    batch_size: int,
    pad_value: Any = 0,
    mask_key: str | None = "mask",
) -> Element:
    """Stack elements, and fill a short last batch up to `batch_size` rows.

    So all batches have one shape.

    Use it as `Batch(n, batch_fn=batch_and_pad(batch_size=n))`.

    Args:
        elements: at most `batch_size` dicts of leaves with equal shapes. None (default): return a
            function that takes elements and does this.
        batch_size: number of rows of every batch.
        pad_value: value in the added rows (default 0).
        mask_key: key under which the batch gets `bool[batch_size]`, True for rows with an element
            (default "mask"). None: no mask; then elements need not be dicts.

    Raises:
        ValueError: there are more elements than `batch_size`.
        BatchError: there are no elements, or they cannot be stacked; or a mask is requested, and
            elements are not dicts or already have that key.

    >>> batch = batch_and_pad([{"x": 1}, {"x": 2}], batch_size=3)
    >>> batch["x"].tolist(), batch["mask"].tolist()
    ([1, 2, 0], [True, True, False])
    """
    if elements is None:
        return functools.partial(
            batch_and_pad, batch_size=batch_size, pad_value=pad_value, mask_key=mask_key
        )
    batch = filled_up(elements, batch_size, pad_value, stack)
    return (
        batch
        if mask_key is None
        else _with_mask(batch, mask_key, np.arange(batch_size) < len(elements))
    )


def filled_up(
    elements: Sequence[Element],
    batch_size: int,
    pad_value: Any,
    make: Callable[[Sequence[Element]], Element],
) -> Element:
    """Return a batch of `batch_size` rows: `make(elements)`, with rows of `pad_value` after it.

    Args:
        elements: at most `batch_size` elements.
        batch_size: number of rows.
        pad_value: value in the added rows.
        make: function that makes a batch of the elements.

    Raises:
        ValueError: there are more elements than `batch_size`.
        BatchError: there are no elements.

    >>> filled_up([1, 2], 3, 0, stack).tolist()
    [1, 2, 0]
    """
    _check_not_empty("batch_and_pad", elements)
    if len(elements) > batch_size:
        raise ValueError(
            f"batch_and_pad was called with {len(elements)} elements, but batch_size={batch_size}. "
            "Give Batch the same size."
        )
    leaves, structure = flatten(make(elements))
    return structure.unflatten([_filled(leaf, batch_size, pad_value) for leaf in leaves])


def _with_mask(batch: Element, key: str, mask: NDArray[np.bool_]) -> Element:
    if not isinstance(batch, dict):
        raise BatchError(
            f"the mask would be added as batch[{short_repr(key)}], but a batch is "
            f"{a_kind_of(batch)}, not a dict. Pass mask_key=None, or map the elements to dicts "
            "before Batch."
        )
    if key in batch:
        raise BatchError(
            f"the mask would be added as batch[{short_repr(key)}], but elements have that key "
            "already. Pass another mask_key=, or mask_key=None."
        )
    return {**batch, key: mask}


def _filled(leaf: NDArray[Any], rows: int, value: Any) -> NDArray[Any]:
    if len(leaf) == rows:
        return leaf
    out = np.full((rows, *leaf.shape[1:]), value, dtype=leaf.dtype)
    out[: len(leaf)] = leaf
    return out
