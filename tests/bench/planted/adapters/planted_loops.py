"""Loops for `speed.py compare` that do other work than they should."""

import numpy as np
from adapters.plain_loops import Loop, bare


def loader(work, workers, fault=""):
    """The batches of the bare loop, with a fault in the third one."""
    return Loop(_batches, work, workers, fault)


def _batches(work, workers, fault):
    for number, batch in enumerate(bare(work, workers)):
        if number == 2 and fault == "spoils one":
            batch[1] += 1
        if number == 2 and fault == "another order":
            batch = batch[::-1]
        yield (
            batch.astype(np.float64)
            if fault == "another dtype"
            else batch[:-1]
            if fault == "short"
            else batch
        )
