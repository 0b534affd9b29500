"""A random map with a key of its own: what it draws does not depend on where it stands in a pipeline.

In: elements. Out: elements.
"""

from __future__ import annotations

from ..common.keyed_random import KeyedGenerator
from .protocol import Context, Element, Operation, Step
from .transforms import RandomMapTransform


class KeyedRandomMap(Operation):
    """Draws by (seed, position, row, number), of which seed and number are its own, not the pipeline's.

    Args:
        transform: what it does.
        seed: in `[0, 2^64)`.
        number: tells it from other random maps of the same seed.
    """

    reads_position = True

    def __init__(self, transform: RandomMapTransform, seed: int, number: int) -> None:
        self.transform = transform
        self.seed = seed
        self.number = number

    def __repr__(self) -> str:
        return repr(self.transform)

    def generator(self) -> KeyedGenerator:
        """What it draws from, for one thread."""
        return KeyedGenerator(self.number)

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function, seed = self.transform.function, self.seed
        generator_at = self.generator().at

        def keyed_random_map_step(element: Element) -> None:
            try:
                then(function(element, generator_at(seed, context.position, context.row)))
            except Exception:
                context.blame(number)
                raise

        return keyed_random_map_step
