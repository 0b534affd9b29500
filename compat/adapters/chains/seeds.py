"""Seeds derived from an earlier `seed(…)`, as in Grain, for operations without their own seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....chains.map_dataset import MapDataset
from ....chains.nodes.node import Seeds
from ....common.validation import whole_number
from ....errors import SeedError

_HIGHEST = (1 << 32) - 1


def seeds_of(dataset: Any) -> Seeds:
    """Return pairs of a seed that `seed(…)` set, and its distance from the dataset's end.

    The distance is a number of operations.
    """
    seeds: Seeds = (
        dataset.root_node if isinstance(dataset, MapDataset) else dataset.chain_stream
    ).seeds
    return seeds


def seed_of(method: str, seed: Any, seeds: Seeds) -> int:
    """Return `seed`, or, if it is None, a seed derived from `seeds`.

    The derived seed depends on the distance to each operation `seed(…)`.

    Args:
        method: name of the method that needs the seed, for the error.
        seed: the seed that the user passed, or None.
        seeds: pairs of a seed set before and its distance in operations.

    Raises:
        SeedError: if `seed` is None and `seeds` is empty.
        TypeError, ValueError: if `seed` is not an int of 0 or more.

    >>> seed_of("shuffle", None, ((42, 0),))
    3329053876
    """
    if seed is not None:
        return whole_number("seed", seed, 0, None, "an int, seed=0 for example")
    if not seeds:
        raise SeedError(
            f"`{method}` requires a seed. Pass {method}(…, seed=0), or call dataset.seed(0) before "
            "it."
        )
    words = [word for own, depth in seeds for word in (own, depth + 1)]
    return int(np.random.SeedSequence(words).generate_state(1, dtype=np.uint32)[0])


def shuffle_seed_of(seed: Any, seeds: Seeds) -> int:
    """Return the seed of a shuffle, an int in `[0, 2^32)`.

    Args:
        seed: the seed that the user passed; None: derived from `seeds`.
        seeds: pairs of a seed set before and its distance in operations.

    Raises:
        SeedError: if `seed` is None and `seeds` is empty.
        TypeError, ValueError: if `seed` is not such an int.
    """
    return whole_number(
        "seed",
        seed_of("shuffle", seed, seeds),
        0,
        _HIGHEST,
        "an int in [0, 2^32), seed=0 for example",
    )
