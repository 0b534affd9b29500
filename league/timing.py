"""Measure a loader in its own environment, for the speed league.

    python timing.py ADAPTER WORKLOAD FOLDER WORKERS SECONDS RECORDS

ADAPTER and WORKLOAD are names. FOLDER gets the data if it does not exist. Prints lines of JSON. After
the lines `begin` and `end`, it waits for a line of input, so that the program that started it can
inspect its processes. If SECONDS is 0, it runs one epoch, to check that each record comes once.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from records import length, numbers, records
from workloads import WORKLOADS, Workload

WARM_SECONDS = 0.5
"""After the first batch, so that what was made before the loop is not counted."""

EPOCHS = 1000


def tell(**what: Any) -> None:
    """A line of JSON; `begin` and `end` wait for an answer."""
    print(json.dumps(what), flush=True)
    if what.get("at"):
        sys.stdin.readline()


def written(adapter: Any, workload: Workload, folder: Path, count: int) -> Path:
    """The folder of the data; made whole, or not at all."""
    if not folder.exists():
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        adapter.write(workload, records(workload, count), unfinished)
        unfinished.rename(folder)
    return folder


def faults(workload: Workload, came: list[Any], count: int, whole: bool) -> str:
    """What is wrong with the numbers that came, if anything; `whole` says that they are those of one epoch."""
    found = np.concatenate(came) if came else np.zeros(0, np.int64)
    if not len(found):
        return "nothing came"
    if found.min() < 0 or found.max() >= count:
        return f"a record {found.max()} came, and there are {count}"
    times = np.bincount(found, minlength=count)
    packed = workload.name == "packing"
    wanted = np.array([length(number) for number in range(count)]) if packed else np.ones(count, np.int64)
    if whole and (times < wanted).any():
        return f"{(times < wanted).sum()} of {count} records are lost, record {(times < wanted).argmax()} first"
    if whole and (times > wanted).any():
        return f"{(times > wanted).sum()} of {count} records are doubled, record {(times > wanted).argmax()} first"
    epochs = len(found) / wanted.sum()  # workers need not be equally far
    if not whole and (times > wanted * (3 * np.ceil(epochs) + 2)).any():
        return f"records are doubled: record {times.argmax()} came {times.max()} times in {epochs:.1f} epochs"
    if not whole and epochs >= 4 and not times.all():
        return f"{(times == 0).sum()} of {count} records are lost in {epochs:.1f} epochs, record {times.argmin()} first"
    if workload.shuffled and (np.diff(found[:1000]) == 1).mean() > 0.5:
        return "records are not shuffled"
    return ""


def check(workload: Workload, batches: Any, count: int) -> str:
    """Goes through one epoch."""
    came = [numbers(workload, batch) for batch in batches]
    return faults(workload, came, count, whole=True)


def measure(workload: Workload, batches: Any, seconds: float, count: int) -> str:
    """Goes through epochs for a time."""
    first = numbers(workload, next(batches))
    tell(first=time.time())
    warm = time.monotonic() + WARM_SECONDS
    came = [first]
    while time.monotonic() < warm:
        came.append(numbers(workload, next(batches)))
    tell(at="begin")
    begun, taken = time.monotonic(), 0
    while (now := time.monotonic()) < begun + seconds:
        came.append(numbers(workload, next(batches)))
        taken += len(came[-1])
    kept = sum(one.nbytes for one in came)  # by us, more of it the faster a loader is
    tell(at="end", rate=taken / (now - begun), seconds=now - begun, kept=kept)
    short = [len(one) for one in came if len(one) != workload.batch]
    if workload.name != "packing" and len(short) > 2 * len(came) * workload.batch / count + 8:
        return f"batches of {short[0]} in place of {workload.batch}"
    return faults(workload, came, count, whole=False)


def main() -> None:
    """Measures what the command line names."""
    name, wanted, folder, workers, seconds, count = sys.argv[1:]
    sys.path[:0] = [str(Path(__file__).parent / each) for each in ("speed_adapters", "adapters")]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # for workers
    adapter = importlib.import_module(name)
    workload = next(one for one in WORKLOADS if one.name == wanted)
    tell(versions=adapter.versions())
    if sentence := adapter.unclaimed(workload):
        return tell(unclaimed=sentence)
    place = written(adapter, workload, Path(folder), int(count))
    batches = iter(adapter.batches(workload, place, int(workers), EPOCHS if float(seconds) else 1))
    try:
        if float(seconds):
            return tell(wrong=measure(workload, batches, float(seconds), int(count)))
        return tell(wrong=check(workload, batches, int(count)))
    except Exception as error:
        return tell(wrong=f"{type(error).__name__}: {str(error)[-300:]}")  # a worker's own error comes last


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # a loader that hangs when it is closed has been measured already
