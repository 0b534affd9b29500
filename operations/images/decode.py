"""Decode the bytes of an image file to an array `[height, width, channels]`.

JPEG files are decoded by libjpeg-turbo, all others by OpenCV. If a JPEG image will be made smaller,
it is decoded at some eighths of its size. That takes less time, and still uses every pixel.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import short_repr, shorten
from ...common.validation import whole_number
from ...errors import ImageError
from ...files.opened import open_file
from ...files.paths import text_of
from ..transforms import MapTransform
from .library import Image, Images, OnImages, check_libraries, opencv, with_channels
from .sizes import Size, resized, size_of
from .tiff import PlainTiff, plain_tiff, straight

_JPEG, _PNG = b"\xff\xd8", b"\x89PNG\r\n\x1a\n"
_AVIF = b"ftyp"
"""Bytes 4 to 7 of an AVIF file."""

_COLOURS = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_DTYPES = ("uint8", "uint16", "float32")
MAX_PIXELS = 1 << 28


_PATHS, _BYTES = (str, os.PathLike), (bytes, bytearray, memoryview)


class DecodeImage(OnImages, MapTransform):
    """Decode the bytes or the path of a JPEG, PNG or other image file to an array `[height, width, channels]`.

    A list, tuple or array of these, i.e. the frames of a clip, becomes an array `[frames, height, width, channels]`.

    Bytes are `bytes`, other bytes-like objects, or an array `uint8[size]`. A path is a string (also a URL in a store) or a
    `pathlib.Path`. The thread that decodes a file also reads it.

    The channels are red, green, blue; opacity does not change them. The orientation in the header of a file (EXIF or TIFF)
    is ignored.

    Args:
        size: (height, width) of all results, or one integer for both. JPEGs are decoded at a smaller scale if that
            saves work. Default: the size of the image in the file.
        channels: 3 (default: red, green, blue), 1 (grey) or 4 (with opacity), whatever the file has.
        dtype: `np.uint8` (default); `np.uint16` (values of files with 16 bits; values of other files times 257); or
            `np.float32`, 0 to 1.
        key: key of the image in elements that are dicts, default "image". Other elements are images themselves.
        fast: True: decode JPEGs by faster arithmetic, up to 1.3 times as fast. Some values differ by a few steps, more at
            colour edges. Default False: the values of libjpeg, as Pillow returns them.
        max_pixels: maximum height × width, checked in the header of a JPEG or PNG before it is decoded. Default 2^28
            (16,384 × 16,384). It protects against small files that would fill the memory. OpenCV rejects other files of more
            than 2^30 pixels.

    Raises:
        MissingExtraError: OpenCV or simplejpeg is not installed.
        ValueError: an argument is out of range.
        TypeError: `size` is neither an integer nor a pair of integers; or `channels` or `max_pixels` is not an integer.

    >>> import cv2
    >>> data = cv2.imencode(".png", np.zeros((4, 6, 3), np.uint8))[1].tobytes()
    >>> DecodeImage(channels=1).map({"image": data, "label": 7})["image"].shape
    (4, 6, 1)
    """

    _max_pixels: int = MAX_PIXELS

    def __init__(
        self,
        size: Size | None = None,
        *,
        channels: int = 3,
        dtype: npt.DTypeLike = np.uint8,
        key: str = "image",
        fast: bool = False,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        super().__init__()
        check_libraries("DecodeImage")
        self._size = None if size is None else size_of(size)
        self._channels = whole_number("channels", channels, 1, 4, "1, 3 or 4")
        self._dtype = _name_of(dtype)
        if self._channels not in _COLOURS:
            raise ValueError("channels=2 is not supported. Pass 1, 3 or 4.")
        self._key, self._fast = key, bool(fast)
        limit = whole_number("max_pixels", max_pixels, 1, None, "a number of pixels, such as 2**28")
        if limit != MAX_PIXELS:  # else it is no part of the operation's identity, as in versions that had no limit
            self._max_pixels = limit

    def map(self, element: Any) -> Any:
        """Return the element with its image decoded.

        Raises:
            ImageError: the image cannot be decoded, is larger than `max_pixels`, or a dict has no such key; or the frames of a
                clip have several shapes.
            SourceError: the file of a path cannot be read.
        """
        return self.with_image(element, self._image_or_clip)

    def _image_or_clip(self, data: Any) -> Images:
        is_list = isinstance(data, (list, tuple)) or (
            isinstance(data, np.ndarray) and data.dtype.kind in "OU" and data.ndim == 1
        )
        if not is_list or not len(data) or not isinstance(data[0], (*_BYTES, *_PATHS)):
            return self._decoded(data)
        frames = list(map(self._decoded, data))
        if unlike := [frame.shape for frame in frames if frame.shape != frames[0].shape]:
            raise ImageError(
                f"the frames of a clip have the shapes {frames[0].shape} and {unlike[0]}. Pass "
                "DecodeImage(size=…) to give all frames one shape."
            )
        return np.stack(frames)

    def _decoded(self, data: Any) -> Image:
        data = _content_of(data)
        height, width = _header_size(data)
        if height * width > self._max_pixels:
            raise ImageError(
                f"an image of {len(data)} bytes has {height} × {width} pixels, more than "
                f"max_pixels={self._max_pixels}. Pass a larger max_pixels if this is correct."
            )
        image = self._jpeg(data) if data.startswith(_JPEG) else _by_opencv(data, self._channels, self._dtype != "uint8")
        if self._size is not None:
            image = resized(image, self._size)
        return _as_dtype(image, self._dtype)

    def _jpeg(self, data: bytes) -> Image:
        import simplejpeg

        colours = _COLOURS[self._channels]
        try:
            if self._size is None:
                return simplejpeg.decode_jpeg(data, colours, self._fast, self._fast)  # type: ignore[no-any-return]
            rows, columns, *_ = simplejpeg.decode_jpeg_header(data)
            least = {"min_height": self._size[0] + 1, "min_width": self._size[1] + 1}
            image: Image = simplejpeg.decode_jpeg(data, colours, self._fast, self._fast, **least)
        except ValueError as error:
            raise _undecodable(data, error) from error
        # Libjpeg makes 26 of 201 rows at an eighth, the last one of which is of the image for an eighth only.
        eighths = int(8 * min(image.shape[0] / rows, image.shape[1] / columns))
        return image[: max(1, rows * eighths // 8), : max(1, columns * eighths // 8)]


def _content_of(image: Any) -> bytes:
    """Return the bytes of an image file.

    Args:
        image: bytes, a bytes-like object, an array `uint8[size]`, or a path.

    Raises:
        ImageError: `image` is none of these.
        SourceError: the file cannot be read.
    """
    if isinstance(image, bytes):
        return image
    if isinstance(image, _PATHS):
        with closing(open_file(text_of(image))) as file:
            return bytes(file.read(0, file.size))
    if isinstance(image, _BYTES) or (isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 1):
        return bytes(image)
    raise ImageError(
        f"DecodeImage takes bytes, not {type(image).__name__} {short_repr(image)}. Pass the bytes of an "
        "image file, or its path."
    )


def _header_size(data: bytes) -> tuple[int, int]:
    """Return height and width from the header of a JPEG or PNG; (0, 0) for other or damaged files."""
    if data.startswith(_PNG):
        return int.from_bytes(data[20:24]), int.from_bytes(data[16:20])
    if not data.startswith(_JPEG):
        return 0, 0
    import simplejpeg

    try:
        rows, columns, *_ = simplejpeg.decode_jpeg_header(data)
    except ValueError:  # it is told when the content is decoded
        return 0, 0
    return rows, columns


def _name_of(dtype: npt.DTypeLike) -> str:
    try:
        name = np.dtype(dtype).name
    except Exception:  # NumPy asks for the repr of what it does not know, which may fail
        name = ""
    if name not in _DTYPES:
        raise ValueError(f"dtype={short_repr(dtype)} is not supported. Pass one of {', '.join(_DTYPES)}.")
    return name


def _by_opencv(data: bytes, channels: int, deep: bool) -> Image:
    tiff = plain_tiff(data)
    if tiff is not None and tiff.has_opacity:
        return _with_opacity(data, tiff, channels, deep)
    cv2 = opencv()
    is_avif = data[4:8] == _AVIF
    # Of AVIF with opacity, OpenCV gives blue, green and red also where it is asked for RGB.
    colours = cv2.IMREAD_COLOR if is_avif else cv2.IMREAD_COLOR_RGB
    kind = {1: cv2.IMREAD_GRAYSCALE, 3: colours, 4: cv2.IMREAD_UNCHANGED}[channels]
    flags = kind if channels == 4 else kind | cv2.IMREAD_IGNORE_ORIENTATION | (cv2.IMREAD_ANYDEPTH if deep else 0)
    image = _read(data if tiff is None else tiff.data, flags)
    if channels == 3 and is_avif:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    if channels < 4:
        return image
    # The file has grey, or blue, green and red, with opacity or without.
    codes = {1: cv2.COLOR_GRAY2RGBA, 3: cv2.COLOR_BGR2RGBA, 4: cv2.COLOR_BGRA2RGBA}
    found: Image = cv2.cvtColor(image, codes[image.shape[2]])
    return found


def _with_opacity(data: bytes, tiff: PlainTiff, channels: int, deep: bool) -> Image:
    """Decode a TIFF image of grey or colours with opacity.

    Args:
        data: bytes of the file.
        tiff: the file with a changed header.
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
        raise _undecodable(data, "a grey TIFF image with opacity, which OpenCV does not read; convert it to PNG")
    if not deep:
        image = _as_dtype(image, "uint8")
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
        raise _undecodable(data, error) from error
    if image is None:
        raise _undecodable(data, "no format that is known, or damaged")
    return with_channels(image)


def _as_dtype(image: Image, dtype: str) -> Image:
    if image.dtype.name == dtype:
        return image
    if image.dtype.name not in ("uint8", "uint16"):
        or_dtype = ", or pass dtype=np.float32" if image.dtype.name == "float32" else ""
        raise ImageError(
            f"the image has dtype {image.dtype}, which DecodeImage cannot turn into {dtype}. Convert the file to 8 or 16 "
            f"bits for each value{or_dtype}."
        )
    if dtype == "float32":
        return np.multiply(image, np.float32(1 / np.iinfo(image.dtype).max), dtype=np.float32)
    if dtype == "uint16":
        return np.multiply(image, np.uint16(257), dtype=np.uint16)
    return (image >> 8).astype(np.uint8)


def _undecodable(data: bytes, why: Any) -> ImageError:
    return ImageError(
        f"{len(data)} bytes, which begin with {short_repr(data[:16])}, cannot be decoded as an image: "
        f'{shorten(why)}. Leave such records out with Filter or on_error="skip".'
    )
