"""Find and seed the random generators that operations have in closures, attributes and objects.

Workers get copies of these generators, all with the same state, so two workers would draw the same
numbers. Therefore the user is warned of them or, with `seed_globals=True`, each is seeded for each
element. A generator in a module's global variable is not found if pickle stores only the name of
the function that uses it.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any

import numpy as np


def held_generators(value: Any) -> list[Any]:
    """Return the random generators that a value contains, also inside its attributes and closures.

    These are NumPy's `Generator` and `RandomState`, `random.Random`, and `torch.Generator`. If a
    part of the value cannot be pickled, the generators found before it are returned.

    >>> generator = np.random.default_rng(0)
    >>> held_generators(lambda record: record + generator.random()) == [generator]
    True
    """
    # A pickler walks through the value; its output is thrown away.
    import cloudpickle  # 10 ms of an import

    kinds = _kinds()
    found: dict[int, Any] = {}

    class GeneratorFinder(cloudpickle.Pickler):  # type: ignore[misc]
        """Pickler that records the random generators in a value."""

        def persistent_id(self, value: Any) -> str | None:
            """Record a generator, and return a text so that pickle does not look inside it.

            Return None for other values.
            """
            if not isinstance(value, kinds):
                return None
            found[id(value)] = value
            return "generator"

    with suppress(Exception):  # what cannot be pickled is told when the whole pipeline is
        GeneratorFinder(_Nowhere(), protocol=5, buffer_callback=lambda buffer: False).dump(value)
    return list(found.values())


def generators_by_operation(operations: Sequence[Any]) -> dict[int, list[Any]]:
    """Return, by the index of each operation, the list of random generators that it contains.

    Operations without generators are not in the dict.
    """
    return {number: held for number, one in enumerate(operations) if (held := held_generators(one))}


def _kinds() -> tuple[type, ...]:
    kinds: tuple[type, ...] = (np.random.Generator, np.random.RandomState, random.Random)
    torch_kind = getattr(sys.modules.get("torch"), "Generator", None)
    return kinds if torch_kind is None else (*kinds, torch_kind)


class _Nowhere:
    """File object that discards everything that is written to it."""

    def write(self, data: Any) -> int:
        return len(data)


def seed_held(
    generators: Sequence[Any], seed: int, position: int, row: int, operation: int
) -> None:
    """Seed each generator by an element's place and the index of an operation.

    Args:
        generators: generators that the operation holds; each also gets its own number in the seed.
        seed: seed of the run.
        position: position of the element.
        row: index of the element's row at this position.
        operation: index of the operation.
    """
    for number, generator in enumerate(generators):
        place = (seed & _WORD, position & _WORD, row & _WORD, operation, number)
        key = blake2b(struct.pack("<5Q", *place), digest_size=32).digest()
        if isinstance(generator, random.Random):
            generator.seed(int.from_bytes(key))
        elif isinstance(generator, np.random.RandomState):
            generator.seed(np.frombuffer(key, np.uint32))
        elif isinstance(generator, np.random.Generator):
            bits = generator.bit_generator
            bits.state = type(bits)(np.frombuffer(key, np.uint32)).state
        else:
            generator.manual_seed(int.from_bytes(key[:8]))


_WORD = (1 << 64) - 1


@contextmanager
def restoring(generators: Sequence[Any]) -> Iterator[None]:
    """Context manager that restores the states of these generators at the end of the block."""
    states = [_state(generator) for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states):
            _restore(generator, state)


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    return (
        generator.bit_generator.state
        if isinstance(generator, np.random.Generator)
        else generator.get_state()
    )


def _restore(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)
