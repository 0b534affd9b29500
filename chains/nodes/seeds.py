"""Seeds of a chain: those that were set below, and what is made of them for what has none of its own.

In: seeds, and how far below they were set. Out: a seed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Seeds = tuple[tuple[int, int], ...]
"""Seeds that hold for a node, and how many nodes below it each stands."""


def nearest_first(of_inputs: Iterable[Seeds]) -> Seeds:
    """The seeds that hold for what stands on several inputs."""
    found = [(seed, depth + 1) for seeds in of_inputs for seed, depth in seeds]
    return tuple(sorted(found, key=lambda each: each[1]))


def default_seed(seeds: Seeds) -> int | None:
    """The seed of a node that has none of its own; another one for each distance from where seeds were set."""
    if not seeds:
        return None
    words = [word for each in seeds for word in each]
    return int(np.random.SeedSequence(words).generate_state(1, dtype=np.uint32)[0])
