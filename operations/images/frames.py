"""Crop, pad and normalize images and clips, without random numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from ...common.messages import short_repr
from ...common.validation import one_of, whole_number
from ...errors import ImageError
from ..transforms import MapTransform
from .library import Images, OnImages, check_fill, checked, fill_of
from .sizes import Size, size_of

Margins: TypeAlias = int | Sequence[int]

_MODES = ("constant", "edge", "reflect", "symmetric")


class CenterCrop(OnImages, MapTransform):
    """Cut the centre out of an image, or each frame of a clip `[frames, height, width, channels]`.

    An image that is smaller than the size is padded with zeros first. It cuts the same pixels as
    torchvision.

    Args:
        size: (height, width) of the result, or one integer for both.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.

    Raises:
        ValueError: a length is less than 1.
        TypeError: `size` is neither an integer nor a pair of integers.

    >>> CenterCrop(2).map(np.arange(16).reshape(4, 4, 1))[..., 0].tolist()
    [[5, 6], [9, 10]]
    """

    def __init__(self, size: Size, *, key: str = "image") -> None:
        super().__init__()
        self._size, self._key = size_of(size), key

    def map(self, element: Any) -> Any:
        """Return the element with the centre of its image.

        Raises:
            ImageError: the input is not an image, or a dict has no such key.
        """
        return self.with_image(element, self._cropped)

    def _cropped(self, given: Any) -> Images:
        images = checked(given, "CenterCrop")
        height, width = self._size
        lacking = [max(0, wanted - given) for wanted, given in zip(self._size, images.shape[-3:-1])]
        if any(lacking):
            down, across = lacking
            images = _padded(
                images, (across // 2, down // 2, (across + 1) // 2, (down + 1) // 2), "constant", 0
            )
        top, left = (
            round((given - wanted) / 2) for given, wanted in zip(images.shape[-3:-1], self._size)
        )
        return images[..., top : top + height, left : left + width, :]


class Pad(OnImages, MapTransform):
    """Pad the sides of an image, or of each frame of a clip `[frames, height, width, channels]`.

    Args:
        padding: number of pixels: one integer for all sides; (left and right, top and bottom); or
            (left, top, right, bottom), as in torchvision.
        fill: value of the new pixels, or one value for each channel. Only for `mode="constant"`.
            Default 0.
        mode: "constant" (default); "edge" repeats the last pixel; "reflect" mirrors the image
            without its last pixel; "symmetric" mirrors it with its last pixel.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.

    Raises:
        ValueError: `mode` is unknown, `padding` does not have 1, 2 or 4 numbers, one is below 0, or
            `fill` has something else than numbers.
        TypeError: a number of `padding` is not an integer.

    >>> Pad((1, 0), fill=9).map(np.zeros((1, 2, 1), np.uint8))[..., 0].tolist()
    [[9, 0, 0, 9]]
    """

    def __init__(
        self,
        padding: Margins,
        fill: float | Sequence[float] = 0,
        mode: Literal["constant", "edge", "reflect", "symmetric"] = "constant",
        *,
        key: str = "image",
    ) -> None:
        super().__init__()
        self._margins, self._key = _margins_of(padding), key
        self._fill = fill_of("fill", fill)
        self._mode = one_of("mode", mode, *_MODES)

    def map(self, element: Any) -> Any:
        """Return the element with its image padded.

        Raises:
            ImageError: the input is not an image, a dict has no such key, or `fill` does not fit
                the image.
        """
        return self.with_image(element, self._with_margins)

    def _with_margins(self, given: Any) -> Images:
        images = checked(given, "Pad")
        if self._mode == "constant":
            check_fill(images, "fill", self._fill)
        return _padded(images, self._margins, self._mode, self._fill)


def _margins_of(padding: Any) -> tuple[int, int, int, int]:
    """Return (left, top, right, bottom) of the argument `padding`.

    Raises:
        ValueError: it does not have 1, 2 or 4 numbers, or one is below 0.
        TypeError: a number is not an integer.
    """
    numbers = tuple(padding) if isinstance(padding, Iterable) else (padding,)
    if len(numbers) not in (1, 2, 4):
        raise ValueError(
            f"padding={short_repr(padding)} must have 1, 2 or 4 numbers, not {len(numbers)}. Pass "
            "one integer, (left and right, top and bottom), or (left, top, right, bottom)."
        )
    left, top, right, bottom = (
        whole_number("padding", number, 0, 1 << 20, "a number of pixels")
        for number in numbers * (4 // len(numbers))
    )
    return left, top, right, bottom


def _padded(images: Images, margins: tuple[int, int, int, int], mode: str, fill: Any) -> Images:
    left, top, right, bottom = margins
    sides = [(0, 0)] * (images.ndim - 3) + [(top, bottom), (left, right), (0, 0)]
    if mode != "constant":
        return np.pad(images, sides, mode=mode)  # type: ignore[call-overload, no-any-return]
    shape = [size + before + after for size, (before, after) in zip(images.shape, sides)]
    found = np.empty(shape, images.dtype)
    found[...] = fill
    rows, columns = images.shape[-3:-1]
    found[..., top : top + rows, left : left + columns, :] = images
    return found


class Normalize(OnImages, MapTransform):
    """Subtract a mean from each channel of an image or clip, and divide by a standard deviation.

    The result is float32.

    Values of integers are first divided by the largest one of their dtype (255 for uint8). So
    `mean` and `std` are for values from 0 to 1, as in torchvision.

    Args:
        mean: one number, or one for each channel.
        std: one number, or one for each channel; none is 0.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.

    Raises:
        ValueError: a standard deviation is 0, or a number is not finite.

    >>> Normalize(mean=0.5, std=0.5).map(np.array([[[0, 255]]], np.uint8)).tolist()
    [[[-1.0, 1.0]]]
    """

    def __init__(
        self, mean: float | Sequence[float], std: float | Sequence[float], *, key: str = "image"
    ) -> None:
        super().__init__()
        self._mean, self._std = _numbers("mean", mean), _numbers("std", std)
        self._key = key
        if 0 in self._std:
            raise ValueError(
                f"std={short_repr(std)} contains 0, and images cannot be divided by 0. Pass "
                "numbers other than 0."
            )

    def map(self, element: Any) -> Any:
        """Return the element with its image normalized.

        Raises:
            ImageError: the input is not an image, a dict has no such key, or the number of channels
                is another one.
        """
        return self.with_image(element, self._normalized)

    def _normalized(self, given: Any) -> Images:
        images = checked(given, "Normalize")
        channels = images.shape[-1]
        for name, numbers in (("mean", self._mean), ("std", self._std)):
            if len(numbers) not in (1, channels):
                raise ImageError(
                    f"the image has {channels} channels, but {name}= has {len(numbers)} numbers. "
                    "Pass one number for each channel, or one for all of them."
                )
        most = np.iinfo(images.dtype).max if images.dtype.kind in "iu" else 1
        mean, std = np.array(self._mean) * most, np.array(self._std) * most
        found = np.subtract(images, mean.astype(np.float32), dtype=np.float32)
        return np.divide(found, std.astype(np.float32), out=found)


def _numbers(name: str, given: Any) -> tuple[float, ...]:
    try:
        numbers = (
            tuple(map(float, given))
            if isinstance(given, (Sequence, np.ndarray))
            else (float(given),)
        )
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or not np.isfinite(numbers).all():
        raise ValueError(
            f"{name}={short_repr(given)} must be a finite number, or one for each channel. Pass "
            "such numbers."
        )
    return numbers
