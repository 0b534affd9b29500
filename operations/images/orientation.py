"""Read the orientation in the header of an image file, and turn images by it.

In: the bytes of a JPEG, PNG, WebP, AVIF or TIFF file. Out: its orientation, a number from 1 to 8;
and the turned image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .library import Image
from .pillow import pillow_orientation
from .tiff import plain_tiff

_EXIF = b"Exif\0\0"
_JPEG_EXIF, _JPEG_SCAN = 0xE1, 0xDA

_SELDOM = b"tiff:Orientation", b"Raw profile type exif"
"""Texts in a file whose orientation is in XMP data, or in a PNG that ImageMagick wrote.

Pillow reads these, and AVIF.
"""

_TURNS: dict[int, Callable[[Image], Image]] = {
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: image[::-1].swapaxes(0, 1),
    7: lambda image: image[::-1, ::-1].swapaxes(0, 1),
    8: lambda image: image[:, ::-1].swapaxes(0, 1),
}
"""The change of an image `[height, width, channels]` for each orientation of EXIF."""


def turned(image: Image, orientation: int) -> Image:
    """Return an image turned and mirrored as its orientation (2 to 8) says.

    It is unchanged for 1 and other numbers.

    >>> turned(np.array([[[1], [2]]]), 6).tolist()  # one row becomes one column
    [[[1]], [[2]]]
    """
    turn = _TURNS.get(orientation)
    return image if turn is None else np.ascontiguousarray(turn(image))


def swaps_axes(orientation: int) -> bool:
    """Return True if an image with this orientation has height and width swapped in the file."""
    return orientation >= 5


def orientation_of(data: bytes) -> int:
    """Return the orientation in the header of an image file, from 1 to 8.

    It is 1 if there is none, or the header is damaged.
    """
    is_jpeg = data.startswith(b"\xff\xd8")
    parts = list(_jpeg_segments(data)) if is_jpeg else [data]
    exif = data if data[:2] in (b"II", b"MM") else _exif_of(data, parts)
    tiff = None if exif is None else plain_tiff(exif)
    if tiff is not None and tiff.orientation is not None:
        return tiff.orientation if 1 <= tiff.orientation <= 8 else 1
    is_seldom = data[4:8] == b"ftyp" or any(text in part for part in parts for text in _SELDOM)
    return pillow_orientation(data) if is_seldom else 1


def _exif_of(data: bytes, parts: Sequence[bytes]) -> bytes | None:
    """Return the EXIF data of a JPEG, PNG or WebP file; None if there is none.

    `parts`: segments of a JPEG.
    """
    if data.startswith(b"\xff\xd8"):
        return next((part[len(_EXIF) :] for part in parts if part.startswith(_EXIF)), None)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _chunk(data, b"eXIf", 8, "big", 12, 1)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        found = _chunk(data, b"EXIF", 12, "little", 8, 2)
        return found.removeprefix(_EXIF) if found is not None else None
    return None


def _jpeg_segments(data: bytes) -> Iterator[bytes]:
    """Yield contents of a JPEG file's segments that may have EXIF data, up to the first scan."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != _JPEG_SCAN:
        if data[at + 1] == 0xFF:  # a byte that fills up
            at += 1
            continue
        stop = at + 2 + int.from_bytes(data[at + 2 : at + 4])
        if data[at + 1] == _JPEG_EXIF:
            yield data[at + 4 : stop]
        at = stop


def _chunk(data: bytes, name: bytes, at: int, order: str, around: int, align: int) -> bytes | None:
    """Return the content of the first chunk with a name in a PNG or WebP file.

    Return None if there is none.

    Args:
        data: bytes of the file.
        name: the four letters of the chunk.
        at: place of the first chunk.
        order: order of the bytes of lengths, "big" (length before the name) or "little" (length
            after the name).
        around: number of bytes of a chunk beside its content: length, name, and the checksum of a
            PNG.
        align: a chunk begins at a multiple of this number.
    """
    if name not in data:  # most files: this search takes no time
        return None
    while at + 8 <= len(data):
        first, second = data[at : at + 4], data[at + 4 : at + 8]
        found, size = (
            (second, int.from_bytes(first))
            if order == "big"
            else (first, int.from_bytes(second, "little"))
        )
        if found == name:
            return data[at + 8 : at + 8 + size]
        at += around + size + (-size) % align
    return None
