"""Bytes that MDS and LitData store in the same way.

These are places of samples, images that are not compressed, and lists of images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr
from ...errors import SourceError
from ..damage import damaged

Bytes = npt.NDArray[np.uint8]


class Sliced(Protocol):
    """Protocol of the bytes of a shard: an array `uint8[bytes]`, or a file in a store.

    Slices of it are such arrays.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Bytes: ...


Decoder = Callable[[bytes], Any]
"""Function that turns the bytes of one value into the value."""


def place_of(data: Sliced, number: int) -> tuple[int, int]:
    """Return where a sample begins and ends in a shard that has no compressed groups of samples.

    Args:
        data: bytes of the shard.
        number: index of the sample.

    Raises:
        ValueError: the place lies outside the shard.
    """
    begin, end = (int(at) for at in data[4 + 4 * number : 12 + 4 * number].view("<u4"))
    if not begin <= end <= len(data):
        damaged(f"sample {number} lies at {begin} to {end}, but the shard has {len(data)} bytes")
    return begin, end


def pixels_of(data: bytes) -> Any:
    """Return the pixels `uint8[height, width(, channels)]` of an image that is stored as it is."""
    width, height, letters = np.frombuffer(data[:12], "<u4").tolist()
    mode = data[12 : 12 + letters].decode()
    if mode not in _CHANNELS:
        damaged(
            f"an image has the mode {short_repr(mode)}, which is not one of "
            f"{first_few(_CHANNELS, 9)}"
        )
    pixels = np.frombuffer(data, np.uint8, offset=12 + letters)
    return pixels.reshape(height, width, *_CHANNELS[mode])


_CHANNELS: dict[str, tuple[int, ...]] = {
    "L": (),
    "P": (),
    "LA": (2,),
    "RGB": (3,),
    "YCbCr": (3,),
    "HSV": (3,),
    "LAB": (3,),
    "RGBA": (4,),
    "CMYK": (4,),
}


def list_decoder(decode: Decoder, first: int) -> Decoder:
    """Return the decoder of a list: `first` bytes, number of items, their sizes, the items."""

    def decoded(data: bytes) -> list[Any]:
        count = int.from_bytes(data[first : first + 4], "little")
        at = first + 4 + 4 * count
        stops = at + np.cumsum(np.frombuffer(data[first + 4 : at], "<u4"), dtype=np.int64)
        return [
            decode(data[start:stop]) for start, stop in zip([at, *stops.tolist()], stops.tolist())
        ]

    return decoded


def pickle_decoder(place: str, allow_pickle: bool) -> Decoder:
    """Return the decoder of pickled objects.

    Args:
        place: name of the column or chunk, for the message.
        allow_pickle: the user's argument.

    Raises:
        SourceError: `allow_pickle` is False.
    """
    if not allow_pickle:
        raise SourceError(
            f"{place} has pickled objects, which can run code when they are read. Pass "
            "allow_pickle=True if you trust the files; or, if samples are dicts, name only other "
            "columns in columns=."
        )
    import pickle

    return pickle.loads


def unchanged(data: bytes) -> bytes:
    """Return the bytes themselves."""
    return data
