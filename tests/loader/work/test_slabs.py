"""Memory of batches: what is used again, what is kept, and what a batch that somebody
keeps holds.
"""

from __future__ import annotations

import numpy as np

from headrace.loader.work.slabs import ALIGNMENT, FREE_BYTES, PAGE, Slab, SlabPool, rounded
from headrace.operations.protocol import ArraySpec

IMAGES, LABELS, NAMES = (
    ArraySpec(shape, np.dtype(kind))
    for shape, kind in (((64, 9000), "u1"), ((64,), "i8"), ((64,), "i4"))
)


class Made:
    """A pool, and the sizes of the slabs that it made and has."""

    def __init__(self):
        self.sizes, self.dropped = [], []
        self.pool = SlabPool(
            self._make, lambda slab: self.dropped.append(len(slab.memory)), pooled_from=1
        )

    def _make(self, size):
        self.sizes.append(rounded(size))
        return Slab(np.empty(rounded(size), np.uint8))


def test_who_keeps_the_labels_of_batches_does_not_keep_their_images():
    """The memory of the images is used again, whatever becomes of arrays that are small beside
    them; all in their order.
    """
    made, kept = Made(), []
    for number in range(20):
        labels, images, names = made.pool.allocate([LABELS, IMAGES, NAMES])
        assert [(array.shape, array.dtype) for array in (labels, images, names)] == [
            LABELS,
            IMAGES,
            NAMES,
        ]
        labels[...], images[...], names[...] = number, 255, number + 1
        kept.append((labels, names))
    assert sum(size >= 64 * 9000 for size in made.sizes) <= 2
    assert [(int(labels.min()), int(names.max())) for labels, names in kept] == [
        (n, n + 1) for n in range(20)
    ]


def test_large_slabs_that_nobody_uses_are_given_up():
    """After many batches were kept at a time, few bytes wait to be used again."""
    made = Made()
    batch = [ArraySpec((FREE_BYTES // 4,), np.dtype("u1"))]
    held = [made.pool.allocate(batch) for _ in range(12)]
    held.clear()
    made.pool.allocate(batch)
    assert sum(made.sizes) - sum(made.dropped) <= FREE_BYTES


def test_batches_of_almost_equal_size_stand_on_the_same_memory():
    """As the packed rows of windows: one has some more than another."""
    made = Made()
    for rows in (145, 146, 143, 147, 146, 144):
        made.pool.allocate([ArraySpec((rows, 10_000), np.dtype("u1"))])
    assert made.sizes == [23 << 16]  # there are 16 sizes from 1 to 2 MiB


def test_an_array_may_fill_its_memory():
    """To the last byte of whole pages."""
    (array,) = SlabPool(pooled_from=1).allocate([ArraySpec((64, PAGE), np.dtype("u1"))])
    assert (array.nbytes, array.ctypes.data % ALIGNMENT) == (64 * PAGE, 0)
