"""Digests of streams of pipelines of every kind: `python golden_streams.py FILE` writes those of
the present code.

`golden_streams.json` has them. If a change of the code changes one, it has changed the order of
records or the random numbers of operations.
"""

from __future__ import annotations

import hashlib
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from support import described_pipelines
from support.pipelines import PIPELINES, loader, stream

from headrace import ShardOptions

SHARED = (
    "batch",
    "flat map, batch",
    "filter, batch",
    "flat map, random, batch, random",
    "batch, flat map back, batch",
    "flat map",
)
AT = (1, 2, 4)
"""Steps of the three shards before the run goes on with two."""


def digest(elements: list[Any]) -> str:
    """A digest of a stream."""
    return hashlib.sha256(repr(elements).encode()).hexdigest()[:16]


def whole(name: str) -> str:
    """Digest of the stream of a pipeline, from its beginning to its end."""
    made = described_pipelines.PIPELINES
    return digest(stream(made[name]() if name in made else loader(name)))


def resharded(name: str, skips: bool) -> list[list[str]]:
    """Digests of the streams of two shards after three that stopped at unequal steps: all, and
    after two more steps.
    """

    def shards(count: int) -> list[Any]:
        loaders = [loader(name, shard_options=ShardOptions(index, count)) for index in range(count)]
        return [iter(one.skip([(3, 5)]) if skips else one) for one in loaders]

    former = shards(3)
    for iterator, count in zip(former, AT):
        list(islice(iterator, count))
    states = [iterator.get_state() for iterator in former]
    found = []
    for more in (0, 2):
        two = shards(2)
        for iterator in two:
            iterator.set_states(states)
            list(islice(iterator, more))
        again = shards(2)
        for iterator, other in zip(again, two):
            iterator.set_state(other.get_state())
        found.append([digest(stream(iterator)) for iterator in again])
    return found


if __name__ == "__main__":
    lines = {
        "whole": {name: whole(name) for name in (*PIPELINES, *described_pipelines.PIPELINES)},
        "resharded": {
            f"{name}, {skips}": resharded(name, skips) for name in SHARED for skips in (False, True)
        },
    }
    Path(sys.argv[1]).write_text(json.dumps(lines, indent=1) + "\n")
