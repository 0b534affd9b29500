"""The global random generators of a process: NumPy's, that of `random`, and torch's where that is loaded.

In: that a worker begins, or where an element stands. Out: generators whose states no other process has, or that depend on the
element alone. Operations that draw from `RandomMapTransform`'s generator need nothing of this.
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
    """Torch's generator on the CPU; None where torch is not loaded, or is still being loaded by another thread."""
    return getattr(sys.modules.get("torch"), "default_generator", None)


def _numpy() -> Any:
    """`numpy.random`; None where nothing has used it yet, so that it is not loaded, or another thread is loading it."""
    module = sys.modules.get("numpy.random")
    return module if hasattr(module, "get_bit_generator") else None


def reseed() -> None:
    """Give all generators states that nobody has: a worker begins, whose process may be a copy of another one."""
    random.seed()
    if _numpy() is not None:
        _set_numpy(None)
    reseed_torch()


def reseed_torch() -> None:
    """Likewise of torch alone, where it is loaded."""
    if (generator := _torch()) is not None:
        generator.seed()


class LateTorch:
    """Notices that an operation has loaded torch, whose generator begins with the same state in each process.

    Attributes:
        seen: it was there before; nobody need ask.
    """

    def __init__(self) -> None:
        self.seen = "torch" in sys.modules

    def has_come(self) -> bool:
        """True once: the first time that the module is imported."""
        if self.seen or _torch() is None:
            return False
        self.seen = True
        return True


def seed_all(seed: int, position: int, row: int, operation: int) -> None:
    """Seed all generators by where an element stands, and the operation that is given it."""
    key = blake2b(struct.pack("<4Q", seed & _WORD, position & _WORD, row & _WORD, operation), digest_size=56).digest()
    random.seed(int.from_bytes(key[:24]))
    _set_numpy(np.frombuffer(key, np.uint32, 6, 24))
    if (generator := _torch()) is not None:
        generator.manual_seed(int.from_bytes(key[48:]))


_WORD = (1 << 64) - 1


def _set_numpy(words: Any) -> None:
    """Seed NumPy's generator by `uint32[n]`, or by what the system has for None; whichever bit generator it stands on."""
    bits = np.random.get_bit_generator()  # type: ignore[attr-defined]  # NumPy's stubs lack it
    if isinstance(bits, np.random.MT19937):
        np.random.seed(words)
    else:  # the user has exchanged it
        bits.state = type(bits)(words).state


def states() -> tuple[Any, ...]:
    """The states of the generators of Python, NumPy and torch; None of what is not loaded."""
    numpys, torchs = _numpy(), _torch()
    return (
        random.getstate(),
        None if numpys is None else numpys.get_state(legacy=False),
        None if torchs is None else torchs.get_state(),
    )


@contextmanager
def left_alone() -> Iterator[None]:
    """Restore the global generators afterwards, whatever was drawn or seeded meanwhile."""
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
