"""The chain behind a dataset of either kind, and the seeds that Grain makes of those set before in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....chains.nodes.node import Seeds
from ....common.validation import whole_number
from ....errors import SeedError

_HIGHEST = (1 << 32) - 1


def seeds_of(dataset: Any) -> Seeds:
    """The seeds that hold for a dataset of either kind."""
    seeds: Seeds = (dataset.root_node if hasattr(dataset, "root_node") else dataset.chain_stream).seeds
    return seeds


def seed_of(method: str, seed: Any, seeds: Seeds) -> int:
    """The seed that was passed, or one made of those below: another one for each distance from where they were set.

    Raises:
        SeedError: there is none.

    >>> seed_of("shuffle", None, ((42, 0),))
    3329053876
    """
    if seed is not None:
        return whole_number("seed", seed, 0, None, "an int, seed=0 for example")
    if not seeds:
        raise SeedError(f"`{method}` requires a seed: {method}(…, seed=0), or dataset.seed(0) before it.")
    words = [word for own, depth in seeds for word in (own, depth + 1)]
    return int(np.random.SeedSequence(words).generate_state(1, dtype=np.uint32)[0])


def shuffle_seed_of(seed: Any, seeds: Seeds) -> int:
    """The seed of a shuffle, in `[0, 2^32)`."""
    return whole_number("seed", seed_of("shuffle", seed, seeds), 0, _HIGHEST, "an int in [0, 2^32), seed=0 for example")
