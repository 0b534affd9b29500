"""Decode image files by OpenCV: PNG, WebP, TIFF, PNM, AVIF and others.

In: the bytes of a file, and the number of channels. Out: an array `[height, width, channels]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...common.messages import short_repr, shorten
from ...errors import ImageError
from .library import Image, opencv, with_channels
from .tiff import PlainTiff, plain_tiff, straight

AVIF = b"ftyp"
"""Bytes 4 to 7 of an AVIF file."""


def by_opencv(data: bytes, channels: int, deep: bool) -> Image:
    """Decode an image file by OpenCV to an array `[height, width, channels]`.

    Args:
        data: bytes of the file.
        channels: 1, 3 or 4.
        deep: True: keep 16 bits or floats. False: convert to uint8.

    Raises:
        ImageError: the image cannot be decoded.
    """
    tiff = plain_tiff(data)
    if tiff is not None and tiff.has_opacity:
        return _with_opacity(data, tiff, channels, deep)
    cv2 = opencv()
    is_avif = data[4:8] == AVIF
    # Of AVIF with opacity, OpenCV gives blue, green and red also where it is asked for RGB.
    colours = cv2.IMREAD_COLOR if is_avif else cv2.IMREAD_COLOR_RGB
    kind = {1: cv2.IMREAD_GRAYSCALE, 3: colours, 4: cv2.IMREAD_UNCHANGED}[channels]
    flags = (
        kind
        if channels == 4
        else kind | cv2.IMREAD_IGNORE_ORIENTATION | (cv2.IMREAD_ANYDEPTH if deep else 0)
    )
    image = _read(data if tiff is None else tiff.data, flags)
    if channels == 3 and is_avif:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    if channels == 3 and image.shape[2] == 1:  # OpenCV gives grey files of floats as they are
        image = cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)
    if channels < 4:
        return image
    # The file has grey, or blue, green and red, with opacity or without.
    codes = {1: cv2.COLOR_GRAY2RGBA, 3: cv2.COLOR_BGR2RGBA, 4: cv2.COLOR_BGRA2RGBA}
    try:
        found: Image = cv2.cvtColor(image, codes[image.shape[2]])
    except cv2.error as error:  # of integers of 32 bits
        raise undecodable(data, error) from error
    return found


def _with_opacity(data: bytes, tiff: PlainTiff, channels: int, deep: bool) -> Image:
    """Decode a TIFF image of grey or colours with opacity.

    Args:
        data: bytes of the file, only for the message of an error.
        tiff: the file with a header that OpenCV can read. Its bytes are decoded.
        channels: 1, 3 or 4.
        deep: True: keep 16 bits. False: convert to uint8.

    Raises:
        ImageError: the image cannot be decoded.
    """
    cv2 = opencv()
    image = _read(tiff.data, cv2.IMREAD_UNCHANGED)
    if image.shape[2] == 4:
        image = straight(cv2.cvtColor(image, cv2.COLOR_BGRA2RGBA), tiff.extra)
    elif channels == 4 or tiff.extra == 1:
        raise undecodable(
            data, "a grey TIFF image with opacity, which OpenCV does not read; convert it to PNG"
        )
    if not deep:
        image = as_dtype(image, "uint8")
    codes = {
        (4, 1): cv2.COLOR_RGBA2GRAY,
        (4, 3): cv2.COLOR_RGBA2RGB,
        (3, 1): cv2.COLOR_BGR2GRAY,
        (3, 3): cv2.COLOR_BGR2RGB,
        (1, 3): cv2.COLOR_GRAY2RGB,
    }
    code = codes.get((image.shape[2], channels))
    return image if code is None else with_channels(cv2.cvtColor(image, code))


def _read(data: bytes, flags: int) -> Image:
    cv2 = opencv()
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise undecodable(data, error) from error
    if image is None:
        raise undecodable(
            data, "its format is unknown, its pixels need another dtype=, or it is damaged"
        )
    return with_channels(image)


def as_dtype(image: Image, dtype: str) -> Image:
    """Convert the values of an image to "uint8", "uint16" or "float32" (0 to 1).

    Raises:
        ImageError: the image has neither this dtype nor 8 or 16 bits for each value.
    """
    if image.dtype.name == dtype:
        return image
    if image.dtype.name not in ("uint8", "uint16"):
        or_dtype = ", or pass dtype=np.float32" if image.dtype.name == "float32" else ""
        raise ImageError(
            f"the image has dtype {image.dtype}, which DecodeImage cannot turn into {dtype}. "
            f"Convert the file to 8 or 16 bits for each value{or_dtype}."
        )
    if dtype == "float32":
        return np.multiply(image, np.float32(1 / np.iinfo(image.dtype).max), dtype=np.float32)
    if dtype == "uint16":
        return np.multiply(image, np.uint16(257), dtype=np.uint16)
    return (image >> 8).astype(np.uint8)


def undecodable(data: bytes, why: Any) -> ImageError:
    """Return the error for an image file that cannot be decoded.

    Args:
        data: bytes of the file.
        why: the reason, as an error or a text.
    """
    return ImageError(
        f"{len(data)} bytes, which begin with {short_repr(data[:16])}, cannot be decoded "
        f'as an image: {shorten(why)}. Leave such records out with Filter or on_error="skip".'
    )
