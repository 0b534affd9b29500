"""headrace in the speed league, with records of bytes in ArrayRecord files, which Grain reads, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from records import write_array_record
from speed_headrace import batches_of
from with_headrace import versions
from workloads import Workload

import headrace

__all__ = ["batches", "unclaimed", "versions", "write"]


def unclaimed(workload: Workload) -> str:
    """All but records of bytes: the column of headrace has these."""
    return "" if workload.name in ("bytes_1k", "jpeg") else "the same pipeline as in the column “headrace”"


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """ArrayRecord."""
    write_array_record(records, folder)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The same chain as with other files."""
    return batches_of(headrace.ArrayRecordDataSource(folder), workload, workers, epochs)
