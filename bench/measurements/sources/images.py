"""Compare operations on images with Pillow, which returns the same pixels: CPU time, in turns, on one thread.

    python bench/speed.py images [--rounds 7]

The images are the photographs of scikit-learn and parts of them, as JPEGs. Pillow is used in the usual
way: `Image.open(…).convert("RGB")`, and `resize` (bilinear) to 224 × 224, of the whole image or of a
piece. docs/performance.md has the results.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from functools import partial

import numpy as np
from measuring import cpu_of_each, medians, settle_allocator
from PIL import Image
from sklearn.datasets import load_sample_images

from headrace import DecodeImage, RandomResizedCrop

SIZE = 224
BOX = (100, 60, 500, 360)
AT_ONCE = 12

Act = Callable[[bytes], np.ndarray]


def jpegs(quality: int, subsampling: str) -> list[bytes]:
    """The photographs, and parts of them."""
    found = []
    for photo in load_sample_images().images:
        for part in (photo, photo[:375, :500], photo[100:356, 100:356]):
            out = io.BytesIO()
            Image.fromarray(part).save(out, "JPEG", quality=quality, subsampling=subsampling)
            found.append(out.getvalue())
    return found


def pillow(data: bytes) -> Image.Image:
    """Decode as programs do most often."""
    return Image.open(io.BytesIO(data)).convert("RGB")


def small(image: Image.Image) -> np.ndarray:
    """The whole image in the size of the model."""
    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR))


DECODE, FAST, SMALL = DecodeImage(), DecodeImage(fast=True), DecodeImage(SIZE)
CROP = RandomResizedCrop(SIZE)


def ours_cropped(data: bytes) -> np.ndarray:
    """A random piece; the generator costs what it costs in a loader, 2 µs."""
    return CROP.random_map(DECODE.map(data), RNG)


def pillow_cropped(data: bytes) -> np.ndarray:
    """A piece of a third of the image, which is the mean of the random ones."""
    image = pillow(data)
    width, height = image.size
    box = (width // 5, height // 5, width // 5 + int(width * 0.73), height // 5 + int(height * 0.73))
    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box))


RNG = np.random.default_rng(0)

PAIRS: dict[str, tuple[Act, dict[str, Act]]] = {
    "decode": (lambda data: np.asarray(pillow(data)), {"DecodeImage()": DECODE.map, "fast=True": FAST.map}),
    "decode to 224 × 224": (
        lambda data: small(pillow(data)),
        {"DecodeImage(224)": SMALL.map},
    ),
    "decode, random crop": (pillow_cropped, {"DecodeImage(), RandomResizedCrop(224)": ours_cropped}),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--rounds", type=int, default=7)


def main(options: argparse.Namespace) -> None:
    """Print a line for each operation."""
    settle_allocator()
    for quality, subsampling in ((90, "4:2:0"), (90, "4:4:4")):
        data = jpegs(quality, subsampling) * AT_ONCE
        for name, (reference, ours) in PAIRS.items():
            acts = {"Pillow": reference, **ours}
            found = medians(options.rounds, {label: partial(cpu_of_each, act, data) for label, act in acts.items()})
            base = found.pop("Pillow")
            told = ", ".join(f"{label} {base / seconds:.2f} ×" for label, seconds in found.items())
            print(f"{subsampling} {name}: Pillow {1 / base:,.0f} images/s; {told}", flush=True)
