"""Seed the random generators before an operation processes an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....common.generators.global_random import seed_all
from ....common.generators.held_generators import seed_held
from ....operations.protocol import Context, Element, Step


def seeded(step: Step, context: Context, number: int, held: Sequence[Any]) -> Step:
    """Return a function that first seeds random generators, then processes an element.

    The global generators are seeded, and the generators in `held`.

    Args:
        step: function that processes an element with the operation.
        context: has the seed, position and row of the element.
        number: index of the operation, which is part of the seed.
        held: generators that are attributes of the operation.
    """

    def seeded_step(element: Element) -> None:
        seed_all(context.seed, context.position, context.row, number)
        seed_held(held, context.seed, context.position, context.row, number)
        step(element)

    return seeded_step
