"""List of contenders: from names on the command line to contenders.

It takes names, numbers of workers, and a workload. A library is imported only if it takes part.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contender import Contender
from loops import LOOPS
from workloads import Workload


@dataclass(frozen=True)
class Entry:
    """A library under one setting, or what takes a worker count like one.

    Attributes:
        key: what `--contenders` calls it.
        make: takes a worker count.
        requires: the module that must be installed.
        needs_workers: whether it makes no sense without.
        chain: whether it takes part only where a workload names it.
    """

    key: str
    make: Callable[[int], Contender]
    requires: str
    needs_workers: bool = False
    chain: bool = False


def _headrace(worker_count: int) -> Contender:
    from with_headrace import Headrace

    return Headrace(worker_count)


def _grain(worker_count: int) -> Contender:
    from with_grain import Grain

    return Grain(worker_count)


def _grain_inline(worker_count: int) -> Contender:
    from with_grain import Grain

    return Grain(worker_count, num_threads=0)


def _torch(worker_count: int) -> Contender:
    from with_torch import Torch

    return Torch(worker_count)


def _torch_stack(worker_count: int) -> Contender:
    from with_torch import Torch

    return Torch(worker_count, stack=True)


def _limits(worker_count: int) -> Contender:
    from side_by_side import SideBySide

    return SideBySide(worker_count)


def _chain(worker_count: int) -> Contender:
    from with_headrace import Chain

    return Chain(worker_count)


def _mix(worker_count: int) -> Contender:
    from with_headrace import Mix

    return Mix(worker_count)


def _grain_chain(worker_count: int) -> Contender:
    from with_grain import Chain

    return Chain(worker_count)


def _grain_chain_inline(worker_count: int) -> Contender:
    from with_grain import Chain

    return Chain(worker_count, num_threads=0)


def _packing(worker_count: int) -> Contender:
    from with_headrace import Packing

    return Packing(worker_count)


def _grain_packing(worker_count: int) -> Contender:
    from with_grain import Packing

    return Packing(worker_count)


def _grain_packing_inline(worker_count: int) -> Contender:
    from with_grain import Packing

    return Packing(worker_count, num_threads=0)


def _ideal(worker_count: int) -> Contender:
    from ideal import Ideal

    return Ideal(worker_count)


def _asynchronous(worker_count: int) -> Contender:
    from with_headrace import Asynchronous

    return Asynchronous(worker_count)


LIBRARIES = (
    Entry("headrace", _headrace, "headrace"),
    Entry("chain", _chain, "headrace", chain=True),
    Entry("mix", _mix, "headrace", chain=True),
    Entry("grain_chain", _grain_chain, "grain", chain=True),
    Entry("grain_chain_inline", _grain_chain_inline, "grain", chain=True),
    Entry("packing", _packing, "headrace", chain=True),
    Entry("grain_packing", _grain_packing, "grain", chain=True),
    Entry("grain_packing_inline", _grain_packing_inline, "grain", chain=True),
    Entry("grain", _grain, "grain"),
    Entry("grain_inline", _grain_inline, "grain"),
    Entry("torch", _torch, "torch"),
    Entry("torch_stack", _torch_stack, "torch"),
    Entry("asynchronous", _asynchronous, "headrace", chain=True),
    Entry("ideal", _ideal, "numpy", chain=True),
    Entry("limits", _limits, "multiprocessing", needs_workers=True),
)
KEYS = (*(loop.key for loop in LOOPS), *(entry.key for entry in LIBRARIES))
EVERYWHERE = ("limit", "bare")
"""The loops that make sense for every workload."""


def missing(keys: Sequence[str]) -> dict[str, str]:
    """The contenders among `keys` that cannot take part, each with the module that is not installed."""
    wanted = [entry for entry in LIBRARIES if entry.key in keys]
    return {entry.key: entry.requires for entry in wanted if importlib.util.find_spec(entry.requires) is None}


def contenders_for(workload: Workload, keys: Sequence[str], worker_counts: Sequence[int]) -> list[Contender]:
    """The contenders of a workload in the order of their turns: the limit loop and headrace next to each other."""
    loops = [loop for loop in LOOPS if loop.key in keys and loop.key in (*EVERYWHERE, *workload.references)]
    entries = [entry for entry in LIBRARIES if entry.key in keys and (not entry.chain or entry.key in workload.chains)]
    if workload.only:
        loops, entries = [], [entry for entry in LIBRARIES if entry.key in keys and entry.key in workload.only]
    if workload.only_chains:
        loops, entries = [], [entry for entry in entries if entry.chain]
    libraries = [entry.make(count) for entry in entries for count in worker_counts if count or not entry.needs_workers]
    return [*loops[:1], *libraries[:1], *loops[1:], *libraries[1:]]
