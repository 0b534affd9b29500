"""JSON lines: one JSON value per line, in UTF-8. Blank lines are ignored.

Format: https://jsonlines.org.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..common.messages import short_repr, shorten
from ..errors import SourceError
from ..files.opened import OpenFile
from .damage import OnDamage, leave_out

AT_ONCE = 1 << 22
_NEWLINE = 10
_BLANK = np.isin(np.arange(256), list(b" \t\n\v\f\r"))
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_records(
    stream: BinaryIO, name: str, on_damage: OnDamage | None = None
) -> Iterator[tuple[int, Any]]:
    r"""Yield `(offset, value)` for each line of a stream that is not blank.

    Args:
        stream: stream at its beginning; of a compressed file, the unpacked bytes.
        name: name of the file, for messages.
        on_damage: function that is called with the error for each line that is skipped. None
            (default): the error is raised.

    Raises:
        SourceError: a line is not JSON.

    >>> import io
    >>> list(read_records(io.BytesIO(b'{"x": 1}\n\n[2, 3]'), "x.jsonl"))
    [(0, {'x': 1}), (10, [2, 3])]
    """
    offset = 0
    for line in stream:
        if not line.isspace():
            try:
                value = parsed(line, name, offset)
            except SourceError as error:
                leave_out(error, on_damage)
            else:
                yield offset, value
        offset += len(line)


def parsed(line: bytes, name: str, offset: int) -> Any:
    """Return the value of a line.

    Args:
        line: bytes of the line.
        name: name of the file, for the message.
        offset: offset of the line in the file, for the message.

    Raises:
        SourceError: the line is not JSON.

    >>> parsed(b'{"x": [1, null]}', "x.jsonl", 0)
    {'x': [1, None]}
    """
    try:
        return json.loads(line.removeprefix(_BYTE_ORDER_MARK).decode())
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{shorten(name)}: the line at byte {offset} cannot be read as JSON: {shorten(error)}. "
            f"It begins with {short_repr(line)}. Correct the line, or pass a file with one JSON "
            "value in each line."
        ) from error


def line_ranges(file: OpenFile, keep_blank: bool = False) -> npt.NDArray[np.int64]:
    """Return `int64[lines, 2]`: offset and length of each line, without its line feed.

    Args:
        file: the file.
        keep_blank: True if blank lines are kept; False (default): they are left out.

    Raises:
        SourceError: the file is compressed with gzip, or cannot be read.
    """
    if file.read(0, min(2, file.size)) == b"\x1f\x8b":
        raise SourceError(
            f"{shorten(file.path)} is compressed with gzip, so headrace cannot read single lines "
            "of it. Unpack the file. Or give it a name that ends in .gz, and convert it with "
            "`headrace convert`."
        )
    found, starts_at, has_text = [], 0, False
    for offset in range(0, file.size, AT_ONCE):
        piece = np.frombuffer(file.read(offset, min(AT_ONCE, file.size - offset)), np.uint8)
        ends = np.flatnonzero(piece == _NEWLINE)
        text = np.add.reduceat(~_BLANK[piece], np.concatenate(([0], ends)), dtype=np.int64) > 0
        text[0] |= has_text
        bounds = np.concatenate(([starts_at], offset + ends + 1))
        found.append(_ranges(bounds[:-1], bounds[1:] - 1, text[:-1] | keep_blank))
        starts_at, has_text = int(bounds[-1]), bool(text[-1])
    last = starts_at < file.size if keep_blank else has_text  # a file may end without a line feed
    found.append(_ranges(np.array([starts_at]), np.array([file.size]), np.array([last])))
    return np.concatenate(found)


def _ranges(
    starts: npt.NDArray[Any], stops: npt.NDArray[Any], kept: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    return np.stack((starts, stops - starts), 1)[kept].astype(np.int64, copy=False)
