"""The state of all hosts: the states of their shards in one JSON text.

In: states of shards. Out: bytes; and back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ....common.messages import short_repr
from ....errors import CheckpointError


def as_one(step: int, shards: Sequence[str]) -> bytes:
    """Return one state that contains the states of all shards, in order, and the step count."""
    return json.dumps({"remote": 1, "step": step, "shards": list(shards)}).encode()


def of_shards(state: bytes) -> tuple[int, list[str]]:
    """Return the number of steps, and the states of all shards.

    Raises:
        CheckpointError: it is not a state of a `RemoteLoader`.
    """
    try:
        told = json.loads(state)
        return int(told["step"]), list(map(str, told["shards"]))
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{short_repr(state)} is not a state of a RemoteLoader. Pass the result of its "
            "get_state()."
        ) from error
