"""TIFF files as OpenCV reads them without changing pixels. In: their bytes. Out: bytes of the same image, and facts about it.

The library under OpenCV turns an image by the orientation of its header, and multiplies its colours by its opacity. A header
without an orientation, and with colours that are said to be multiplied already, has it leave both as they are.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from .library import Image

_LAYOUTS = {b"II*\0": ("<", False), b"MM\0*": (">", False), b"II+\0": ("<", True), b"MM\0+": (">", True)}
"""First bytes → order of bytes, and whether it is a BigTIFF file."""

_COLOURS, _ORIENTATION, _SAMPLES, _EXTRA = 262, 274, 277, 338
_WITH_OPACITY = ((0, 2), (1, 2), (2, 4))
"""What colours are, and how many numbers a pixel has: grey, from white or from black, and RGB."""

_FORMATS = {1: "B", 3: "H", 4: "I"}
_UNUSED, _MULTIPLIED, _STRAIGHT = 0, 1, 2


class PlainTiff(NamedTuple):
    """A TIFF file with a plain header."""

    data: bytes
    has_opacity: bool
    """A number stands beside the grey, or the red, green and blue, of a pixel."""
    extra: int | None
    """Meaning of that number: 0 unused, 1 opacity by which they are multiplied, 2 opacity. None: untold."""


def plain_tiff(data: bytes) -> PlainTiff | None:
    """A TIFF file with a plain header; None if it is another file, or its header is damaged."""
    layout = _LAYOUTS.get(data[:4])
    if layout is None:
        return None
    order, is_big = layout
    plain, found = bytearray(data), dict[int, int]()
    try:
        (first,) = struct.unpack_from(order + ("Q" if is_big else "I"), data, 8 if is_big else 4)
        (count,) = struct.unpack_from(order + ("Q" if is_big else "H"), data, first)
        for number in range(count):
            at = first + (8 + 20 * number if is_big else 2 + 12 * number)
            tag, kind = struct.unpack_from(order + "HH", data, at)
            if tag in (_COLOURS, _ORIENTATION, _SAMPLES, _EXTRA) and kind in _FORMATS:
                value = at + (12 if is_big else 8)
                (found[tag],) = struct.unpack_from(order + _FORMATS[kind], data, value)
                wanted = {_ORIENTATION: 1, _EXTRA: _MULTIPLIED}.get(tag, found[tag])
                struct.pack_into(order + _FORMATS[kind], plain, value, wanted)
    except struct.error:
        return None
    has_opacity = (found.get(_COLOURS), found.get(_SAMPLES)) in _WITH_OPACITY
    return PlainTiff(bytes(plain), has_opacity, found.get(_EXTRA))


def straight(image: Image, extra: int | None) -> Image:
    """The colours and the opacity of an image of four channels, as OpenCV reads it of a plain TIFF file.

    Args:
        image: in which it may write.
        extra: the meaning of the fourth channel in the file.
    """
    colours, opacity, most = image[..., :3], image[..., 3:], np.iinfo(image.dtype).max
    if extra == _UNUSED:
        opacity[:] = most
    elif extra == _MULTIPLIED:
        divided = colours.astype(np.uint32) * np.uint32(most) // np.maximum(opacity, 1)
        np.copyto(colours, np.minimum(divided, most).astype(image.dtype), where=opacity > 0)
    return image
