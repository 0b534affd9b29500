"""Writes the MDS shards in the folder `mds` with MosaicML Streaming. Not run by the tests.

    PYTHON_WITH_STREAMING tests/sources/write_mds.py

The samples are those of `rows` below, so a test knows them.
"""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "sources" / "mds"
COUNT = 23
COLUMNS = {
    "bytes": "bytes",
    "text": "str",
    "int": "int",
    "fixed": "ndarray:float32:2,3",
    "typed": "ndarray:int16",
    "any": "ndarray",
    "u8": "uint8",
    "i64": "int64",
    "f16": "float16",
    "digits": "str_int",
    "number": "str_float",
    "decimal": "str_decimal",
    "json": "json",
    "pil": "pil",
}


def row(key: int) -> dict[str, Any]:
    """The sample of a key, as it must be read: columns are sorted by name."""
    key = int(key)
    found = {
        "bytes": bytes(range(key)),
        "text": "é" * (key % 5),
        "int": key - 5,
        "fixed": np.full((2, 3), key / 3, np.float32),
        "typed": np.arange(1 + key % 4, dtype=np.int16).reshape(1, -1),
        "any": np.arange(2 + 300 * (key % 2), dtype=np.uint8 if key % 2 else np.float64),
        "u8": np.uint8(key),
        "i64": np.int64(-key),
        "f16": np.float16(key / 2),
        "digits": 10**30 + key,
        "number": key / 7,
        "decimal": Decimal(key) / 4,
        "json": {"key": key, "list": [None, "x"]},
        "pil": np.full((2, 3, 3), key, np.uint8),
    }
    return dict(sorted(found.items()))


def main() -> None:
    """Writes shards without compression, and with each that Streaming knows."""
    from PIL import Image
    from streaming import MDSWriter

    shutil.rmtree(FOLDER, ignore_errors=True)
    for compression in (None, "zstd:3", "gz", "bz2", "br", "snappy"):
        out = FOLDER / (compression or "none").partition(":")[0]
        with MDSWriter(
            out=str(out), columns=COLUMNS, compression=compression, size_limit=6_000
        ) as writer:
            for key in range(COUNT):
                writer.write({**row(key), "pil": Image.fromarray(row(key)["pil"])})


if __name__ == "__main__":
    main()
