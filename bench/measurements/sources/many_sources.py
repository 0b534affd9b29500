"""Measure very many sources: mixes of 1,000 parts, and one source on 100,000 files.

    python bench/speed.py many_sources [--files 100000] [--parts 1000] [--workers 0,2] [--folder FOLDER]

A row shows the time to the first batch, memory, open files, and the size of the state. Each row is
measured in its own process. The time runs from before the sources are made (after the imports) to the
first shuffled batch of 64 documents. The number in brackets is the CPU time of the user's process; it
is useful on machines that others use, too. "one file" has the same documents in one file. "first time"
is without the facts that a source stores about its files, "again" is with them. The page cache has the
files in both cases. Memory is what the process and its workers have for themselves (unique set size)
after 20 batches. Open files and mappings are the maximum over these processes, for the data only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import headrace

DOCUMENTS = 10
"""Of each file."""

TOKENS = 64
"""Of each document."""


def write_tokens(folder: Path, files: int) -> None:
    """Small files of tokens with their offsets; not by `TokenWriter`, which waits for the disk for each."""
    folder.mkdir(parents=True)
    for number in range(files):
        tokens = np.full(DOCUMENTS * TOKENS, number % 65536, np.uint16)
        for name, array in ((f"{number:06d}.npy", tokens), (f"{number:06d}.npy.offsets", offsets(DOCUMENTS))):
            with open(folder / name, "wb") as file:
                np.save(file, array)


def offsets(documents: int) -> Any:
    """Of documents of one length."""
    return np.arange(0, documents * TOKENS + 1, TOKENS)


def write_one(folder: Path, files: int) -> None:
    """The documents of all files, in one."""
    folder.mkdir(parents=True)
    np.save(folder / "all.npy", np.repeat(np.arange(files, dtype=np.uint16), DOCUMENTS * TOKENS))
    with open(folder / "all.npy.offsets", "wb") as file:
        np.save(file, offsets(files * DOCUMENTS))


def write_array_records(folder: Path, files: int, records: int = DOCUMENTS) -> None:
    """Small files of records of bytes."""
    from array_record.python.array_record_module import ArrayRecordWriter

    folder.mkdir(parents=True)
    for number in range(files):
        writer = ArrayRecordWriter(str(folder / f"{number:06d}.array_record"), "group_size:1")
        for _ in range(records):
            writer.write(number.to_bytes(8, "little") * (TOKENS // 4))
        writer.close()


def array(record: bytes) -> Any:
    """A record as an array."""
    return np.frombuffer(record, np.uint16)


def source_loader(make: Callable[[str], Any]) -> Callable[[Path, int], Any]:
    """A loader over one source on a folder."""

    def loader(folder: Path, workers: int) -> Any:
        return _loader(make(str(folder)), headrace.IndexSampler, workers)

    return loader


def mix_loader(make: Callable[[str], Any]) -> Callable[[Path, int], Any]:
    """A loader over a mix, of which each file of a folder is a part."""

    def loader(folder: Path, workers: int) -> Any:
        paths = sorted(path for path in folder.iterdir() if path.suffix in (".npy", ".array_record"))
        return _loader({path.stem: make(str(path)) for path in paths}, headrace.MixSampler, workers)

    return loader


def _loader(source: Any, sampler: Any, workers: int) -> Any:
    operations = [array] if isinstance(_first(source), headrace.ArrayRecordDataSource) else []
    records = source if sampler is headrace.MixSampler else len(source)
    order = sampler(records, shuffle=True, seed=1)
    return headrace.DataLoader(
        data_source=source, sampler=order, operations=[*operations, headrace.Batch(64)], worker_count=workers
    )


def _first(source: Any) -> Any:
    return next(iter(source.values())) if isinstance(source, dict) else source


ROWS: dict[str, tuple[str, Callable[[Path, int], Any]]] = {
    "tokens, one file": ("one", source_loader(headrace.TokenSource)),
    "tokens, {files} files": ("files", source_loader(headrace.TokenSource)),
    "tokens, {parts} parts": ("parts", mix_loader(headrace.TokenSource)),
    "ArrayRecord, one file": ("record", source_loader(headrace.ArrayRecordDataSource)),
    "ArrayRecord, {parts} parts": ("records", mix_loader(headrace.ArrayRecordDataSource)),
}


def measure(name: str, folder: Path, workers: int) -> dict[str, float]:
    """The figures of one row, in this process."""
    began, cpu = time.perf_counter(), time.process_time()
    loader = ROWS[name][1](folder, workers)
    with iter(loader) as batches:
        next(batches)
        first, cpu = time.perf_counter() - began, time.process_time() - cpu
        for _ in range(20):
            next(batches)
        state = len(batches.get_state())
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        memory = sum(process.memory_full_info().uss for process in processes) / 2**20
        return {
            "first": first,
            "cpu": cpu,
            "memory": memory,
            "open": max(
                sum(file.path.startswith(str(folder)) for file in process.open_files()) for process in processes
            ),
            "mapped": max(_mappings(process.pid, folder) for process in processes),
            "state": state,
        }


def _mappings(pid: int, folder: Path) -> int:
    return sum(str(folder) in line for line in Path(f"/proc/{pid}/maps").read_text().splitlines())


def row(name: str, folder: Path, workers: int) -> dict[str, Any]:
    """The figures of one row, from a process of its own."""
    arguments = ["--row", name, "--folder", str(folder), "--workers", str(workers)]
    command = [sys.executable, sys.argv[0], "many_sources", *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def run(root: Path, files: int, parts: int, workers: list[int]) -> None:
    """Write the files that are not there, and print the table."""
    writers = {
        "one": lambda folder: write_one(folder, files),
        "files": lambda folder: write_tokens(folder, files),
        "parts": lambda folder: write_tokens(folder, parts),
        "record": lambda folder: write_array_records(folder, 1, parts * DOCUMENTS),
        "records": lambda folder: write_array_records(folder, parts),
    }
    for name, write in writers.items():
        if not (root / name).is_dir():
            write(root / name)
    print(
        "| | workers | first batch, first time | … again | memory | open files | mappings | state |\n|---|" + "---|" * 7
    )
    for name, (place, _) in ROWS.items():
        for count in workers:
            for kept in (root / place).glob(".files.*"):
                os.remove(kept)
            cold, warm = (row(name, root / place, count) for _ in range(2))
            told = name.format(files=f"{files:,}", parts=f"{parts:,}")
            print(
                f"| {told} | {count} | {_time(cold)} | {_time(warm)} | {warm['memory']:.0f} MB | "
                f"{warm['open']} | {warm['mapped']} | {warm['state']:,} bytes |",
                flush=True,
            )


def _time(figures: dict[str, Any]) -> str:
    return f"{figures['first']:.2f} s ({figures['cpu']:.2f})"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--parts", type=int, default=1_000)
    parser.add_argument("--workers", default="0,2")
    parser.add_argument(
        "--folder", type=Path, help="where files are, or are written and left; default: a temporary one"
    )
    parser.add_argument("--row", help=argparse.SUPPRESS)


def main(options: argparse.Namespace) -> None:
    """Print the table, or, as its child, the figures of one row."""
    if options.row:
        print(json.dumps(measure(options.row, options.folder, int(options.workers))))
        return
    workers = [int(count) for count in options.workers.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        run(options.folder or Path(temporary), options.files, options.parts, workers)
