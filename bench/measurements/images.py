"""Compare operations on images with Pillow, which returns the same pixels: by time of the
processor, in turns, on one thread.

    python bench/speed.py images [--rounds 7]

The images are the photographs of scikit-learn and parts of them, as JPEGs. Pillow is used in the
usual way: `Image.open(…).convert("RGB")`, and `resize` (bilinear) to 224 × 224, of the whole image
or of a piece. docs/performance.md has the results.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from loaders.files import jpegs
from measurement import Table
from measuring import processor_rate
from PIL import Image

from headrace import DecodeImage, RandomResizedCrop

OPTIONS = {"rounds": 7}
SIZE, AT_ONCE = 224, 12
PARTS = [np.s_[:, :], np.s_[:375, :500], np.s_[100:356, 100:356]]

DECODE, CROP, RNG = DecodeImage(), RandomResizedCrop(SIZE), np.random.default_rng(0)


def pillow(data: bytes) -> Image.Image:
    """Decode as programs do most often."""
    return Image.open(io.BytesIO(data)).convert("RGB")


def small(image: Image.Image, box: tuple[int, ...] | None = None) -> np.ndarray:
    """The whole image or a piece in the size of the model."""
    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box))


def pillow_cropped(data: bytes) -> np.ndarray:
    """A piece of half of the image, which is the mean of the random ones."""
    image = pillow(data)
    width, height = image.size
    left, top = width // 5, height // 5
    return small(image, (left, top, left + int(width * 0.73), top + int(height * 0.73)))


WAYS = {
    "decode": {
        "Pillow": lambda data: np.asarray(pillow(data)),
        "DecodeImage()": DECODE.map,
        "DecodeImage(fast=True)": DecodeImage(fast=True).map,
    },
    "decode to 224 × 224": {
        "Pillow": lambda data: small(pillow(data)),
        "DecodeImage(224)": DecodeImage(SIZE).map,
    },
    "decode, random crop": {
        "Pillow": pillow_cropped,
        # the generator takes 2 µs, as in a loader
        "DecodeImage(), RandomResizedCrop(224)": lambda data: CROP.random_map(
            DECODE.map(data), RNG
        ),
    },
}


def images(subsampling: str, options: Any) -> Iterator[Table]:
    """All ways, with images of a kind."""
    data = [*jpegs(PARTS, quality=90, subsampling=subsampling)] * AT_ONCE
    for what, ways in WAYS.items():
        rates = {label: partial(processor_rate, act, data) for label, act in ways.items()}
        title = f"{subsampling}, {what} (images for each second of the processor)"
        yield Table(title, rates, "more")


TABLES = {kind: partial(images, kind) for kind in ("4:2:0", "4:4:4")}
