"""Decode, crop and flip JPEG photographs in worker processes, with a live throughput line.

The two photographs that ship inside scikit-learn are cut into 256×256 tiles and written to an
ArrayRecord file of JPEGs. Workers read, decode, crop at random to 224×224, flip at random and batch
them; the batches arrive through shared memory. The program checks that two workers give, byte for
byte, the stream of none, and that no process is left.

    python examples/jpeg_workers.py [--out FOLDER] [--workers 2] [--batches 60]
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import time
from pathlib import Path

import numpy as np
import psutil
from array_record.python.array_record_module import ArrayRecordWriter
from PIL import Image
from sklearn.datasets import load_sample_images
from tqdm import tqdm

from headrace import (
    ArrayRecordDataSource,
    Batch,
    DataLoader,
    IndexSampler,
    MapTransform,
    RandomMapTransform,
)

TILE, CROP, BATCH = 256, 224, 64


def write_tiles(path):
    """JPEGs of overlapping tiles of the photographs."""
    writer = ArrayRecordWriter(str(path), "group_size:1")
    for photograph in load_sample_images().images:
        for top in range(0, photograph.shape[0] - TILE + 1, 24):
            for left in range(0, photograph.shape[1] - TILE + 1, 24):
                jpeg = io.BytesIO()
                Image.fromarray(photograph[top : top + TILE, left : left + TILE]).save(
                    jpeg, "JPEG", quality=90
                )
                writer.write(jpeg.getvalue())
    writer.close()


class Decode(MapTransform):
    """JPEG bytes to `uint8[256, 256, 3]`."""

    def map(self, element):
        return np.asarray(Image.open(io.BytesIO(element)))


class CropAndFlip(RandomMapTransform):
    """A random window, every other one mirrored."""

    def random_map(self, element, rng):
        top, left = rng.integers(0, TILE - CROP + 1, size=2)
        window = element[top : top + CROP, left : left + CROP]
        return window[:, ::-1] if rng.random() < 0.5 else window


def make_loader(path, worker_count):
    source = ArrayRecordDataSource(str(path))
    return DataLoader(
        data_source=source,
        sampler=IndexSampler(len(source), shuffle=True, seed=0),
        operations=[Decode(), CropAndFlip(), Batch(BATCH)],
        worker_count=worker_count,
    )


def run(path, worker_count, batches):
    """Pull batches through; their digest, and images per second after the first batch."""
    digest = hashlib.sha256()
    with (
        iter(make_loader(path, worker_count)) as iterator,
        tqdm(total=batches * BATCH, unit="image") as line,
    ):
        line.set_description(f"{worker_count} workers")
        first = next(iterator)
        digest.update(first.tobytes())
        began = time.perf_counter()
        for _ in range(batches - 1):
            batch = next(iterator)
            digest.update(batch.tobytes())
            line.update(len(batch))
        rate = (batches - 1) * BATCH / (time.perf_counter() - began)
    return digest.hexdigest()[:16], rate


def main(out, workers, batches):
    path = out / "tiles.array_record"
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        write_tiles(path)
    alone, rate_alone = run(path, 0, batches)
    together, rate_together = run(path, workers, batches)
    if alone != together:
        sys.exit(f"FAILED: {workers} workers gave another stream than none: {together}, {alone}")
    print(f"verified: {workers} workers gave byte for byte the stream of none ({alone})")
    left = psutil.Process().children(recursive=True)
    if left:
        sys.exit(f"FAILED: processes were left behind: {left}")
    print("verified: no process is left")
    print(f"{rate_alone:,.0f} images/s without workers, {rate_together:,.0f} with {workers}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "output", help="folder for all files"
    )
    parser.add_argument("--workers", type=int, default=2, help="number of workers")
    parser.add_argument("--batches", type=int, default=60, help="number of batches to measure")
    arguments = parser.parse_args()
    main(arguments.out, arguments.workers, arguments.batches)
