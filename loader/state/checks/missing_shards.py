"""Check that there are states of all shards, if a restore needs them all.

In: states of one run. Out: a `MissingShardsError` if the run had more shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....errors import CheckpointError

if TYPE_CHECKING:
    from ..schema import LoaderState


class MissingShardsError(CheckpointError):
    """Raised if a restore needs the states of all shards, but got fewer.

    Without the missing states, the positions of the other shards are unknown.
    """


def check_all_shards(states: Sequence[LoaderState], change: str) -> None:
    """Check that there is a state of every shard.

    All states are necessary if the order has changed, because shards may have stopped at different
    steps.

    Args:
        states: states of one run.
        change: text that says what has changed, for the message.

    Raises:
        MissingShardsError: there are fewer states than the run had shards.
    """
    shards = states[0].shard[1]
    if len(states) < shards:
        raise MissingShardsError(
            f"{change} since the state was saved, and {len(states)} states of {shards} shards do "
            "not say at which steps the other shards were, so records could come twice or never. "
            "Call set_states(…) with the states of all shards. If all shards were at the same "
            "step, call set_states([state], equal_steps=True). If you passed strict=False, pass it "
            "again."
        )
