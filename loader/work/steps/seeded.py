"""Seed the random generators before an operation processes an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....common.generators.global_random import seed_all
from ....common.generators.held_generators import seed_held
from ....operations.protocol import Context, Element, Step


def seeded(step: Step, context: Context, number: int, held: Sequence[Any]) -> Step:
    """Wrap the step of the operation with index `number`, so that random generators are seeded before each element.

    These are the global generators, and `held`: generators that are attributes of the operation. The
    seed, position and row come from `context`.
    """

    def seeded_step(element: Element) -> None:
        seed_all(context.seed, context.position, context.row, number)
        seed_held(held, context.seed, context.position, context.row, number)
        step(element)

    return seeded_step
