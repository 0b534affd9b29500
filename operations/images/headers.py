"""Read the size of an image from the header of its file, without decoding it.

The formats are PNG, WebP, TIFF, PNM and Radiance HDR.
"""

from __future__ import annotations

import re

from .tiff import tags_of

PNG = b"\x89PNG\r\n\x1a\n"
_WIDTH, _HEIGHT = 256, 257  # tags of TIFF
_HEAD = 1 << 16
"""Number of bytes of a PNM file in which its size is searched."""


def size_in_header(data: bytes) -> tuple[int, int]:
    """Return height and width from the header of a PNG, WebP, TIFF, PNM or HDR file.

    They are (0, 0) for other and damaged files.

    >>> size_in_header(b"P5 3 2 255 ......")
    (2, 3)
    """
    if data.startswith(PNG):
        return int.from_bytes(data[20:24]), int.from_bytes(data[16:20])
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _of_webp(data)
    if data[:2] in (b"II", b"MM"):
        # The first ones count.
        tags = {tag: value for tag, _, value in reversed(tags_of(data, (_WIDTH, _HEIGHT)) or [])}
        return tags.get(_HEIGHT, 0), tags.get(_WIDTH, 0)
    if data[:2] == b"#?":
        return _of_radiance(data)
    return _of_pnm(data) if data[:1] == b"P" else (0, 0)


def _of_webp(data: bytes) -> tuple[int, int]:
    kind, body = data[12:16], data[20:30]
    if len(body) < 10:
        return 0, 0
    if kind == b"VP8X":
        return 1 + int.from_bytes(body[7:10], "little"), 1 + int.from_bytes(body[4:7], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits >> 14 & 0x3FFF), 1 + (bits & 0x3FFF)
    if kind == b"VP8 ":
        return int.from_bytes(body[8:10], "little") & 0x3FFF, int.from_bytes(
            body[6:8], "little"
        ) & 0x3FFF
    return 0, 0


def _of_pnm(data: bytes) -> tuple[int, int]:
    head = re.sub(rb"#[^\n\r]*", b" ", data[:_HEAD])
    if data[1:2] == b"7":
        found = re.search(rb"WIDTH\s+0*(\d+)", head), re.search(rb"HEIGHT\s+0*(\d+)", head)
        width, height = (int(each[1][:18]) if each else 0 for each in found)
        return height, width
    size = re.match(rb"P[1-6fF]\s+\+?0*(\d{1,18})\D+?0*(\d{1,18})", head)
    return (int(size[2]), int(size[1])) if size else (0, 0)


def _of_radiance(data: bytes) -> tuple[int, int]:
    """Return height and width of a Radiance HDR file.

    They come in this order or the other, after a blank line, as `-Y 2 +X 3`.
    """
    size = re.search(rb"\n\n[-+][XY] +0*(\d{1,18}) +[-+][XY] +0*(\d{1,18})\n", data[:_HEAD])
    return (int(size[1]), int(size[2])) if size else (0, 0)
