"""Ready-made `batch_fn`s for elements that cannot simply be stacked.

In: the list of a batch's elements. Out: the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import whole_number
from ..errors import BatchError
from .protocol import Element, allocate_plainly
from .stacking import Stack, as_array
from .trees import flatten, leaf_names


def stack(elements: Sequence[Element]) -> Element:
    """Stack elements of equal structure and shapes, as `Batch` does without a `batch_fn`.

    >>> stack([{"x": 1}, {"x": 2}])
    {'x': array([1, 2])}
    """
    rows = Stack(len(elements), allocate_plainly)
    rows.add(0, elements[:1])
    rows.add(1, elements[1:])
    return rows.finish(len(elements))


class pad_batch:  # noqa: N801 (used like a function: Batch(8, batch_fn=pad_batch(length=512)))
    """Pads leaves of unequal length, then stacks.

    Leaves with a first axis are padded at its end, to the longest of the batch or to `length`; further axes must agree.
    Scalars are stacked as they are.

    Args:
        length: None (default) pads to the longest of the batch; an int pads every leaf with an axis to that length, so that
            all batches have one shape; a dict by key of the elements (`{"tokens": 512}`) does so for these leaves, and pads the
            others to the longest. A longer leaf is an error.
        value: what to pad with (default 0).

    Raises:
        BatchError: a leaf is longer than `length`, or leaves differ in another axis.

    >>> import numpy as np
    >>> pad_batch(value=-1)([np.array([1, 2, 3]), np.array([4])]).tolist()
    [[1, 2, 3], [4, -1, -1]]
    """

    def __init__(self, length: int | Mapping[Any, int] | None = None, value: Any = 0) -> None:
        lengths = length if isinstance(length, Mapping) else {} if length is None else {None: length}
        remedy = "an int, a dict of ints by key, or None for the longest"
        self.lengths = {key: whole_number("length", one, 0, None, remedy) for key, one in lengths.items()}
        self.value = value

    def __call__(self, elements: Sequence[Element]) -> Element:
        flat = [flatten(element) for element in elements]
        structure = flat[0][1]
        if any(other != structure for _, other in flat):
            return stack(elements)  # which says how they differ
        names, rows = leaf_names(structure), [[as_array(leaf) for leaf in leaves] for leaves, _ in flat]
        columns = list(zip(*rows))
        lengths = [self._length(name, column) for name, column in zip(names, columns)]
        padded = [
            structure.unflatten([self._padded(leaf, length) for leaf, length in zip(row, lengths)]) for row in rows
        ]
        return stack(padded)

    def _length(self, name: str, column: Sequence[NDArray[Any]]) -> int:
        longest = max(len(leaf) if leaf.ndim else 0 for leaf in column)
        wanted = [length for key, length in self.lengths.items() if key is None or name.startswith(f"[{key!r}]")]
        if not wanted:
            return longest
        if longest > wanted[0]:
            raise BatchError(
                f"leaf {name or 'of the element'} has length {longest}, over pad_batch(length={wanted[0]}); cut it "
                "before Batch or raise length."
            )
        return wanted[0]

    def _padded(self, leaf: NDArray[Any], length: int) -> Any:
        if leaf.ndim == 0:
            return leaf[()]
        out = np.full((length, *leaf.shape[1:]), self.value, dtype=leaf.dtype)
        out[: len(leaf)] = leaf
        return out


def batch_and_pad(
    elements: Sequence[Element], *, batch_size: int, pad_value: Any = 0, mask_key: str | None = "mask"
) -> Element:
    """Stack elements and fill a short last batch up to `batch_size`, so that every batch has one shape.

    Use it as `Batch(n, batch_fn=functools.partial(batch_and_pad, batch_size=n))`.

    Args:
        elements: at most `batch_size` dicts of leaves with equal shapes.
        batch_size: rows of every batch.
        pad_value: fills the missing rows (default 0).
        mask_key: name under which the batch gets a `bool[batch_size]`, True for real rows (default "mask"). None
            leaves it out, and elements then need not be dicts.

    Raises:
        ValueError: more elements than `batch_size`, or a mask is wanted and elements are no dicts without that key.

    >>> batch = batch_and_pad([{"x": 1}, {"x": 2}], batch_size=3)
    >>> batch["x"].tolist(), batch["mask"].tolist()
    ([1, 2, 0], [True, True, False])
    """
    count = len(elements)
    if count > batch_size:
        raise ValueError(f"batch_and_pad got {count} elements for batch_size={batch_size}; give Batch the same size.")
    leaves, structure = flatten(stack(elements))
    batch = structure.unflatten([_filled(leaf, batch_size, pad_value) for leaf in leaves])
    if mask_key is None:
        return batch
    if not isinstance(batch, dict) or mask_key in batch:
        raise ValueError(
            f"batch_and_pad adds the mask as element[{mask_key!r}], but elements are {type(batch).__name__}s"
            f"{' with that key' if isinstance(batch, dict) else ''}; pass mask_key=… or mask_key=None."
        )
    return {**batch, mask_key: np.arange(batch_size) < count}


def _filled(leaf: NDArray[Any], rows: int, value: Any) -> NDArray[Any]:
    if len(leaf) == rows:
        return leaf
    out = np.full((rows, *leaf.shape[1:]), value, dtype=leaf.dtype)
    out[: len(leaf)] = leaf
    return out
