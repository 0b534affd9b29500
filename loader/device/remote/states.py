"""The state of all hosts: one JSON text that contains the states of their shards.

In: states of shards. Out: one state, as bytes; and from it the states of the shards again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ....common.messages import short_repr
from ....errors import CheckpointError
from ...state.kept import Kept


def as_one(step: int, shards: Sequence[str], extra: Any = None) -> bytes:
    """Return one state, as bytes, that contains the states of all shards, in order.

    Args:
        step: number of steps.
        shards: states of the shards.
        extra: values that the user has added to the state; None for none.
    """
    told = {"remote": 1, "step": step, "shards": list(shards)}
    return json.dumps(told if extra is None else {**told, "extra": extra}).encode()


def of_shards(state: bytes) -> tuple[int, list[str], Kept]:
    """Split a state that `as_one` made.

    Returns:
        Three values: the number of steps, the states of all shards, and the values that the user
        has added to the state.

    Raises:
        CheckpointError: `state` is not a state of a `RemoteLoader`.
    """
    try:
        told = json.loads(state)
        own = Kept.read({"extra": told.get("extra")})
        return int(told["step"]), list(map(str, told["shards"])), own
    except (AttributeError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{short_repr(state)} is not a state of a RemoteLoader. Pass the result of its "
            "get_state()."
        ) from error
