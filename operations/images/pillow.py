"""Decode with Pillow what OpenCV does not give: palette indices, all frames, and further formats.

In: the bytes of an image file. Out: an array of indices, of all frames, or of one frame.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...errors import MissingExtraError
from .library import Image, Images, with_channels

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_ORIENTATION = 274


def check_pillow(argument: str) -> None:
    """Raise MissingExtraError if Pillow is not installed.

    `argument` is the argument of `DecodeImage` that needs it.
    """
    if find_spec("PIL") is None:
        raise MissingExtraError(
            f'DecodeImage({argument}) needs pillow: pip install "headrace[images]"'
        )


_UNSAFE = {"EPS", "WMF", "BUFR", "GRIB", "HDF5", "FITS"}
"""Formats that are left out: Pillow reads them by other programs, or they are no pictures."""


@cache
def _pillow() -> tuple[Any, list[str]]:
    """Return Pillow's module `Image`, and the names of the formats to read."""
    from PIL import Image

    Image.init()
    return Image, sorted(Image.OPEN.keys() - _UNSAFE)


def _open(data: bytes) -> Any:
    pillow, formats = _pillow()
    try:
        return pillow.open(io.BytesIO(data), formats=formats)
    except pillow.UnidentifiedImageError:  # its message has the address of the bytes
        raise ValueError("its format is unknown, or its header is damaged") from None


def indices_of(image: Any, turns: bool) -> Image:
    """Return palette indices `uint8[height, width, 1]` of a Pillow image, or values if it is grey.

    Args:
        image: the image, as Pillow opened it.
        turns: True: turn the image as its header says.

    Raises:
        ValueError: the image has colours without a palette, an alpha channel, or more than 8 bits.
    """
    if image.mode not in ("P", "L", "1"):
        raise ValueError(
            f'an image of mode {image.mode!r}, and palette="indices" needs mode P, L or 1. '
            'Pass palette="colours"'
        )
    return np.asarray(_turned(image, turns), np.uint8)[:, :, np.newaxis]


def frames_of(image: Any, turns: bool, channels: int, deep: bool, max_pixels: int) -> Images:
    """Return all frames `[frames, height, width, channels]` of a Pillow image.

    Args:
        image: the image, as Pillow opened it.
        turns: True: turn the frames as the header says.
        channels: 1, 3 or 4.
        deep: True: keep 16 bits of grey frames. False: convert them to uint8.
        max_pixels: maximum number of pixels of all frames together.

    Raises:
        ValueError: the frames have several sizes, or more than `max_pixels` pixels together.
    """
    count, frames = getattr(image, "n_frames", 1), []
    if count * image.width * image.height > max_pixels:
        size = f"{count} frames of {image.height} × {image.width} pixels"
        raise ValueError(f"it has {size}, more than max_pixels={max_pixels}")
    for number in range(count):
        image.seek(number)
        frames.append(_frame(_turned(image, turns), channels, deep))
        if frames[-1].shape != frames[0].shape:
            raise ValueError(
                f"its frames have different shapes, {frames[0].shape} and {frames[-1].shape}"
            )
    return np.stack(frames)


def _frame(image: Any, channels: int, deep: bool) -> Image:
    if not image.mode.startswith("I;16"):
        return with_channels(np.asarray(image.convert(_MODES[channels])))
    grey = np.asarray(image).astype(np.uint16)[:, :, np.newaxis]
    grey = grey if deep else (grey >> 8).astype(np.uint8)
    if channels == 1:
        return grey
    opacity = np.full_like(grey, np.iinfo(grey.dtype).max)
    return np.concatenate([grey, grey, grey, *([opacity] if channels == 4 else [])], axis=2)


def _turned(image: Any, turns: bool) -> Any:
    """Return the current frame of a Pillow image, turned as its header says if `turns` is True."""
    from PIL import ImageOps

    if turns:
        return ImageOps.exif_transpose(image)
    image.getexif()[_ORIENTATION] = 1
    if hasattr(image, "tag_v2"):  # Pillow turns a TIFF image when it loads it
        image.tag_v2[_ORIENTATION] = 1
    return image


def pillow_orientation(data: bytes) -> int:
    """Return the orientation in the header of an image file, as Pillow finds it.

    It is from 1 to 8, and 1 if there is none.
    """
    try:
        with _open(data) as image:
            found = image.getexif().get(_ORIENTATION, 1)
            return found if found in range(1, 9) else 1
    except Exception:  # the decoder names what is wrong with the file
        return 1


def pillow_size(data: bytes) -> tuple[int, int]:
    """Return height and width from the header of an image file, as Pillow finds them.

    They are (0, 0) if it cannot read the header.
    """
    try:
        with _open(data) as image:
            return image.height, image.width
    except Exception:  # the decoder names what is wrong with the file
        return 0, 0


def pixels_of(image: Any, turns: bool, channels: int) -> Image:
    """Return the first frame `uint8[height, width, channels]` of a Pillow image.

    Args:
        image: the image, as Pillow opened it.
        turns: True: turn the image as its header says.
        channels: 1, 3 or 4.

    Raises:
        ValueError: the image is grey with more than 8 bits, or of floats. OpenCV reads these.
    """
    if image.mode.startswith(("I", "F")):
        raise ValueError(
            f"the image has mode {image.mode!r}, which is not one of 8 bits for each value"
        )
    return _frame(_turned(image, turns), channels, deep=False)


def opened(data: bytes, use: Callable[[Any, bool], Images], turns: bool, max_pixels: int) -> Images:
    """Return `use(image, turns)` for the Pillow image of a file.

    Only its header has been read before `use`.

    Args:
        data: bytes of the file.
        use: function that takes the image and `turns`.
        turns: True: turn the image as its header says.
        max_pixels: maximum height × width.

    Raises:
        ValueError: the image cannot be decoded, or has more than `max_pixels` pixels.
    """
    try:
        with _open(data) as image:
            if image.width * image.height > max_pixels:
                raise ValueError(
                    f"it has {image.height} × {image.width} pixels, more than "
                    f"max_pixels={max_pixels}"
                )
            return use(image, turns)
    except ValueError:
        raise
    except Exception as error:  # Pillow's readers raise many kinds of errors for damaged files
        raise ValueError(f"{type(error).__name__}: {error}") from error
