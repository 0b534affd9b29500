"""Where the samples of a LitData chunk lie in its bytes.

Chunks come in three layouts. *Plain* ones have samples one after the other; each may be compressed
on its own. *Framed* ones have groups of samples, each compressed as a frame. In *table* chunks,
samples are rows of an Arrow file at the end.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from ...common.lazy_exports import optional_library
from ..damage import damaged
from .encodings import Bytes, Sliced

_FRAMED = b"LDFZ01\0\0"
_TABLE = b"LDARW01\0"
_TABLE_ROWS = 256
"""Rows of each record batch in a table chunk, but the last."""


class Frame(NamedTuple):
    """Samples that are compressed together.

    Attributes:
        first: index of its first sample in the chunk.
        samples: number of samples.
        start: place of its first byte in the file.
        packed_bytes: size in the file.
        bytes: size when it is not compressed.
    """

    first: int
    samples: int
    start: int
    packed_bytes: int
    bytes: int


def is_framed(data: Sliced) -> bool:
    """Return True if a chunk has the framed layout."""
    return data[:8].tobytes() == _FRAMED


def is_table(data: Sliced) -> bool:
    """Return True if the samples of a chunk are rows of an Arrow table."""
    return len(data) >= 20 and data[-8:].tobytes() == _TABLE


def samples_in(data: Sliced) -> int:
    """Return the number of samples that a chunk says it has."""
    return int.from_bytes(
        data[12:16].tobytes() if is_framed(data) else data[:4].tobytes(), "little"
    )


def samples_in_frame(data: Sliced) -> int:
    """Return the number of samples in each frame of a framed chunk, but the last."""
    return int.from_bytes(data[16:20].tobytes(), "little")


def head_bytes(data: Sliced, samples: int) -> int:
    """Return the number of bytes before the first sample.

    They have the places of samples, and of groups that are compressed.

    Args:
        data: bytes of the chunk.
        samples: number of samples.
    """
    if not is_framed(data):
        return 4 * (samples + 2)
    return 24 + 4 * (samples + 1) + 24 * int.from_bytes(data[20:24].tobytes(), "little")


def frame_of(data: Sliced, number: int) -> tuple[int, Frame]:
    """Return the index of the frame that has a sample of a framed chunk, and the frame.

    Args:
        data: bytes of the chunk.
        number: index of the sample.

    Raises:
        ValueError: the frame does not lie in the chunk, or the chunk has another version.
    """
    version, _, samples, rows, frames = struct.unpack("<HHIII", data[8:24].tobytes())
    if version != 1 or not rows:
        damaged(f"the frames of the chunk have version {version}, not 1")
    index = number // rows
    at = 24 + 4 * (samples + 1) + 24 * index
    if index >= frames or at + 24 > len(data):
        damaged(
            f"the chunk has {frames} frames of {rows} samples, but sample {number} is looked for"
        )
    frame = Frame(*struct.unpack("<IIQII", data[at : at + 24].tobytes()))
    if (
        frame.start + frame.packed_bytes > len(data)
        or not frame.first <= number < frame.first + frame.samples
    ):
        damaged(f"frame {index} of the chunk lies outside its {len(data)} bytes")
    return index, frame


def place_in_frame(data: Sliced, number: int, frame: Frame) -> tuple[int, int]:
    """Return where a sample begins and ends in the bytes of its frame.

    Args:
        data: bytes of the chunk.
        number: index of the sample in the chunk.
        frame: its frame.

    Raises:
        ValueError: the place lies outside the frame.
    """
    offsets = data[24 + 4 * frame.first : 24 + 4 * (number + 2)].view("<u4")
    begin, end = (int(offsets[at - frame.first]) - int(offsets[0]) for at in (number, number + 1))
    if not 0 <= begin <= end <= frame.bytes:
        damaged(f"sample {number} lies at {begin} to {end}, but its frame has {frame.bytes} bytes")
    return begin, end


def leaves_of(sample: Bytes, leaves: int) -> list[tuple[int, int]]:
    """Return where each leaf of a sample begins and ends.

    Args:
        sample: bytes of the sample.
        leaves: number of leaves.

    Raises:
        ValueError: the sample is too short.
    """
    if len(sample) < 4 * leaves:
        damaged(
            f"a sample has {len(sample)} bytes, but needs {4 * leaves} for the sizes of its leaves"
        )
    at, places = 4 * leaves, []
    for size in struct.unpack_from(f"<{leaves}I", sample.data):
        places.append((at, at + size))
        at += size
    if at > len(sample):
        damaged(f"a sample has {len(sample)} bytes, but its leaves end at {at}")
    return places


def batch_of_row(number: int) -> tuple[int, int]:
    """Return the index of the record batch with a row of a table chunk, and the row's index."""
    return number // _TABLE_ROWS, number % _TABLE_ROWS


def table_range(data: Sliced) -> tuple[int, int]:
    """Return where the table of a table chunk begins and ends in its file.

    Raises:
        ValueError: the chunk is too short.
    """
    size = int.from_bytes(data[len(data) - 12 : len(data) - 8].tobytes(), "little")
    if size > len(data) - 12:
        damaged(f"the table of the chunk has {size} bytes, but the chunk has {len(data)}")
    return len(data) - 12 - size, len(data) - 12


def record_batch(file: Any, index: int, samples: int) -> Any:
    """Return one record batch of a table chunk, a `pyarrow.RecordBatch`.

    Args:
        file: the table of the chunk: its bytes, `uint8[bytes]`, or a file of them.
        index: index of the record batch.
        samples: number of samples of the chunk.

    Raises:
        ValueError: the chunk is damaged.
        MissingExtraError: pyarrow is not installed.
    """
    arrow = optional_library("pyarrow", "LitData chunks of plain values need pyarrow", "parquet")
    file = arrow.BufferReader(file) if isinstance(file, np.ndarray) else arrow.PythonFile(file, "r")
    is_stream = file.read(6) != b"ARROW1"  # as early versions wrote it
    file.seek(0)
    reader = arrow.ipc.open_stream(file) if is_stream else arrow.ipc.open_file(file)
    if not is_stream and reader.num_record_batches == -(-samples // _TABLE_ROWS):
        batch = reader.get_batch(index)
    else:
        batches = (
            reader.read_all().slice(index * _TABLE_ROWS, _TABLE_ROWS).combine_chunks().to_batches()
        )
        if not batches:
            damaged(f"the table of the chunk has no rows from {index * _TABLE_ROWS}")
        batch = batches[0]
    batch.validate(full=True)  # else damaged offsets end the process
    return batch
