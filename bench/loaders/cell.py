"""Measure one library on one workload, in its own environment; `speed.py loaders` starts this.

    python speed.py cell ADAPTER WORKLOAD FOLDER WORKERS SECONDS RECORDS

ADAPTER and WORKLOAD are names. FOLDER gets the data if it does not exist. Prints lines of JSON.
After the lines `begin` and `end`, it waits for a line of input, so that the program that started it
can inspect its processes. If SECONDS is 0, it runs one epoch, to check that each record comes once.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from libraries import adapter_of
from loaders.records import length, numbers, records
from loaders.workloads import WORKLOADS, Workload

EPOCHS = 1000


def tell(**what: Any) -> None:
    """A line of JSON; `begin` and `end` wait for an answer."""
    print(json.dumps(what), flush=True)
    if what.get("at"):
        sys.stdin.readline()


def write(adapter: Any, workload: Workload, folder: Path, count: int) -> None:
    """Write the data; whole, or not at all."""
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    adapter.write_workload(workload, records(workload, count), unfinished)
    unfinished.rename(folder)


def faults(workload: Workload, came: list[Any], count: int, whole: bool) -> str:
    """Return a text that says what is wrong with the records' numbers; "" if nothing is.

    `came` has an array of numbers for each batch. If `whole` is True, they are all of one epoch.
    """
    found = np.concatenate(came) if came else np.zeros(0, np.int64)
    if not len(found):
        return "nothing came"
    if found.min() < 0 or found.max() >= count:
        return f"a record {found.max()} came, and there are {count}"
    times = np.bincount(found, minlength=count)
    packed = workload.name == "packing"
    wanted = np.array([length(number) if packed else 1 for number in range(count)])
    epochs = len(found) / wanted.sum()  # workers need not be equally far
    lost = times < wanted if whole else (times == 0) & (epochs >= 4)
    doubled = times > wanted * (1 if whole else 3 * np.ceil(epochs) + 2)
    told = [
        f"{wrong.sum()} of {count} records are {what}, record {wrong.argmax()} first"
        for what, wrong in (("lost", lost), ("doubled", doubled))
        if wrong.any()
    ]
    if told:
        return f"{'; '.join(told)}; in {epochs:.1f} epochs"
    if workload.shuffled and (np.diff(found[:1000]) == 1).mean() > 0.5:
        return "records are not shuffled"
    return ""


def measure(workload: Workload, batches: Iterator[Any], seconds: float, count: int) -> str:
    """Go through epochs; who has started this program reads seconds of the processor meanwhile."""
    came: list[Any] = []

    def take(batch: Any) -> int:
        came.append(numbers(workload, batch))
        if len(came) == 1:
            tell(first=time.time())
        return len(came[-1])

    ends = iter(("begin", "end"))

    def processor() -> float:
        kept = sum(one.nbytes for one in came)  # by us, more of it the faster a loader is
        tell(at=next(ends), kept=kept)
        return 0.0

    turn = measuring.measure(batches, seconds, take, processor, time.perf_counter())
    tell(rate=turn.rate, seconds=turn.seconds)
    short = [len(one) for one in came if len(one) != workload.batch]
    if workload.name != "packing" and len(short) > 2 * len(came) * workload.batch / count + 8:
        return f"batches of {short[0]} in place of {workload.batch}"
    return faults(workload, came, count, whole=False)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    kinds = {"folder": Path, "workers": int, "seconds": float, "records": int}
    for name in ("adapter", "workload", *kinds):
        parser.add_argument(name, type=kinds.get(name, str))


def main(options: argparse.Namespace) -> None:
    """Measure what the command line names."""
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # for workers
    adapter = adapter_of(options.adapter)
    workload = next(one for one in WORKLOADS if one.name == options.workload)
    tell(versions={name: importlib.metadata.version(name) for name in adapter.PACKAGES})
    if workload.name in adapter.LACKS:
        tell(unclaimed=adapter.LACKS[workload.name])
    else:
        tell(wrong=played(adapter, workload, options))
    sys.stdout.flush()
    os._exit(0)  # a loader that hangs when it is closed has been measured already


def played(adapter: Any, workload: Workload, options: argparse.Namespace) -> str:
    """Loop over the batches, and return a text that says what is wrong with them; "" for nothing."""
    if not options.folder.exists():
        write(adapter, workload, options.folder, options.records)
    epochs = EPOCHS if options.seconds else 1
    batches = iter(adapter.batches(workload, options.folder, options.workers, epochs))
    try:
        if options.seconds:
            return measure(workload, batches, options.seconds, options.records)
        came = [numbers(workload, batch) for batch in batches]
        return faults(workload, came, options.records, whole=True)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[-300:]}"  # a worker's own error comes last
