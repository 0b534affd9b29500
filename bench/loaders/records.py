"""Records of the workloads of all loaders, the work for each, and the result that must come out.

A record is made from its number. The number can be found in the result, so a loader that loses,
repeats or damages a record gets no figure. Needs NumPy; `jpeg` needs Pillow.
"""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from loaders.files import as_jpeg
from loaders.workloads import Workload
from numpy.typing import NDArray

CROP, ROW = 224, 2048
"""Rows and columns of a crop from a JPEG of 256 × 256, and tokens in a packed row."""


def records(workload: Workload, count: int) -> Iterator[Any]:
    """The first ones: images, arrays of tokens (`packing`), numbers (`parquet`), or bytes."""
    kinds = {"mnist": image, "jpeg": photograph, "packing": document, "parquet": int}
    return map(kinds.get(workload.name, kilobyte), range(count))


def image(number: int) -> NDArray[np.uint8]:
    """28 × 28, with the number in its first three pixels."""
    made = np.full((28, 28), number % 251, np.uint8)
    made[0, :3] = number & 255, number >> 8 & 255, number >> 16
    return made


def kilobyte(number: int) -> bytes:
    """The number in 8 bytes, and 1,016 others."""
    return number.to_bytes(8, "little") + _noise()[number % 1000 : number % 1000 + 1016]


def photograph(number: int) -> bytes:
    """The number in 8 bytes, then a JPEG of 256 × 256 whose red is 40 + number % 160."""
    return number.to_bytes(8, "little") + _jpeg(number % 160)


def document(number: int) -> NDArray[np.uint16]:
    """1 to 2,048 tokens, each number % 60,000 + 1."""
    return np.full(length(number), number % 60_000 + 1, np.uint16)


def length(number: int) -> int:
    """Tokens in a document: many short ones, few long ones."""
    return 1 + number * 2_654_435_761 % 2**32 % (ROW if number % 7 == 0 else ROW // 6)


@functools.cache
def _noise() -> bytes:
    return np.random.default_rng(0).bytes(2016)


@functools.cache
def _jpeg(shade: int) -> bytes:
    wave = 20 * np.sin(np.arange(256) / 9) + np.random.default_rng(shade).normal(0, 12, (256, 256))
    wave -= wave.mean()
    pixels = np.stack([np.full((256, 256), 40 + shade), 128 + wave, 128 + wave.T], 2)
    return as_jpeg(pixels.clip(0, 255).astype(np.uint8), quality=90, subsampling=0)


def made(workload: Workload, record: Any) -> Any:
    """Return what a workload makes of a record: of `mnist` an array or its bytes, else bytes."""
    if workload.name == "mnist":
        if isinstance(record, bytes):
            record = np.frombuffer(record, np.uint8).reshape(28, 28)
        return {"image": to_float(record)}
    return to_crop(record, random) if workload.name == "jpeg" else np.frombuffer(record, np.uint8)


def to_float(pixels: Any) -> NDArray[np.float32]:
    """Images from uint8 to float32 in [0, 1]."""
    return np.asarray(pixels, np.float32) / np.float32(255)


def to_crop(record: bytes, generator: Any) -> dict[str, Any]:
    """A random square of a photograph; the generator is `random`, or a NumPy one."""
    from PIL import Image

    with Image.open(io.BytesIO(record[8:])) as opened:
        pixels = np.asarray(opened)
    top, left = (int(generator.random() * (256 - CROP + 1)) for _ in range(2))
    crop = np.ascontiguousarray(pixels[top : top + CROP, left : left + CROP])
    return {"image": crop, "number": int.from_bytes(record[:8], "little")}


def numbers(workload: Workload, batch: Any) -> NDArray[np.int64]:
    """The numbers of the records in a batch, of `packing` one for each token; a ValueError if one
    was spoiled. They are a copy, so that who keeps them does not keep the memory of the batch.
    """
    if workload.name == "mnist":
        pixels = _checked(batch["image"], np.float32, (28, 28))
        first = np.rint(pixels[:, 0, :3] * 255).astype(np.int64)
        found = first @ np.array([1, 256, 65_536])
        right = np.rint(pixels[:, 14, 14] * 255) == found % 251
    elif workload.name in ("bytes_1k", "tar"):
        data = _checked(batch, np.uint8, (1024,))
        found = np.ascontiguousarray(data[:, :8]).view("<i8")[:, 0]
        right = data[:, -1] == np.frombuffer(_noise(), np.uint8)[found % 1000 + 1015]
    elif workload.name == "jpeg":
        pixels = _checked(batch["image"], np.uint8, (CROP, CROP, 3))
        found = np.array(batch["number"], np.int64)
        right = np.abs(pixels[:, 100:132, 100:132, 0].mean(axis=(1, 2)) - 40 - found % 160) < 3
    elif workload.name == "parquet":
        found = np.array(batch["number"], np.int64)
        right = _checked(batch["value"], np.float32, ()) == found.astype(np.float32) / 2
    else:
        tokens = np.asarray(batch["tokens"])
        if tokens.ndim != 2 or tokens.shape[1] != ROW:
            raise ValueError(f"a batch of the shape {tokens.shape}, not (n, {ROW})")
        return tokens[tokens > 0].astype(np.int64) - 1
    if not np.all(right):
        raise ValueError(f"record {found[~right][0]} is spoiled")
    return found


def _checked(array: Any, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(array)
    if array.dtype != dtype or array.shape[1:] != shape:
        wanted = f"{np.dtype(dtype)}{('n', *shape)}"
        raise ValueError(f"a batch of {array.dtype}{array.shape}, not {wanted}")
    return array
