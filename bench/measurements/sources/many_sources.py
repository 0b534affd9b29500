"""Measure very many sources: mixes of 1,000 parts, and one source on 100,000 files.

    python bench/speed.py many_sources [--rounds 1] [--files 100000] [--parts 1000] [TABLE …]

A table shows the time to the first batch, memory, open files, and the size of the state. Each is
measured in its own process. The time runs from before the sources are made (after the imports) to the
first shuffled batch of 64 documents; CPU time is that of the user's process, which is useful on machines
that others use, too. "first time" is without the facts that a source stores about its files, "again" is
with them. The page cache has the files in both cases. Memory is what the process and its workers have for
themselves (unique set size) after 20 batches. Open files and mappings are the maximum over these processes,
for the data only.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from adapters.files import write_array_record
from measurement import Table

import headrace

OPTIONS = {"rounds": 1, "files": 100_000, "parts": 1_000}
DOCUMENTS, TOKENS = 10, 64
"""Documents of each file, and tokens of each document."""


def write_tokens(folder: Path, files: int, documents: int = DOCUMENTS) -> None:
    """Files of tokens with their offsets; not by `TokenWriter`, which waits for the disk for each."""
    offsets = np.arange(0, documents * TOKENS + 1, TOKENS)
    for number in range(files):
        tokens = np.full(documents * TOKENS, number % 65536, np.uint16)
        for name, array in ((f"{number:06d}.npy", tokens), (f"{number:06d}.npy.offsets", offsets)):
            with open(folder / name, "wb") as file:
                np.save(file, array)


def write_records(folder: Path, files: int, records: int = DOCUMENTS) -> None:
    """ArrayRecord files."""
    for number in range(files):
        write_array_record([number.to_bytes(8, "little") * (TOKENS // 4)] * records, folder, f"{number:06d}")


def array(record: bytes) -> Any:
    """A record as an array."""
    return np.frombuffer(record, np.uint16)


def loader_of(kind: Any, mixed: bool, folder: Path, workers: int) -> headrace.DataLoader:
    """A loader over one source on a folder, or over a mix, of which each file of the folder is a part."""
    operations = [array] if kind is headrace.ArrayRecordDataSource else []
    source: Any = kind(str(folder))
    if mixed:
        paths = sorted(path for path in folder.iterdir() if path.suffix in (".npy", ".array_record"))
        source = {path.stem: kind(str(path)) for path in paths}
    sampler, records = (headrace.MixSampler, source) if mixed else (headrace.IndexSampler, len(source))
    order = sampler(records, shuffle=True, seed=1)
    return headrace.DataLoader(
        data_source=source, sampler=order, operations=[*operations, headrace.Batch(64)], worker_count=workers
    )


def figures(kind: Any, mixed: bool, folder: Path, workers: int) -> dict[str, float]:
    """Of one source, in this process."""
    began, cpu = time.perf_counter(), time.process_time()
    with iter(loader_of(kind, mixed, folder, workers)) as batches:
        next(batches)
        first, cpu = time.perf_counter() - began, time.process_time() - cpu
        for _ in range(20):
            next(batches)
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        maps = [Path(f"/proc/{process.pid}/maps").read_text().splitlines() for process in processes]
        opened = [[file.path for file in process.open_files()] for process in processes]
        return {
            "first batch (s)": first,
            "first batch, CPU (s)": cpu,
            "memory (MB)": sum(process.memory_full_info().uss for process in processes) / 2**20,
            "open files": max(sum(path.startswith(str(folder)) for path in paths) for paths in opened),
            "mapped files": max(sum(str(folder) in line for line in lines) for lines in maps),
            "state (bytes)": len(batches.get_state()),
        }


def measured(write: Callable[..., Any], kind: Any, mixed: bool, options: Any) -> Iterator[Table]:
    """A table without workers, and one with two."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options)
        for workers in (0, 2):
            found: dict[str, list[float]] = {}
            for _ in range(options.rounds):
                for kept in Path(folder).glob(".files.*"):
                    kept.unlink()
                for time_of in ("first time", "again"):
                    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                        told = pool.submit(figures, kind, mixed, Path(folder), workers).result()
                    for name, value in told.items():
                        found.setdefault(f"{time_of}: {name}", []).append(value)
            form = f"a mix of {options.parts:,} parts" if mixed else "one source"
            yield Table(f"{kind.__name__}, {form}, {workers} workers", found)


TOKEN, RECORD = headrace.TokenSource, headrace.ArrayRecordDataSource
TABLES: dict[str, Any] = {
    "tokens_in_one_file": partial(measured, lambda at, n: write_tokens(at, 1, n.files * DOCUMENTS), TOKEN, False),
    "tokens_in_files": partial(measured, lambda at, n: write_tokens(at, n.files), TOKEN, False),
    "tokens_in_parts": partial(measured, lambda at, n: write_tokens(at, n.parts), TOKEN, True),
    "records_in_one_file": partial(measured, lambda at, n: write_records(at, 1, n.parts * DOCUMENTS), RECORD, False),
    "records_in_parts": partial(measured, lambda at, n: write_records(at, n.parts), RECORD, True),
}
