"""Writes the chunks in the folder `litdata` with LitData. Not run by the tests.

    PYTHON_WITH_LITDATA tests/support/write_litdata.py

The functions of `SAMPLES` make the samples, so tests know what must be read.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "sources" / "litdata"
COUNT = 23
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP////////////////////////////////////////////////////////////////////////////"
    "//////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AR//Z"
)
"""A white pixel."""


def mixed(key: int) -> dict[str, Any]:
    """A sample with a value of each kind, as it must be read."""
    return {
        "int": key - 5,
        "float": key / 7,
        "bool": key % 3 == 0,
        "text": "é" * (key % 5),
        "bytes": bytes(range(key)),
        "row": np.arange(key, dtype=np.int16),
        "array": np.full((2, 3), key / 3, np.float32),
        "flags": np.array([[key % 2 == 0], [True]]),
        "tensor": np.full((1, 2), key, np.int64),
        "half": np.full(3, key, np.float16),
        "scalar": np.array(key / 2),
        "pil": np.full((2, 3, 3), key, np.uint8),
        "jpeg": JPEG,
        "image": JPEG,
        "list": [key] * (key % 4),
        "boxes": [
            {"x": number, "name": "b" * key, "y": None, "z": 0.5, "ok": True}
            for number in range(key % 3)
        ],
        "deep": [
            {
                "a": [1.5] * (key % 2),
                "b": [True, False],
                "c": ["x", "yz"],
                "d": {"e": [{"f": [key]}]},
            }
        ],
        "inner": {"pair": (key, "p"), "more": [key / 2]},
    }


def _as_written(key: int) -> dict[str, Any]:
    """A sample of `mixed`, of the classes that LitData stores in these ways."""
    import torch
    from litdata.types import Image as ImageFile
    from litdata.types import Jpeg
    from PIL import Image

    sample = mixed(key)
    return {
        **sample,
        "tensor": torch.from_numpy(sample["tensor"]),
        "half": torch.from_numpy(sample["half"]),
        "scalar": torch.tensor(key / 2, dtype=torch.float64),
        "pil": Image.fromarray(sample["pil"]),
        "jpeg": Jpeg(bytes=JPEG),
        "image": ImageFile(bytes=JPEG),
    }


def plain(key: int) -> dict[str, Any]:
    """A sample of plain values, which LitData stores in tables of Arrow."""
    return {
        "text": f"text {key}",
        "label": key % 4,
        "score": None if key < 2 else key / 8,
        "ids": list(range(key % 3)),
    }


def nested(key: int) -> Any:
    """A sample that is a list of a value, a tuple and a list."""
    return [key, (np.arange(key % 3), "t"), [key / 2]]


def number(key: int) -> int:
    """A sample that is a number."""
    return 3 * key


def tokens(key: int) -> Any:
    """A document of tokens."""
    return np.arange(key, 3 * key + 1, dtype=np.uint16)


SAMPLES: dict[str, Callable[[int], Any]] = {
    "mixed": mixed,
    "mixed_chunk": mixed,
    "mixed_batch": mixed,
    "mixed_sample": mixed,
    "plain": plain,
    "plain_zstd": plain,
    "nested": nested,
    "number": number,
    "tokens": tokens,
    "tokens_zstd": tokens,
}
"""The samples of each folder."""


def main() -> None:
    """Writes all folders."""
    from litdata.streaming.item_loader import TokensLoader
    from litdata.streaming.writer import BinaryWriter

    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, make in SAMPLES.items():
        kind, _, how = name.partition("_")
        options: dict[str, Any] = {"chunk_size": 9}
        if kind == "tokens":
            options = {"chunk_bytes": 500, "item_loader": TokensLoader(block_size=4)}
        if how:
            options |= {
                "compression": "zstd",
                "compression_level": "chunk" if how == "zstd" else how,
            }
        if how == "batch":
            options["compression_batch_size"] = 4
        writer = BinaryWriter(str(FOLDER / name), **options)
        for key in range(COUNT):
            writer[key] = _as_written(key) if kind == "mixed" else make(key)
        writer.done()
        writer.merge()
        index = json.loads((FOLDER / name / "index.json").read_text())
        index.pop("updated_at", None)
        (FOLDER / name / "index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main()
