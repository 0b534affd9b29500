"""Workloads of the comparison on the same data: records, and the work for each record."""

from __future__ import annotations

import asyncio
import io
import itertools
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from compare.work import ALL, Data, DifferentWorkError, Workload
from loaders.files import jpegs, write_array_record
from loaders.records import CROP, ROW
from numpy.typing import NDArray

from headrace.sources import ArrayRecordDataSource, MemorySource

LATENCY_SECONDS = 0.02
"""The time that each read of a source that waits takes."""

MANY = 51_200
"""Entries of a list whose distinct records are few, so that its order costs what others do."""


def normalise(element: dict[str, Any]) -> dict[str, Any]:
    """An image, or a batch of them, from uint8 to float32 in [0, 1]."""
    return {"image": element["image"].astype(np.float32) / 255, "label": element["label"]}


def flip_and_normalise(element: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """`normalise`, after a flip from left to right for one image in two."""
    image = element["image"]
    if rng.random() < 0.5:
        image = image[:, ::-1]
    return {"image": image.astype(np.float32) / 255, "label": element["label"]}


def as_bytes_array(record: bytes) -> NDArray[np.uint8]:
    """The bytes of a record."""
    return np.frombuffer(record, np.uint8)


def decode(record: bytes) -> NDArray[np.uint8]:
    """A JPEG image as an array."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(record)))


def decode_and_crop(record: bytes, rng: np.random.Generator) -> NDArray[np.uint8]:
    """A random square of a JPEG image."""
    image = decode(record)
    top = rng.integers(0, image.shape[0] - CROP + 1)
    left = rng.integers(0, image.shape[1] - CROP + 1)
    return image[top : top + CROP, left : left + CROP]


def without_flips(batch: dict[str, Any], records: Iterable[Any]) -> dict[str, Any]:
    """The batch with the pixels of each line in ascending order."""
    return {"image": np.sort(np.asarray(batch["image"]), axis=2), "label": batch["label"]}


def only_packed(batch: dict[str, Any], records: Iterable[Any]) -> dict[str, Any]:
    """Nothing, as packers fill rows differently, once rows are found to be documents, and full."""
    segments, positions, tokens = (
        np.asarray(batch[f"tokens{part}"]) for part in ("_segment_ids", "_positions", "")
    )
    begins = np.diff(segments, axis=1, prepend=0) > 0
    full = (segments > 0).mean() >= 0.9
    if not full or positions[begins].any() or tokens[segments == 0].any():
        raise DifferentWorkError("a row is not made of documents one after the other")
    return {name: np.zeros(0) for name in batch}


def without_crops(batch: Any, records: Iterable[Any]) -> NDArray[np.uint8]:
    """The decoded records, once each row has been found in its own."""
    images = [decode(record) for record in records]
    for number, (crop, image) in enumerate(zip(np.asarray(batch), images)):
        if not _is_crop(crop, image):
            raise DifferentWorkError(f"row {number} is no crop of the record with its key")
    return np.stack(images)


def _is_crop(crop: NDArray[np.uint8], image: NDArray[np.uint8]) -> bool:
    height, width = image.shape[0] - crop.shape[0], image.shape[1] - crop.shape[1]
    corners = image[: height + 1, : width + 8]
    candidates = np.lib.stride_tricks.sliding_window_view(corners, (1, 8, 3))
    tops, lefts = np.nonzero((candidates[:, :, 0, 0] == crop[0, :8]).all((-1, -2)))
    return any(np.array_equal(image[y : y + CROP, x : x + CROP], crop) for y, x in zip(tops, lefts))


def in_memory(records: list[Any]) -> Data:
    """A list, the same object for all contenders."""
    return Data(headrace=records, records=records, read=lambda keys: map(records.__getitem__, keys))


def digits(folder: Path) -> Data:
    """A list of dicts: as many random images, of the same size, as MNIST has."""
    return in_memory([row | {"image": row["image"].copy()} for row in _rows(_digits())])


def columnar_digits(folder: Path) -> Data:
    """A dict of arrays; for contenders that know no columns, a list of dicts of its rows."""
    columns = _digits()
    return replace(in_memory(_rows(columns)), headrace=MemorySource(columns), columns=columns)


def _digits() -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60_000, 28, 28, 1), np.uint8)
    return {"image": images, "label": rng.integers(0, 10, 60_000)}


def _rows(columns: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
    pairs = zip(columns["image"], columns["label"].tolist())
    return [{"image": image, "label": label} for image, label in pairs]


def large_images(folder: Path) -> Data:
    """Distinct images of 38 MB together, again and again."""
    images = np.random.default_rng(0).integers(0, 256, (256, CROP, CROP, 3), np.uint8)
    distinct = [{"image": image, "label": label} for label, image in enumerate(images)]
    return in_memory(distinct * (MANY // len(distinct)))


def photographs(folder: Path) -> Data:
    """JPEG files of 256×256 pixels: parts of two photographs, in three qualities."""
    corners = itertools.product((0, 85, 171), (0, 128, 256, 384))
    parts = [np.s_[top : top + 256, left : left + 256] for top, left in corners]
    distinct = [file for quality in (75, 85, 95) for file in jpegs(parts, quality=quality)]
    return in_memory(distinct * (MANY // len(distinct)))


def documents(folder: Path) -> Data:
    """20,000 documents of 500 tokens on average, none longer than a row."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.exponential(500, 20_000).astype(int), 1, ROW)
    return in_memory([{"tokens": rng.integers(1, 50_000, length, np.int32)} for length in lengths])


class SlowStore:
    """Records that take `LATENCY_SECONDS` to come, as from a network."""

    def __len__(self) -> int:
        return MANY

    def __getitem__(self, key: int) -> NDArray[np.int64]:
        time.sleep(LATENCY_SECONDS)
        return np.full(16, key)


class AsyncStore(SlowStore):
    """The same, as a coroutine."""

    async def __getitem__(self, key: int) -> NDArray[np.int64]:  # type: ignore[override]
        await asyncio.sleep(LATENCY_SECONDS)
        return np.full(16, key)


def slow_store(folder: Path) -> Data:
    """A source that waits."""
    store = SlowStore()
    return Data(store, store, lambda keys: map(store.__getitem__, keys), asynchronous=AsyncStore())


def kilobyte_records(folder: Path) -> Data:
    """A file of 50,000 records of 1,024 random bytes; written with `group_size:1,uncompressed`."""
    from array_record.python import array_record_data_source, array_record_module

    rng, form = np.random.default_rng(0), "group_size:1,uncompressed"
    path = write_array_record((rng.bytes(1024) for _ in range(50_000)), folder, options=form)
    options = {"options": "readahead_buffer_size:0", "file_reader_buffer_size": 4096}
    read = array_record_module.ArrayRecordReader(path, **options).read
    theirs = array_record_data_source.ArrayRecordDataSource(path)
    return Data(ArrayRecordDataSource(path), theirs, read)


CHAINS = ("chain", "grain_chain", "grain_chain_inline")

WORKLOADS = (
    Workload(
        name="mnist",
        about="60,000 records {uint8 28×28×1, int} in a list; each image to float32 / 255",
        make_data=digits,
        operation=normalise,
        contenders=(*ALL, *CHAINS, "mix"),
    ),
    Workload(
        name="columnar",
        about="the same records as a dict of arrays; batched, then each batch to float32 / 255. "
        "Contenders without columns get a list of dicts of rows",
        make_data=columnar_digits,
        operation=normalise,
        after_batch=True,
    ),
    Workload(
        name="array_record_1k",
        about="50,000 records of 1,024 random bytes in one ArrayRecord file "
        "(`group_size:1,uncompressed`, in the page cache), shuffled; each record `np.frombuffer`",
        make_data=kilobyte_records,
        operation=as_bytes_array,
        contenders=(*ALL, *CHAINS),
    ),
    Workload(
        name="images",
        about="256 distinct records {uint8 224×224×3, int} in a list; each image to float32 / 255; "
        "batches of 77 MB",
        make_data=large_images,
        operation=normalise,
    ),
    Workload(
        name="jpeg",
        about="72 distinct JPEG files of 256×256 in a list; decoded with Pillow, random crop of "
        "224×224, uint8",
        make_data=photographs,
        operation=decode_and_crop,
        settled=without_crops,
    ),
    Workload(
        name="random_map",
        about="as mnist, with a random flip from left to right",
        make_data=digits,
        operation=flip_and_normalise,
        settled=without_flips,
    ),
    Workload(
        name="packing",
        about="20,000 documents of 500 tokens on average, int32, in two lists, mixed 0.7 to 0.3; "
        f"packed by best fit into rows of {ROW:,} tokens; a record is a row",
        make_data=documents,
        operation=as_bytes_array,
        settled=only_packed,
        contenders=("packing", "grain_packing", "grain_packing_inline"),
        batch_size=8,
    ),
    *(
        Workload(
            name=f"waiting_{batch_size}",
            about=f"a source whose reads sleep {1000 * LATENCY_SECONDS:.0f} ms, and nothing else",
            make_data=slow_store,
            operation=np.asarray,  # there is nothing to do but wait
            contenders=("headrace", "grain", "asynchronous"),
            batch_size=batch_size,
        )
        for batch_size in (1, 32, 512)
    ),
)
