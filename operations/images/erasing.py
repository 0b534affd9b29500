"""Erase a random rectangle of images and clips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..transforms import RandomMapTransform
from .library import Images, OnImages, check_fill, checked, fill_of
from .random import bounds, probability_of, random_piece


class RandomErasing(OnImages, RandomMapTransform):
    """Replace a random rectangle of an image by one value or by noise.

    All frames of a clip lose the same rectangle. Zhong et al., "Random Erasing Data Augmentation",
    AAAI 2020. If ten random rectangles in a row do not fit into the image, nothing is erased.

    Args:
        probability: probability that a rectangle is erased, default 0.5.
        scale: least and largest area of the rectangle as a share of the image, default (0.02,
            0.33).
        ratio: least and largest width / height, default (0.3, 3.3), uniform in the logarithm.
        value: the value of the erased pixels, or one value for each channel, default 0; or "random"
            for uniform noise over all values of the dtype (for floats from 0 to 1).
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.

    Raises:
        ValueError: an argument is out of range, or `value` has something else than numbers.

    >>> erase = RandomErasing(1.0, scale=(0.25, 0.25), ratio=(1, 1))
    >>> int(erase.random_map(np.ones((8, 8, 1), np.uint8), np.random.default_rng(0)).sum())
    48
    """

    def __init__(
        self,
        probability: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
        *,
        key: str = "image",
    ) -> None:
        super().__init__()
        self._probability, self._key = probability_of("probability", probability), key
        self._scale, self._ratio = bounds("scale", scale, 1.0), bounds("ratio", ratio, math.inf)
        is_noise = isinstance(value, str) and value == "random"
        self._value = value if is_noise else fill_of("value", value, ', or "random"')

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element with a rectangle of its image erased, or unchanged.

        Args:
            element: the image, or a dict with it.
            rng: generator that draws the rectangle.

        Raises:
            ImageError: the input is not an image, a dict has no such key, or `value` does not fit
                the image.
        """
        return self.with_image(element, lambda image: self._erased(image, rng))

    def _erased(self, given: Any, rng: np.random.Generator) -> Images:
        images = checked(given, "RandomErasing")
        if self._value != "random":
            check_fill(images, "value", self._value)
        if rng.random() >= self._probability:
            return images
        rows, columns = images.shape[-3:-1]
        piece = random_piece(rows, columns, self._scale, self._ratio, rng)
        if piece is None:
            return images
        top, left, height, width = piece
        found = images.copy()
        erased = found[..., top : top + height, left : left + width, :]
        erased[...] = _noise(erased, rng) if self._value == "random" else self._value
        return found


def _noise(piece: Images, rng: np.random.Generator) -> Images:
    if piece.dtype.kind in "iu":
        limits = np.iinfo(piece.dtype)
        return rng.integers(limits.min, limits.max, piece.shape, piece.dtype, endpoint=True)
    return rng.random(piece.shape)
