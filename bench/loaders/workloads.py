"""Workloads of the comparison of all loaders, as plain data. `records.py` makes the records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """A workload.

    Attributes:
        name: the name for `--workloads`.
        about: a line for the tables.
        batch: records, or rows, in a batch; only the last one of an epoch may be short.
        count: records in an epoch.
        unit: of a figure.
        shuffled: whether records must come in another order than they were written in.
    """

    name: str
    about: str
    batch: int
    count: int
    unit: str = "records/s"
    shuffled: bool = True


_COLUMNS = "two columns of a Parquet file, by row, in order"

WORKLOADS = (
    Workload("mnist", "28×28 images in memory or on disk, to float32 / 255, shuffled", 256, 60_000),
    Workload("bytes_1k", "records of 1 KB on disk, shuffled", 500, 100_000),
    Workload("jpeg", "decode 256×256 JPEG with Pillow, random crop, shuffled", 64, 4_000),
    Workload("packing", "documents packed into rows of 2,048 tokens", 8, 20_000, "tokens/s", False),
    Workload("tar", "samples of 1 KB of a tar file, in order", 500, 50_000, shuffled=False),
    Workload("parquet", _COLUMNS, 500, 200_000, shuffled=False),
)
