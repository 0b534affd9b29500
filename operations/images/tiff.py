"""Read the header of a TIFF file, and change it so that OpenCV does not change its pixels.

The library under OpenCV rotates an image by the orientation in its header, and multiplies its
colours by its opacity. The changed header has no orientation, and says that the colours are already
multiplied. So the pixels are decoded unchanged.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from .library import Image

_LAYOUTS = {
    b"II*\0": ("<", False),
    b"MM\0*": (">", False),
    b"II+\0": ("<", True),
    b"MM\0+": (">", True),
}
"""First bytes of a file -> (byte order, True for BigTIFF)."""

_COLOURS, _ORIENTATION, _SAMPLES, _EXTRA = 262, 274, 277, 338
_WITH_OPACITY = ((0, 2), (1, 2), (2, 4))
"""(photometric code, values per pixel) of images with opacity.

They are grey with white as 0, grey with black as 0, and RGB.
"""

_FORMATS = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i"}
_UNSIGNED = ("B", "H", "I")
_LONG = 16  # of BigTIFF alone
_UNUSED, _MULTIPLIED, _STRAIGHT = 0, 1, 2


class PlainTiff(NamedTuple):
    """TIFF file with a changed header.

    Attributes:
        data: bytes of the file with the changed header.
        has_opacity: True if each pixel has one more value than grey, or than red, green and blue.
        extra: meaning of that value: 0 unused; 1 opacity, by which colours are multiplied; 2
            opacity. None: not stated.
        orientation: orientation in the header; None if there is none.
    """

    data: bytes
    has_opacity: bool
    extra: int | None
    orientation: int | None


def plain_tiff(data: bytes) -> PlainTiff | None:
    """Return a TIFF file with a changed header.

    Return None if the file is not TIFF, or its header is damaged.

    Args:
        data: bytes of the file.
    """
    tags = tags_of(data, (_COLOURS, _ORIENTATION, _SAMPLES, _EXTRA))
    if tags is None:
        return None
    order = _LAYOUTS[data[:4]][0]
    plain, found = bytearray(data), dict[int, int]()
    for tag, place, value in tags:
        if place.format in _UNSIGNED:
            found[tag] = value
            wanted = {_ORIENTATION: 1, _EXTRA: _MULTIPLIED}.get(tag, value)
            struct.pack_into(order + place.format, plain, place.at, wanted)
    has_opacity = (found.get(_COLOURS), found.get(_SAMPLES)) in _WITH_OPACITY
    return PlainTiff(bytes(plain), has_opacity, found.get(_EXTRA), found.get(_ORIENTATION))


class TagPlace(NamedTuple):
    """Place of a number in a TIFF file: first byte, and format for `struct` without byte order."""

    at: int
    format: str


def tags_of(data: bytes, wanted: tuple[int, ...]) -> list[tuple[int, TagPlace, int]] | None:
    """Return tags of a TIFF file's first image whose value is a whole number: tag, place, value.

    Of a tag with several numbers, it is the first one. None if the file is not TIFF, or its header
    is damaged.

    Args:
        data: bytes of the file.
        wanted: the tags to return. One that the file has several times is returned as often.
    """
    layout = _LAYOUTS.get(data[:4])
    if layout is None:
        return None
    order, is_big = layout
    found = []
    try:
        (first,) = struct.unpack_from(order + ("Q" if is_big else "I"), data, 8 if is_big else 4)
        (count,) = struct.unpack_from(order + ("Q" if is_big else "H"), data, first)
        for number in range(count):
            at = first + (8 + 20 * number if is_big else 2 + 12 * number)
            tag, kind = struct.unpack_from(order + "HH", data, at)
            form = _FORMATS.get(kind) or ("Q" if is_big and kind == _LONG else None)
            if tag in wanted and form is not None:
                place = TagPlace(at + (12 if is_big else 8), form)
                found.append((tag, place, *struct.unpack_from(order + form, data, place.at)))
    except (struct.error, OverflowError):
        return None
    return found


def straight(image: Image, extra: int | None) -> Image:
    """Return an image of four channels with its true colours and opacity.

    Args:
        image: the image, as OpenCV reads it from a TIFF file with a changed header. It may be
            modified.
        extra: meaning of the fourth channel in the file, see `PlainTiff.extra`.
    """
    colours, opacity, most = image[..., :3], image[..., 3:], np.iinfo(image.dtype).max
    if extra == _UNUSED:
        opacity[:] = most
    elif extra == _MULTIPLIED:
        divided = colours.astype(np.uint32) * np.uint32(most) // np.maximum(opacity, 1)
        np.copyto(colours, np.minimum(divided, most).astype(image.dtype), where=opacity > 0)
    return image
