"""Resize images and clips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ...common.messages import short_repr, shorten
from ...common.validation import one_of, whole_number
from ...errors import ImageError
from ..transforms import MapTransform
from .library import (
    Image,
    OnImagesWithOpenCV,
    check_libraries,
    checked,
    on_frames,
    opencv,
    with_channels,
)

Size: TypeAlias = int | Sequence[int]

INTERPOLATIONS = ("auto", "nearest", "linear", "cubic", "area", "lanczos")

COMPUTED = tuple(map(np.dtype, ("uint8", "uint16", "int16", "float32", "float64")))
"""Dtypes of images with which OpenCV computes."""

MOST_CHANNELS = 128
"""Number of channels that OpenCV accepts at most."""

MOVED = {dtype.itemsize: dtype for dtype in COMPUTED}
"""For each number of bytes, a dtype of pixels that OpenCV moves without computing with them."""


def size_of(size: Any) -> tuple[int, int]:
    """Return `size` as (height, width). One integer means both.

    Raises:
        TypeError: `size` is neither an integer nor a pair of integers.
        ValueError: a length is less than 1.

    >>> size_of(224), size_of([3, 4])
    ((224, 224), (3, 4))
    """
    pair = (
        tuple(size)
        if isinstance(size, Sequence) and not isinstance(size, (str, bytes))
        else (size, size)
    )
    if len(pair) != 2:
        raise TypeError(
            f"size={short_repr(size)} is not a size. Pass (height, width), or one integer for both."
        )
    height, width = (
        whole_number("size", side, 1, 1 << 20, "(height, width), such as (224, 224)")
        for side in pair
    )
    return height, width


def resized(image: Image, size: tuple[int, int], interpolation: str = "auto") -> Image:
    """Return an image resized to (height, width), with its dtype; unchanged if it has this size.

    Args:
        image: array of a dtype in `COMPUTED`; for "nearest", of any dtype whose numbers have 1, 2,
            4 or 8 bytes.
        size: (height, width).
        interpolation: one of `INTERPOLATIONS`. "auto": halve the image as often as possible by
            averaging pixels, and then interpolate linearly. Each halving leaves out the last row or
            column of an odd number; all others count.

    Raises:
        ImageError: the image has another dtype, or too many channels for OpenCV.
    """
    if image.shape[:2] == size:
        return image
    # OpenCV ignores the byte order, and turns int64 into int32. The bytes of pixels can be moved as
    # any numbers.
    dtype = MOVED.get(image.dtype.itemsize) if interpolation == "nearest" else image.dtype
    if dtype is None or image.dtype.hasobject or dtype not in COMPUTED:
        raise ImageError(
            f"interpolation={short_repr(interpolation)} cannot resize an image of dtype "
            f"{image.dtype}. Convert it first, such as image.astype(np.float32); "
            f"dtypes that work are {', '.join(map(str, COMPUTED))}. "
            'Images of labels, of most other dtypes too, are resized by interpolation="nearest".'
        )
    try:
        return _resized(image.view(dtype), size, interpolation).view(image.dtype)
    except opencv().error as error:
        raise ImageError(
            f"OpenCV cannot resize an image of shape {image.shape} and dtype {image.dtype} to "
            f"{size}: {shorten(error)}. Pass images of at most {MOST_CHANNELS} channels, and a "
            "size whose pixels fit into memory."
        ) from error


def _resized(image: Image, size: tuple[int, int], interpolation: str) -> Image:
    cv2, (height, width) = opencv(), size
    if interpolation == "auto":
        while (down := 1 + (image.shape[0] >= 2 * height)) * (
            across := 1 + (image.shape[1] >= 2 * width)
        ) > 1:
            rows, columns = image.shape[0] // down, image.shape[1] // across
            # Exactly a half, without the last row or column of an odd number: OpenCV is ten times
            # as fast then.
            even = image[: down * rows, : across * columns]
            image = with_channels(cv2.resize(even, (columns, rows), interpolation=cv2.INTER_AREA))
        interpolation = "linear"
    name = "LANCZOS4" if interpolation == "lanczos" else interpolation.upper()
    return with_channels(
        cv2.resize(image, (width, height), interpolation=getattr(cv2, f"INTER_{name}"))
    )


class Resize(OnImagesWithOpenCV, MapTransform):
    """Resize images to one size, or each frame of a clip `[frames, height, width, channels]`.

    Args:
        size: (height, width), or one integer for both.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.
        interpolation: "auto" (default), "nearest", "linear", "cubic", "area" or "lanczos". "auto"
            halves an image as often as possible by averaging pixels, and then interpolates
            linearly, at nearly the speed of "linear". Each halving leaves out the last row or
            column of an odd number; all others count.

    Raises:
        MissingExtraError: OpenCV or simplejpeg is not installed.
        ValueError: `interpolation` is unknown, or a length is less than 1.
        TypeError: `size` is neither an integer nor a pair of integers.

    >>> import numpy as np
    >>> Resize((2, 3)).map(np.zeros((8, 9, 3), np.uint8)).shape
    (2, 3, 3)
    """

    def __init__(self, size: Size, *, key: str = "image", interpolation: str = "auto") -> None:
        super().__init__()
        check_libraries("Resize")
        self._size, self._key = size_of(size), key
        self._interpolation = one_of("interpolation", interpolation, *INTERPOLATIONS)

    def map(self, element: Any) -> Any:
        """Return the element with its image resized.

        Raises:
            ImageError: the input is not an image, it has a dtype that OpenCV cannot resize, such as
                int64, or a dict has no such key.
        """
        return self.with_image(element, self._resized)

    def _resized(self, image: Any) -> Image:
        return on_frames(
            checked(image, "Resize"), lambda frame: resized(frame, self._size, self._interpolation)
        )
