"""Decode the bytes of an image file to an array `[height, width, channels]`.

JPEG files are decoded by libjpeg-turbo; most PNG, WebP, TIFF and PNM files by OpenCV; most others
by Pillow. What one library cannot decode is decoded by another one, if it can. If a JPEG image will
be made smaller, it is decoded at some eighths of its size. That takes less time, and still uses all
pixels, except a few at the right and lower side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...common.messages import short_repr
from ...common.validation import whole_number
from ...errors import ImageError
from ...files.opened import open_file
from ...files.paths import text_of
from ..transforms import MapTransform
from .by_opencv import AVIF, as_dtype, by_opencv, undecodable
from .headers import PNG, size_in_header
from .library import Image, Images, OnImagesWithOpenCV, check_libraries
from .orientation import orientation_of, swaps_axes, turned
from .pillow import check_pillow, frames_of, indices_of, opened, pillow_size, pixels_of
from .sizes import Size, resized, size_of

_JPEG = b"\xff\xd8"

_COLOURS = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_DTYPES = ("uint8", "uint16", "float32")
MAX_PIXELS = 1 << 28


_PATHS, _BYTES = (str, os.PathLike), (bytes, bytearray, memoryview)


class DecodeImage(OnImagesWithOpenCV, MapTransform):
    """Decode bytes or path of a JPEG, PNG or other image to an array `[height, width, channels]`.

    A list, tuple or array of these, i.e. the frames of a clip, becomes an array `[frames, height,
    width, channels]`.

    Bytes are `bytes`, other bytes-like objects, or an array `uint8[size]`. A path is a string (also
    a URL in a store) or a `pathlib.Path`. A dict of Hugging Face, `{"bytes": …, "path": …}`, is
    also an image. The thread that decodes a file also reads it.

    The channels are red, green, blue; opacity does not change them.

    Args:
        size: (height, width) of all results, or one integer for both. JPEGs are decoded at a
            smaller scale if that saves work. Default: the size of the image in the file.
        channels: 3 (default: red, green, blue), 1 (grey) or 4 (with opacity), whatever the file
            has.
        dtype: `np.uint8` (default); `np.uint16` (values of files with 16 bits; values of other
            files times 257); or `np.float32`, 0 to 1.
        key: key of the image in elements that are dicts, default "image". Other elements are images
            themselves.
        fast: True: decode JPEGs by faster arithmetic, up to 1.3 times as fast. Some values differ
            by a few steps, more at colour edges. Default False: the values of libjpeg, as Pillow
            returns them.
        max_pixels: maximum height × width, checked in the header before an image is decoded; with
            `frames="all"`, of all frames together. Default 2^28 (16,384 × 16,384). It protects
            against small files that would fill the memory. A file with a damaged header may be
            decoded without this check.
        orientation: True (default): turn and mirror images as the header of a JPEG, PNG, WebP, AVIF
            or TIFF file says, like Pillow's `ImageOps.exif_transpose`. `size` is the size after
            that. False: return them as they are stored.
        palette: "colours" (default): replace palette indices by their colours. "indices": return
            the indices, for masks of segmentation, as `uint8[height, width, 1]`; grey images give
            their values. Needs Pillow.
        frames: "first" (default): the first frame of a GIF, TIFF, WebP or PNG file. "all": all of
            them, as an array `[frames, height, width, channels]`, also if there is only one;
            colours have 8 bits. Needs Pillow.

    Raises:
        MissingExtraError: OpenCV or simplejpeg is not installed; or Pillow, if it is needed.
        ValueError: an argument is out of range, or does not go with `palette="indices"`.
        TypeError: `size` is neither an integer nor a pair of integers; or `channels` or
            `max_pixels` is not an integer.

    >>> import cv2
    >>> data = cv2.imencode(".png", np.zeros((4, 6, 3), np.uint8))[1].tobytes()
    >>> DecodeImage(channels=1).map({"image": data, "label": 7})["image"].shape
    (4, 6, 1)
    """

    _max_pixels: int = MAX_PIXELS
    _orientation: bool = True
    _palette: str = "colours"
    _frames: str = "first"

    def __init__(
        self,
        size: Size | None = None,
        *,
        channels: int = 3,
        dtype: npt.DTypeLike = np.uint8,
        key: str = "image",
        fast: bool = False,
        max_pixels: int = MAX_PIXELS,
        orientation: bool = True,
        palette: Literal["colours", "indices"] = "colours",
        frames: Literal["first", "all"] = "first",
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
        given = {
            "max_pixels": limit,
            "orientation": bool(orientation),
            "palette": palette,
            "frames": frames,
        }
        for name, values in {"palette": ("colours", "indices"), "frames": ("first", "all")}.items():
            if given[name] not in values:
                raise ValueError(
                    f"{name}={short_repr(given[name])} is not supported. "
                    f'Pass "{values[0]}" or "{values[1]}".'
                )
            if given[name] == values[1]:
                check_pillow(f'{name}="{values[1]}"')
        if palette == "indices" and (channels, self._dtype, frames) != (3, "uint8", "first"):
            raise ValueError(
                'palette="indices" gives one channel of uint8. '
                "Leave out channels=, dtype= and frames=."
            )
        for name, value in given.items():
            # else it is no part of the operation's identity
            if value != getattr(type(self), f"_{name}"):
                setattr(self, f"_{name}", value)

    def map(self, element: Any) -> Any:
        """Return the element with its image decoded.

        Raises:
            ImageError: the image cannot be decoded, is larger than `max_pixels`, or a dict has no
                such key; or the frames of a clip have several shapes.
            SourceError: the file of a path cannot be read.
        """
        if isinstance(element, Mapping) and self._key not in element and _is_stored(element):
            return self._image_or_clip(element)
        return self.with_image(element, self._image_or_clip)

    def _image_or_clip(self, data: Any) -> Images:
        is_list = isinstance(data, (list, tuple)) or (
            isinstance(data, np.ndarray) and data.dtype.kind in "OU" and data.ndim == 1
        )
        if not is_list or not len(data) or not isinstance(data[0], (*_BYTES, *_PATHS, Mapping)):
            return self._decoded(data)
        frames = list(map(self._decoded, data))
        if unlike := [frame.shape for frame in frames if frame.shape != frames[0].shape]:
            both = f"{frames[0].shape} and {unlike[0]}"
            if self._frames == "all":
                raise ImageError(
                    'the images of a list of files must have equal shapes with frames="all", but '
                    f"they have {both}. Leave frames= out, to decode the first frame of each file, "
                    "or put each file into an element of its own. If heights or widths differ, "
                    "also pass size=."
                )
            raise ImageError(
                f"the frames of a clip must have equal shapes, but they have {both}. Pass "
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
        if self._frames == "all":
            deep = self._dtype != "uint8"
            use = partial(
                frames_of, channels=self._channels, deep=deep, max_pixels=self._max_pixels
            )
            frames = self._by_pillow(data, use)
            image = (
                frames
                if self._size is None
                else np.stack([resized(frame, self._size) for frame in frames])
            )
        elif self._palette == "indices":
            image = self._by_pillow(data, indices_of)
            image = image if self._size is None else resized(image, self._size, "nearest")
        else:
            image = self._first_frame(data)
            image = image if self._size is None else resized(image, self._size)
        return as_dtype(image, self._dtype)

    def _first_frame(self, data: bytes) -> Image:
        """Decode by the library that is best for the format of a file.

        If it cannot decode the file, the other one does.
        """
        pixels = partial(self._by_pillow, data, partial(pixels_of, channels=self._channels))
        if _is_for_pillow(data) and (self._dtype == "uint8" or not _may_be_deep(data)):
            ways = pixels, partial(self._by_others, data)
        else:
            ways = partial(self._by_others, data), pixels
        try:
            return ways[0]()
        except ImageError as error:
            try:
                return ways[1]()
            except ImageError:
                raise error from None

    def _by_others(self, data: bytes) -> Image:
        way = orientation_of(data) if self._orientation else 1
        is_jpeg = data.startswith(_JPEG)
        return turned(
            self._jpeg(data, way)
            if is_jpeg
            else by_opencv(data, self._channels, self._dtype != "uint8"),
            way,
        )

    def _by_pillow(self, data: bytes, use: Callable[[Any, bool], Images]) -> Images:
        try:
            return opened(data, use, self._orientation, self._max_pixels)
        except ValueError as error:
            raise undecodable(data, error) from error

    def _jpeg(self, data: bytes, way: int) -> Image:
        import simplejpeg

        colours = _COLOURS[self._channels]
        try:
            if self._size is None:
                return simplejpeg.decode_jpeg(data, colours, self._fast, self._fast)  # type: ignore[no-any-return]
            rows, columns, *_ = simplejpeg.decode_jpeg_header(data)
            height, width = self._size[::-1] if swaps_axes(way) else self._size
            least = {"min_height": height + 1, "min_width": width + 1}
            image: Image = simplejpeg.decode_jpeg(data, colours, self._fast, self._fast, **least)
        except ValueError as error:
            raise undecodable(data, error) from error
        # Libjpeg makes 26 of 201 rows at an eighth, the last one of which is of the image for an
        # eighth only.
        eighths = int(8 * min(image.shape[0] / rows, image.shape[1] / columns))
        return image[: max(1, rows * eighths // 8), : max(1, columns * eighths // 8)]


def _content_of(image: Any) -> bytes:
    """Return the bytes of an image file.

    Args:
        image: bytes, a bytes-like object, an array `uint8[size]`, a path, or a dict with one of
            these.

    Raises:
        ImageError: `image` is none of these.
        SourceError: the file cannot be read.
    """
    if isinstance(image, Mapping) and _is_stored(image):
        content = image.get("bytes")
        image = image["path"] if content is None else content
    if isinstance(image, bytes):
        return image
    if isinstance(image, _PATHS):
        with closing(open_file(text_of(image))) as file:
            return bytes(file.read(0, file.size))
    if isinstance(image, _BYTES) or (
        isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 1
    ):
        return bytes(image)
    raise ImageError(
        f"DecodeImage takes the bytes or the path of an image file, not {type(image).__name__} "
        f"{short_repr(image)}. If the element is a dict, pass key=, the name of the key that "
        "contains the image."
    )


def _is_stored(image: Mapping[Any, Any]) -> bool:
    """Return True if a dict is an image as Hugging Face stores it: content, path, or both."""
    keys = image.keys()
    return keys <= {"bytes", "path"} and (
        image.get("bytes") is not None or image.get("path") is not None
    )


def _is_for_pillow(data: bytes) -> bool:
    """Return True if Pillow decodes a file first.

    It is then not JPEG, WebP, TIFF, PNM, a JPEG 2000 stream or PNG of one frame.
    """
    if data.startswith(PNG):
        return b"acTL" in data[:1024]  # of several frames
    return not data.startswith((_JPEG, b"II", b"MM", b"RIFF", b"P", b"\xff\x4f"))


def _may_be_deep(data: bytes) -> bool:
    """Return True if a file may have more than 8 bits, which Pillow cuts off.

    This is so for PNG, AVIF and JPEG 2000.
    """
    return data.startswith(PNG) or data[4:8] in (AVIF, b"jP  ")


def _header_size(data: bytes) -> tuple[int, int]:
    """Return height and width from the header of an image file.

    They are (0, 0) for JPEG 2000 streams and damaged files.
    """
    if not data.startswith(_JPEG):
        found = size_in_header(data)
        return found if all(found) else pillow_size(data)
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
        raise ValueError(
            f"dtype={short_repr(dtype)} is not supported. Pass one of {', '.join(_DTYPES)}."
        )
    return name
