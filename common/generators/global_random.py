"""Seed, save and restore the global random generators of a process.

These are the generators of NumPy and `random`, and torch's if torch is loaded.

A worker process gives them new seeds when it starts, since it may be a copy of another process.
With `seed_globals=True`, they are seeded for each element by the element's position, so that an
operation that uses them gives the same result on any worker. Operations that use the generator of
`RandomMapTransform` do not need this.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np


def _torch() -> Any:
    """Return torch's CPU generator.

    Return None if torch is not loaded, or another thread is still loading it.
    """
    return getattr(sys.modules.get("torch"), "default_generator", None)


def _numpy() -> Any:
    """Return `numpy.random`; None if it is not loaded, or another thread is still loading it."""
    module = sys.modules.get("numpy.random")
    return module if hasattr(module, "get_bit_generator") else None


def reseed() -> None:
    """Give the global generators of Python, NumPy and torch new random states from the system.

    A worker calls it when it starts. Libraries that are not loaded are left out.
    """
    random.seed()
    if _numpy() is not None:
        _set_numpy(None)
    reseed_torch()


def reseed_torch() -> None:
    """Give torch's generator a new random state from the system, if torch is loaded."""
    if (generator := _torch()) is not None:
        generator.seed()


class LateTorch:
    """Detects that torch was loaded after this object was made, e.g. by an operation.

    Torch's generator must then be seeded: right after loading, it has the same state in every
    process.

    Attributes:
        seen: True if torch was already loaded, or `is_newly_loaded` has already returned True.
    """

    def __init__(self) -> None:
        self.seen = "torch" in sys.modules

    def is_newly_loaded(self) -> bool:
        """Return True at the first call after torch was loaded, else False.

        Always False if torch was already loaded when this object was made.
        """
        if self.seen or _torch() is None:
            return False
        self.seen = True
        return True


def seed_all(seed: int, position: int, row: int, operation: int) -> None:
    """Seed all global generators by the place of an element (seed, position, row) and an operation.

    Args:
        seed: seed of the run.
        position: position of the element.
        row: index of the element's row at this position.
        operation: index of the operation.
    """
    key = blake2b(
        struct.pack("<4Q", seed & _WORD, position & _WORD, row & _WORD, operation), digest_size=56
    ).digest()
    random.seed(int.from_bytes(key[:24]))
    _set_numpy(np.frombuffer(key, np.uint32, 6, 24))
    if (generator := _torch()) is not None:
        generator.manual_seed(int.from_bytes(key[48:]))


_WORD = (1 << 64) - 1


def _set_numpy(words: Any) -> None:
    """Seed NumPy's global generator with `words`, `uint32[n]`, or from the system for None."""
    bits = np.random.get_bit_generator()  # type: ignore[attr-defined]  # NumPy's stubs lack it
    if isinstance(bits, np.random.MT19937):
        np.random.seed(words)
    else:  # the user has exchanged it
        bits.state = type(bits)(words).state


def states() -> tuple[Any, ...]:
    """Return the states of the global generators of Python, NumPy and torch, in this order.

    None stands for a library that is not loaded.
    """
    numpys, torchs = _numpy(), _torch()
    return (
        random.getstate(),
        None if numpys is None else numpys.get_state(legacy=False),
        None if torchs is None else torchs.get_state(),
    )


@contextmanager
def restoring_global_generators() -> Iterator[None]:
    """Context manager that restores the global generators of Python, NumPy and torch at its end.

    If NumPy was loaded within the block, its generator gets a new random state; if torch was, its
    generator stays as it is.
    """
    pythons, numpys, torchs = states()
    try:
        yield
    finally:
        random.setstate(pythons)
        if numpys is not None:
            np.random.set_state(numpys)
        elif _numpy() is not None:  # it was loaded meanwhile
            _set_numpy(None)
        if torchs is not None:
            _torch().set_state(torchs)
