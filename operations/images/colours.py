"""Change the colours of images at random, and blur them.

In: images `[height, width, channels]` or clips, of uint8, or of floats from 0 to 1; `GaussianBlur`
also takes floats of any size, uint16 and int16. Out: the same shape and dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...common.messages import short_repr
from ...common.validation import whole_number
from ...errors import ImageError
from ..transforms import RandomMapTransform
from .library import (
    Image,
    Images,
    OnImagesWithOpenCV,
    check_libraries,
    checked,
    on_frames,
    opencv,
    with_channels,
)

_GREY = (19595, 38470, 7471)
"""Shares of red, green and blue in grey, of 65,536 (ITU-R 601-2)."""


class ColorJitter(OnImagesWithOpenCV, RandomMapTransform):
    """Change brightness, contrast, saturation and hue of an image at random, in random order.

    All frames of a clip, `[frames, height, width, channels]`, are changed in the same way. The
    changes are those of torchvision's class of this name. Images have 1 or 3 channels, of uint8, or
    of floats from 0 to 1.

    Args:
        brightness: largest change of the factor by which values are multiplied: 0.4 means a factor
            from 0.6 to 1.4. Or the pair of the least and largest factor. Default 0: no change.
        contrast: the same for differences from the mean grey.
        saturation: the same for differences from grey.
        hue: largest turn of the hue in either direction, in turns of the colour circle, up to 0.5.
            Or the pair of the least and largest turn. Default 0.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.

    Raises:
        MissingExtraError: OpenCV or simplejpeg is not installed.
        ValueError: a number is out of range.

    >>> jitter = ColorJitter(brightness=(2, 2))
    >>> jitter.random_map(np.full((1, 1, 3), 50, np.uint8), np.random.default_rng(0)).tolist()
    [[[100, 100, 100]]]
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
        *,
        key: str = "image",
    ) -> None:
        super().__init__()
        check_libraries("ColorJitter")
        self._ranges = (
            _range("brightness", brightness, 1, 0, np.inf),
            _range("contrast", contrast, 1, 0, np.inf),
            _range("saturation", saturation, 1, 0, np.inf),
            _range("hue", hue, 0, -0.5, 0.5),
        )
        self._key = key

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element with the colours of its image changed.

        Args:
            element: the image, or a dict with it.
            rng: generator that draws the factors and their order.

        Raises:
            ImageError: the input is not an image of 1 or 3 channels, or a dict has no such key.
        """
        return self.with_image(element, lambda image: self._changed(image, rng))

    def _changed(self, given: Any, rng: np.random.Generator) -> Images:
        images = coloured(given, "ColorJitter")
        order, shares = rng.permutation(4).tolist(), rng.random(4).tolist()
        for number in order:
            low, high = self._ranges[number]
            factor = low + (high - low) * shares[number]
            if (low, high) != ((0, 0) if number == 3 else (1, 1)):
                change = _CHANGES[number]
                images = on_frames(
                    images,
                    lambda image, change=change, factor=factor: change(image, factor),  # type: ignore[misc]
                )
        return images


def _range(name: str, given: Any, centre: float, least: float, most: float) -> tuple[float, float]:
    """Return the least and largest value of an argument: a pair, or a number around `centre`."""
    is_pair = isinstance(given, Sequence) and len(given) == 2
    try:
        low, high = (
            map(float, given)
            if is_pair
            else (max(least, centre - float(given)), centre + float(given))
        )
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if least <= low <= high <= most and high < np.inf:
        return low, high
    up_to, number = ("", "0 or more") if most == np.inf else (f" ≤ {most:g}", f"from 0 to {most:g}")
    raise ValueError(
        f"{name}={short_repr(given)} is not valid. Pass a finite number, {number}, or two of them, "
        f"(least, largest), with {least:g} ≤ least ≤ largest{up_to}."
    )


def coloured(given: Any, operation: str) -> Images:
    """Return the input of an operation after a check that its values are colours.

    Raises:
        ImageError: the input is not an image or a clip of 1 or 3 channels, of uint8 or floats.
    """
    images = checked(given, operation)
    if images.shape[-1] not in (1, 3) or images.dtype not in (np.uint8, np.float32, np.float64):
        raise ImageError(
            f"{operation} takes images of 1 or 3 channels, of uint8, or of float32 or float64 from "
            f"0 to 1, not {images.dtype} with {images.shape[-1]} channels. Convert the images in a "
            "map before it."
        )
    return images


def grey_of(image: Image) -> Image:
    """Return the grey values `[height, width, 1]` of an image, with its dtype."""
    if image.shape[-1] == 1:
        return image
    shares = np.array(_GREY, np.uint32 if image.dtype == np.uint8 else image.dtype)
    grey: Image = (image * shares).sum(axis=-1, keepdims=True, dtype=shares.dtype)
    return (
        ((grey + 0x8000) >> 16).astype(np.uint8)
        if image.dtype == np.uint8
        else grey / image.dtype.type(65536)
    )


def blend(image: Image, other: Any, factor: float) -> Image:
    """Return `other + factor * (image - other)`, cut off at 0 and at 255 for uint8 or 1 for floats.

    Args:
        image: the image.
        other: an image of the same size, or one value.
        factor: 0 gives `other`, 1 gives `image`, and more than 1 exaggerates the difference.
    """
    most = 255 if image.dtype == np.uint8 else 1
    second = np.asarray(other, np.float32)
    found: Image = second + np.float32(factor) * (image.astype(np.float32) - second)
    return np.clip(found, 0, most, out=found).astype(image.dtype)


def with_brightness(image: Image, factor: float) -> Image:
    """Return the image with its values multiplied by `factor`."""
    return blend(image, 0, factor)


def with_contrast(image: Image, factor: float) -> Image:
    """Return the image with its differences from the mean grey multiplied by `factor`."""
    mean = grey_of(image).mean()
    return blend(image, int(mean + 0.5) if image.dtype == np.uint8 else mean, factor)


def with_saturation(image: Image, factor: float) -> Image:
    """Return the image with its differences from grey multiplied by `factor`."""
    return image if image.shape[-1] == 1 else blend(image, grey_of(image), factor)


def with_hue(image: Image, turn: float) -> Image:
    """Return the image with its hue turned by `turn` turns of the colour circle."""
    if image.shape[-1] == 1:
        return image
    cv2 = opencv()
    values = image.astype(np.float32) / np.float32(255 if image.dtype == np.uint8 else 1)
    hsv = cv2.cvtColor(values, cv2.COLOR_RGB2HSV)  # hue in degrees
    hsv[..., 0] = (hsv[..., 0] + np.float32(360 * turn)) % 360
    found: Image = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
    return (
        np.rint(found * 255).astype(np.uint8)
        if image.dtype == np.uint8
        else found.astype(image.dtype)
    )


_CHANGES = (with_brightness, with_contrast, with_saturation, with_hue)


class GaussianBlur(OnImagesWithOpenCV, RandomMapTransform):
    """Blur an image by a Gaussian of a random width. All frames of a clip get the same width.

    Args:
        kernel_size: number of pixels that are averaged in each direction, an odd integer, or
            (height, width).
        sigma: least and largest standard deviation in pixels, default (0.1, 2); or one number.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.

    Raises:
        MissingExtraError: OpenCV or simplejpeg is not installed.
        ValueError: `kernel_size` is even, below 1 or above 4,095; or `sigma` is not above 0, or not
            finite.

    >>> rng = np.random.default_rng(0)
    >>> GaussianBlur(3).random_map(np.full((4, 4, 3), 7, np.uint8), rng)[0, 0].tolist()
    [7, 7, 7]
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        sigma: float | Sequence[float] = (0.1, 2.0),
        *,
        key: str = "image",
    ) -> None:
        super().__init__()
        check_libraries("GaussianBlur")
        sizes = (
            tuple(kernel_size) if isinstance(kernel_size, Sequence) else (kernel_size, kernel_size)
        )
        self._size = tuple(
            whole_number("kernel_size", each, 1, 1 << 12, "an odd number of pixels")
            for each in sizes
        )
        if len(self._size) != 2 or not all(each % 2 for each in self._size):
            raise ValueError(
                f"kernel_size={short_repr(kernel_size)} is not one odd integer, or two (height, "
                "width). Pass 5, for example."
            )
        self._sigma = _range(
            "sigma", sigma if isinstance(sigma, Sequence) else (sigma, sigma), 0, 0, np.inf
        )
        if not self._sigma[0]:
            raise ValueError(
                f"sigma={short_repr(sigma)} must be above 0. Pass a number, or (least, largest), "
                "such as (0.1, 2)."
            )
        self._key = key

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element with its image blurred.

        Args:
            element: the image, or a dict with it.
            rng: generator that draws the width.

        Raises:
            ImageError: the input is not an image of uint8, uint16, int16 or floats, or a dict has
                no such key.
        """
        low, high = self._sigma
        sigma = low + (high - low) * rng.random()
        return self.with_image(element, lambda image: self._blurred(image, sigma))

    def _blurred(self, given: Any, sigma: float) -> Images:
        images = checked(given, "GaussianBlur")
        if images.dtype not in (np.uint8, np.uint16, np.int16, np.float32, np.float64):
            raise ImageError(
                "GaussianBlur takes images of uint8, uint16, int16, float32 or float64, not "
                f"{images.dtype}. Convert the images to one of these dtypes in a map before it."
            )
        cv2, (height, width) = opencv(), self._size
        size, border = (width, height), cv2.BORDER_REFLECT_101
        return on_frames(
            images,
            lambda image: with_channels(
                cv2.GaussianBlur(image, size, sigmaX=sigma, sigmaY=sigma, borderType=border)
            ),
        )
