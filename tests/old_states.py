"""States of every kind of pipeline, as some version of headrace wrote them: `python old_states.py FILE` writes those of now.

`states_of_version_1.json` was written so by the code of version 1 of the states.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from pipelines import PIPELINES, loader

from headrace import ShardOptions

STEPS = (0, 1, 3, 6)
SHARED = (
    "batch",
    "flat map, batch",
    "filter, batch",
    "flat map, random, batch, random",
    "batch, flat map back, batch",
    "flat map",
)
AT = (1, 2, 4)


def shards(name: str, count: int, leave_out: bool = False) -> list[Any]:
    """One iterator for each shard of a pipeline."""
    made = []
    for index in range(count):
        one = loader(name, shard_options=ShardOptions(index, count))
        made.append(iter(one.skip([(3, 5)]) if leave_out else one))
    return made


def states_at(iterators: list[Any], steps: Any) -> list[str]:
    """The states after so many more elements of each."""
    for iterator, count in zip(iterators, steps):
        for _ in islice(iterator, count):
            pass
    return [iterator.get_state().decode() for iterator in iterators]


def resharded(name: str, leave_out: bool) -> list[Any]:
    """Two shards that go on after three that stood at unequal steps."""
    former = shards(name, 3, leave_out)
    states = [state.encode() for state in states_at(former, AT)]
    now = shards(name, 2, leave_out)
    for iterator in now:
        iterator.set_states(states)
    return now


def states() -> dict[str, Any]:
    """All of them: in the middle of a run, of shards, after another number of shards, with steps left out."""
    alone = {name: [states_at([iter(loader(name))], [step])[0] for step in STEPS] for name in PIPELINES}
    skipping = {name: states_at([iter(loader(name).skip([(2, 4)]))], [1]) for name in SHARED}
    elastic = {
        f"{name}, {leave_out}": [states_at(resharded(name, leave_out), [step, step]) for step in (0, 2)]
        for name in SHARED
        for leave_out in (False, True)
    }
    return {"alone": alone, "skipping": skipping, "elastic": elastic}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(states(), separators=(",", ":")))
