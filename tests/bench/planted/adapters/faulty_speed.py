"""An adapter for `speed.py` without a library: a right loader, into which `BENCH_FAULT` plants a
fault.
"""

import os
import time

import numpy as np
from loaders.records import to_float

FAULT = os.environ.get("BENCH_FAULT", "")


PACKAGES = ("numpy",)
LACKS = {"mnist": "“It cannot.”"} if FAULT == "claims nothing" else {}


def write_workload(workload, records, folder):
    """One array."""
    np.save(folder / "images.npy", np.stack(list(records)))


def batches(workload, folder, workers, epochs):
    """Shuffled epochs in batches; a fault with `timed` is only there where many epochs are asked
    for.
    """
    fault = FAULT.removeprefix("timed: ") if epochs > 1 or not FAULT.startswith("timed: ") else ""
    images = np.load(folder / "images.npy")
    size = workload.batch // 2 if fault == "short batches" else workload.batch
    first = None
    for epoch in range(epochs):
        places = _places(fault, np.random.default_rng(epoch).permutation(len(images)))
        for start in range(0, len(places), size):
            first = places[start : start + size] if first is None else first
            yield _batch(
                fault, images, first if fault == "one batch" else places[start : start + size]
            )


def _places(fault, places):
    if fault == "skips one":
        return places[1:]
    if fault == "skips half":
        return places[places % 2 == 0]
    if fault == "doubles one":
        return np.append(places, places[0])
    if fault == "one in place of another":
        places[5] = places[6]
    if fault == "does not shuffle":
        return np.sort(places)
    return places


def _batch(fault, images, places):
    if fault == "hangs":
        time.sleep(1000)
    if fault == "dies":
        os._exit(1)
    if fault == "raises":
        raise ValueError("this loader is broken")
    made = to_float(images[places])
    if fault == "spoils one":
        made[3, 14, 14] += 1 / 255
    if fault == "does not convert":
        return {"image": images[places]}
    if fault == "crops":
        return {"image": made[:, 1:]}
    return {"image": made}
