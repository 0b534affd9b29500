"""Apply some of fourteen changes to an image, drawn at random.

In: images `uint8[height, width, channels]` or clips. Out: the same shape and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...common.validation import whole_number
from ...errors import ImageError
from ..transforms import RandomMapTransform
from .colours import blend, coloured, with_brightness, with_contrast, with_saturation
from .library import (
    Image,
    OnImagesWithOpenCV,
    check_fill,
    check_libraries,
    fill_of,
    on_frames,
    opencv,
    with_channels,
)


class RandAugment(OnImagesWithOpenCV, RandomMapTransform):
    """Apply some of 14 changes of shape and colour to an image, drawn at random with one strength.

    Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space",
    NeurIPS 2020. The changes and their strengths are those of torchvision. All frames of a clip are
    changed in the same way. Images are of uint8, with 1 or 3 channels.

    Args:
        num_ops: number of changes for each image, default 2. The same change may come twice.
        magnitude: strength of the changes, an integer from 0 to `num_magnitude_bins` - 1, default
            9.
        num_magnitude_bins: number of strengths, default 31.
        fill: value of pixels that come from outside of the image, or one value for each channel,
            default 0.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.

    Raises:
        MissingExtraError: OpenCV or simplejpeg is not installed.
        ValueError: a number is out of range, or `fill` has something else than numbers.

    >>> RandAugment().random_map(np.zeros((8, 9, 3), np.uint8), np.random.default_rng(0)).shape
    (8, 9, 3)
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        fill: float | Sequence[float] = 0,
        *,
        key: str = "image",
    ) -> None:
        super().__init__()
        check_libraries("RandAugment")
        self._count = whole_number("num_ops", num_ops, 0, 1000, "a number of changes, such as 2")
        self._bins = whole_number(
            "num_magnitude_bins",
            num_magnitude_bins,
            2,
            1 << 20,
            "a number of strengths, such as 31",
        )
        self._magnitude = whole_number(
            "magnitude", magnitude, 0, self._bins - 1, "less than num_magnitude_bins"
        )
        self._fill, self._key = fill_of("fill", fill), key

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element with its image changed.

        Args:
            element: the image, or a dict with it.
            rng: generator that draws the changes and their directions.

        Raises:
            ImageError: the input is not an image of uint8 with 1 or 3 channels, a dict has no such
                key, or `fill` does not fit.
        """
        return self.with_image(element, lambda image: self._changed(image, rng))

    def _changed(self, given: Any, rng: np.random.Generator) -> Any:
        images = coloured(given, "RandAugment")
        if images.dtype != np.uint8:
            raise ImageError(
                f"RandAugment takes images of uint8, not {images.dtype}. Use it before Normalize, "
                "or convert the images to uint8 in a map before it."
            )
        check_fill(images, "fill", self._fill)
        names, strength = list(CHANGES), self._magnitude / (self._bins - 1)
        for number, sign in zip(
            rng.integers(len(names), size=self._count), rng.integers(2, size=self._count)
        ):
            change, most, is_signed = CHANGES[names[number]]
            value = strength * most * (1 - 2 * int(sign) if is_signed else 1)
            images = on_frames(images, change, value, self._fill)
        return images


class ImageChange(NamedTuple):
    """One of the changes.

    Attributes:
        function: function of an image, a value and the fill, which returns the changed image.
        most: value at the largest strength.
        is_signed: True if half of the values are negative.
    """

    function: Callable[[Image, float, Any], Image]
    most: float
    is_signed: bool


def _warped(image: Image, matrix: Sequence[Sequence[float]], fill: Any) -> Image:
    """Return an image whose pixel (x, y) is that of `image` at `matrix @ (x, y, 1)`.

    Coordinates refer to the centres of pixels.
    """
    cv2 = opencv()
    placed = np.array(matrix, np.float64)
    # a pixel's centre is at a half, in OpenCV at 0
    placed[:, 2] += placed[:, :2].sum(axis=1) / 2 - 0.5
    numbers = fill if isinstance(fill, tuple) else (fill,)
    flags, fill = (
        cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
        numbers * 3 if len(numbers) == 1 else numbers,
    )
    height, width = image.shape[:2]
    return with_channels(
        cv2.warpAffine(image, placed, (width, height), flags=flags, borderValue=fill)
    )


def shear_x(image: Image, value: float, fill: Any) -> Image:
    """Return the image with each row moved left by `value` times its distance from the top."""
    return _warped(image, [[1, value, 0], [0, 1, 0]], fill)


def shear_y(image: Image, value: float, fill: Any) -> Image:
    """Return the image with each column moved up by `value` times its distance from the left."""
    return _warped(image, [[1, 0, 0], [value, 1, 0]], fill)


def translate_x(image: Image, value: float, fill: Any) -> Image:
    """Return the image moved to the right by the share `value` of its width."""
    return _warped(image, [[1, 0, -int(value * image.shape[1])], [0, 1, 0]], fill)


def translate_y(image: Image, value: float, fill: Any) -> Image:
    """Return the image moved down by the share `value` of its height."""
    return _warped(image, [[1, 0, 0], [0, 1, -int(value * image.shape[0])]], fill)


def rotate(image: Image, value: float, fill: Any) -> Image:
    """Return the image turned counter-clockwise around its centre by `value` degrees."""
    cosine, sine = np.cos(np.deg2rad(value)), np.sin(np.deg2rad(value))
    y, x = image.shape[0] / 2, image.shape[1] / 2
    return _warped(
        image,
        [[cosine, -sine, x - cosine * x + sine * y], [sine, cosine, y - sine * x - cosine * y]],
        fill,
    )


def sharpness(image: Image, factor: float) -> Image:
    """Return the image with its differences from a smoothed image multiplied by `factor`.

    Pixels at the sides are kept.
    """
    kernel = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
    smooth = with_channels(opencv().filter2D(image, -1, kernel))
    smooth[[0, -1]], smooth[:, [0, -1]] = image[[0, -1]], image[:, [0, -1]]
    return blend(image, smooth, factor)


def posterize(image: Image, bits: int) -> Image:
    """Return the image with only the highest `bits` bits of each value."""
    return image & np.uint8(256 - (1 << (8 - bits)))


def solarize(image: Image, threshold: float) -> Image:
    """Return the image with values from `threshold` on inverted."""
    return np.where(image >= threshold, 255 - image, image)


def _looked_up(image: Image, table_of: Callable[[Image], np.ndarray[Any, Any]]) -> Image:
    channels = [
        table_of(image[..., number])[image[..., number]] for number in range(image.shape[-1])
    ]
    return np.stack(channels, axis=-1).astype(np.uint8)


def autocontrast(image: Image) -> Image:
    """Return the image with each channel stretched to the values from 0 to 255.

    A channel whose values are all equal is not changed.
    """

    def table(channel: Image) -> np.ndarray[Any, Any]:
        low, high = int(channel.min()), int(channel.max())
        values = np.arange(256)
        if low == high:
            return values
        stretched = values * (255 / (high - low)) - low * (255 / (high - low))
        found: np.ndarray[Any, Any] = np.clip(stretched, 0, 255).astype(np.uint8)
        return found

    return _looked_up(image, table)


def equalize(image: Image) -> Image:
    """Return the image with each channel's values spread so that they are equally frequent."""

    def table(channel: Image) -> np.ndarray[Any, Any]:
        counts = np.bincount(channel.ravel(), minlength=256)
        filled = counts[counts > 0]
        step = int(filled.sum() - filled[-1]) // 255
        if len(filled) < 2 or not step:
            return np.arange(256)
        before = np.concatenate([[0], np.cumsum(counts)[:-1]])
        found: np.ndarray[Any, Any] = np.minimum((step // 2 + before) // step, 255).astype(np.uint8)
        return found

    return _looked_up(image, table)


CHANGES = {
    "identity": ImageChange(lambda image, value, fill: image, 0, False),
    "shear x": ImageChange(shear_x, 0.3, True),
    "shear y": ImageChange(shear_y, 0.3, True),
    "translate x": ImageChange(translate_x, 150 / 331, True),
    "translate y": ImageChange(translate_y, 150 / 331, True),
    "rotate": ImageChange(rotate, 30, True),
    "brightness": ImageChange(
        lambda image, value, fill: with_brightness(image, 1 + value), 0.9, True
    ),
    "saturation": ImageChange(
        lambda image, value, fill: with_saturation(image, 1 + value), 0.9, True
    ),
    "contrast": ImageChange(lambda image, value, fill: with_contrast(image, 1 + value), 0.9, True),
    "sharpness": ImageChange(lambda image, value, fill: sharpness(image, 1 + value), 0.9, True),
    "posterize": ImageChange(
        lambda image, value, fill: posterize(image, 8 - round(value)), 4, False
    ),
    "solarize": ImageChange(lambda image, value, fill: solarize(image, 255 - value), 255, False),
    "autocontrast": ImageChange(lambda image, value, fill: autocontrast(image), 0, False),
    "equalize": ImageChange(lambda image, value, fill: equalize(image), 0, False),
}
"""The changes, by name."""
