"""Crop and flip images and clips at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...common.messages import short_repr
from ...common.validation import NUMBERS, one_of
from ..transforms import RandomMapTransform
from .library import (
    Images,
    OnImagesWithOpenCV,
    check_libraries,
    checked,
    on_frames,
    opencv,
    with_channels,
)
from .sizes import COMPUTED, INTERPOLATIONS, MOST_CHANNELS, Size, resized, size_of

_TRIES = 10


class RandomResizedCrop(OnImagesWithOpenCV, RandomMapTransform):
    """Cut a random piece out of an image (random area and aspect ratio), and resize it to one size.

    All frames of a clip, `[frames, height, width, channels]`, get the same piece.

    Args:
        size: (height, width) of the result, or one integer for both.
        scale: minimum and maximum area of the piece as a share of the image, default (0.08, 1).
        ratio: minimum and maximum width / height of the piece, default (3 / 4, 4 / 3), uniform in
            the logarithm.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.
        interpolation: how pixels are computed: "auto" (default), "nearest", "linear", "cubic",
            "area" or "lanczos"; see `Resize`.

    If ten random pieces in a row do not fit into the image, the piece is the largest centred one
    with a permitted ratio. Szegedy et al., "Going deeper with convolutions", CVPR 2015.

    Raises:
        MissingExtraError: OpenCV or simplejpeg is not installed.
        ValueError: an argument is out of range.
        TypeError: `size` is neither an integer nor a pair of integers.

    >>> rng = np.random.default_rng(0)
    >>> RandomResizedCrop(2).random_map(np.zeros((8, 9, 3), np.uint8), rng).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        size: Size,
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        key: str = "image",
        interpolation: str = "auto",
    ) -> None:
        super().__init__()
        check_libraries("RandomResizedCrop")
        self._size, self._key = size_of(size), key
        self._scale, self._ratio = bounds("scale", scale, 1.0), bounds("ratio", ratio, math.inf)
        self._interpolation = one_of("interpolation", interpolation, *INTERPOLATIONS)

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element with its image replaced by a resized piece of it.

        Args:
            element: the image, or a dict with it.
            rng: generator that draws the piece.

        Raises:
            ImageError: the input is not an image, it has a dtype that OpenCV cannot resize, such as
                int64, or a dict has no such key.
        """
        return self.with_image(element, lambda image: self._cropped(image, rng))

    def _cropped(self, given: Any, rng: np.random.Generator) -> Images:
        images = checked(given, "RandomResizedCrop")
        rows, columns = images.shape[-3:-1]
        piece = random_piece(rows, columns, self._scale, self._ratio, rng) or _centred_piece(
            rows, columns, self._ratio
        )
        top, left, height, width = piece
        cut = images[..., top : top + height, left : left + width, :]
        return on_frames(cut, lambda frame: resized(frame, self._size, self._interpolation))


def random_piece(
    rows: int,
    columns: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[int, int, int, int] | None:
    """Return a random piece: top, left, height and width, in pixels.

    Return None if ten pieces in a row do not fit.

    Args:
        rows: height of the image.
        columns: width of the image.
        scale: minimum and maximum share of the area.
        ratio: minimum and maximum width / height.
        rng: generator.
    """
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(_TRIES):
        area, shape, down, right = rng.random(4).tolist()
        pixels = rows * columns * (scale[0] + (scale[1] - scale[0]) * area)
        wide = math.exp(low + (high - low) * shape)
        height, width = round(math.sqrt(pixels / wide)), round(math.sqrt(pixels * wide))
        if 0 < height <= rows and 0 < width <= columns:
            return (
                int(down * (rows - height + 1)),
                int(right * (columns - width + 1)),
                height,
                width,
            )
    return None


def _centred_piece(
    rows: int, columns: int, ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Return the largest centred piece with a ratio within bounds.

    The result is top, left, height and width, in pixels.
    """
    height = min(rows, max(1, round(columns / ratio[0])))
    width = min(columns, max(1, round(rows * ratio[1])))
    return (rows - height) // 2, (columns - width) // 2, height, width


class RandomFlip(OnImagesWithOpenCV, RandomMapTransform):
    """Flip images at random.

    Either all frames of a clip, `[frames, height, width, channels]`, are flipped, or none.

    Args:
        horizontal: probability that left and right are exchanged, default 0.5.
        vertical: probability that top and bottom are exchanged, default 0.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.

    Raises:
        MissingExtraError: OpenCV or simplejpeg is not installed.
        ValueError: a probability is not in [0, 1].

    >>> image = np.arange(6, dtype=np.uint8).reshape(1, 3, 2)
    >>> RandomFlip(1.0).random_map(image, np.random.default_rng(0)).tolist()
    [[[4, 5], [2, 3], [0, 1]]]
    """

    def __init__(
        self, horizontal: float = 0.5, vertical: float = 0.0, *, key: str = "image"
    ) -> None:
        super().__init__()
        check_libraries("RandomFlip")
        self._horizontal = probability_of("horizontal", horizontal)
        self._vertical = probability_of("vertical", vertical)
        self._key = key

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element with its image flipped or unchanged.

        Args:
            element: the image, or a dict with it.
            rng: generator that decides.

        Raises:
            ImageError: the input is not an image, or a dict has no such key.
        """
        return self.with_image(element, lambda image: self._flipped(image, rng))

    def _flipped(self, given: Any, rng: np.random.Generator) -> Images:
        images = checked(given, "RandomFlip")
        across, down = rng.random(2).tolist()
        horizontal, vertical = across < self._horizontal, down < self._vertical
        if not horizontal and not vertical:
            return images
        if images.dtype not in COMPUTED or images.shape[-1] > MOST_CHANNELS:
            return np.ascontiguousarray(images[..., :: 1 - 2 * vertical, :: 1 - 2 * horizontal, :])
        axes = -1 if horizontal and vertical else int(horizontal)
        return on_frames(images, lambda image: with_channels(opencv().flip(image, axes)))


def bounds(name: str, pair: Any, limit: float) -> tuple[float, float]:
    """Return an argument that is a pair (least, largest), as floats.

    Raise ValueError if it is not such a pair, of numbers up to `limit`.

    Args:
        name: name of the argument.
        pair: its value.
        limit: largest value.
    """
    is_pair = (
        isinstance(pair, (tuple, list))
        and len(pair) == 2
        and all(isinstance(bound, NUMBERS) for bound in pair)
    )
    low, high = pair if is_pair else (0.0, 0.0)
    if 0 < low <= high <= limit and high < math.inf:
        return float(low), float(high)
    most = f" ≤ {limit:g}" if limit < math.inf else ""
    raise ValueError(
        f"{name}={short_repr(pair)} is not valid. Pass two numbers, (least, largest), with 0 < "
        f"least ≤ largest{most}."
    )


def probability_of(name: str, value: Any) -> float:
    """Return an argument that is a probability, as a float.

    Raise ValueError if it is not a number from 0 to 1.
    """
    if isinstance(value, NUMBERS) and 0 <= value <= 1:
        return float(value)
    raise ValueError(f"{name}={short_repr(value)} is not a probability. Pass a number from 0 to 1.")
