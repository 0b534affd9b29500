"""Data of the demo: images of handwritten digits, or drawn ones without scikit-learn."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

_GLYPHS = "69f999f 6269227 6924896 e16119e 99f1111 f8e119e 68e9996 f124444 6969996 6997116"
"""The digits 0 to 9, 4 pixels wide and 7 high: a letter for each row, a bit for each pixel."""
_DRAWN = 1797


def load_digits() -> tuple[dict[str, Any], str]:
    """Return the data of the demo, and a text that says what they are, e.g. "handwritten digits".

    The data are columns "image" (8 × 8 pixels from 0 to 1), "label" and "number" (the index of the
    record). The digits are handwritten, or drawn by this module if scikit-learn is not installed.
    """
    try:
        load = import_module("sklearn.datasets").load_digits
    except ImportError:
        images, labels, kind = *_drawn(), "drawn digits"
    else:
        images, labels, kind = load().images / 16, load().target, "handwritten digits"
    numbers = np.arange(len(labels), dtype=np.int32)
    return {
        "image": images.astype(np.float32),
        "label": labels.astype(np.int32),
        "number": numbers,
    }, kind


def _drawn() -> tuple[np.ndarray, np.ndarray]:
    """Draw digits at random places and strengths, with noise.

    Return the images `[n, 8, 8]` and their labels.
    """
    rng = np.random.default_rng(0)
    rows = [[int(letter, 16) for letter in glyph] for glyph in _GLYPHS.split()]
    glyphs = np.array(rows)[:, :, None] >> np.arange(3, -1, -1) & 1
    labels = rng.integers(10, size=_DRAWN)
    images = rng.uniform(0, 0.3, (_DRAWN, 8, 8))
    for image, label in zip(images, labels):
        row, column = rng.integers((0, 1), (2, 3))
        image[row : row + 7, column : column + 4] += glyphs[label] * rng.uniform(0.4, 0.7)
    return images, labels
