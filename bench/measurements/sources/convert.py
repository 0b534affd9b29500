"""Compare `headrace.convert` with a bare loop of read and write: TFRecord → ArrayRecord, in two processes each.

    python bench/speed.py convert

The bare loop finds records by their lengths only. It checks no checksum, stores no index, computes no
hash, and does not wait until its files are on disk. Both run in fresh interpreters, and take turns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from processes import own_processor_seconds

import headrace
from headrace.formats.tfrecord import framed

BARE = """
import struct, sys
from array_record.python.array_record_module import ArrayRecordWriter
for path in sys.argv[2:]:
    writer = ArrayRecordWriter(sys.argv[1] + "/" + path.rpartition("/")[2] + ".array_record", "group_size:1")
    with open(path, "rb", 1 << 20) as file:
        while header := file.read(12):
            record = file.read(struct.unpack_from("<Q", header)[0])
            file.read(4)
            writer.write(record)
    writer.close()
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--records", type=int, default=150_000, help="in each of four files")
    parser.add_argument("--bytes", type=int, default=1000, help="of a record")
    parser.add_argument("--rounds", type=int, default=3)


def main(options: argparse.Namespace) -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = _files(folder / "in", options.records, options.bytes)
        total = options.records * len(paths)
        found = {"bare loop": [], "headrace": []}
        for _ in range(options.rounds):
            found["bare loop"].append(_measured(lambda: _bare(paths, folder / "out")))
            found["headrace"].append(_measured(lambda: _ours(paths, folder / "out")))
            shutil.rmtree(folder / "out")
        for kind, place in (("wall time", 0), ("time of the cores", 1)):
            bare, ours = (total / min(run[place] for run in runs) for runs in found.values())
            print(f"{kind}: bare loop {bare:,.0f} records/s, headrace {ours:,.0f} records/s, {ours / bare:.2f} of it")


def _files(folder, records, size):
    folder.mkdir()
    rows = np.random.default_rng(0)
    paths = [folder / f"part-{number}.tfrecord" for number in range(4)]
    for path in paths:
        path.write_bytes(b"".join(framed(rows.bytes(size)) for _ in range(records)))
    return paths


def _measured(run):
    """Seconds of wall time, and of the cores."""
    before, start = own_processor_seconds(), time.perf_counter()
    run()
    return time.perf_counter() - start, own_processor_seconds() - before


def _bare(paths, target):
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target)
    halves = [list(map(str, paths[:2])), list(map(str, paths[2:]))]
    processes = [subprocess.Popen([sys.executable, "-c", BARE, str(target), *half]) for half in halves]
    if sum(process.wait() for process in processes):
        raise SystemExit("the bare loop failed")


def _ours(paths, target):
    shutil.rmtree(target)
    headrace.convert(paths, target, workers=2, progress=False)
