"""How long a step would take, were something else than it is. Arithmetic on what was measured.

In: what was measured, and a change. Out: seconds of a step.

A step takes as long as the slowest of those who work at the same time: the user's thread, which takes batches over and does the
user's own work; the workers, who share their work; and the processors, which do what of that work is not waiting. Workers in a
Ray cluster bring processors of their own.
"""

from __future__ import annotations

from .measured import Measured

HAND_OVER = 1e-4
"""Seconds that a batch costs the user's thread when a worker made it, where this was not measured. Measured by `mnist`."""

CLOSE = 1.03
"""A step that takes so many times the user's own is as good as one that never waits."""

FULL = 0.8
"""Share of the time of all cores. Chosen: what others and the system do takes the rest."""

MOST_WORKERS = 512


def step_seconds(measured: Measured, workers: int, *, saved: float = 0.0) -> float:
    """Seconds of a step with some number of workers, and with so many seconds of their work saved.

    >>> loop = Measured(100, 0.03, 0.02, 0.02, 32, 4096, (), workers=2)
    >>> round(step_seconds(loop, 4), 3)  # nothing to do: the user's own work is all that is left
    0.01
    """
    work = max(measured.work - saved, 0.0)
    processor = measured.processor * (work / measured.work if measured.work else 0.0)
    if workers == 0:
        return measured.own + work + (0.0 if measured.workers == 0 else measured.hand_over)
    cores = (processor + measured.own_processor) / measured.cores if measured.worker_kind != "ray" else 0.0
    return max(floor_seconds(measured), work / workers, cores)


def floor_seconds(measured: Measured) -> float:
    """Seconds of a step that no worker can make shorter: the user's own, and the taking over of batches."""
    return measured.own + (measured.hand_over if measured.workers else HAND_OVER) + _feeding(measured)


def enough_workers(measured: Measured, saved: float = 0.0) -> int:
    """The smallest number of workers that hides their work, or from which on more of them gain nothing."""
    goal = CLOSE * step_seconds(measured, MOST_WORKERS, saved=saved)
    low, high = 1, MOST_WORKERS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if step_seconds(measured, middle, saved=saved) <= goal else (middle + 1, high)
    return low


def all_cores_work(measured: Measured) -> bool:
    """Whether the processors of this machine have hardly anything left to give."""
    needed = measured.processor + measured.own_processor
    return measured.worker_kind != "ray" and needed > FULL * measured.cores * measured.elapsed


def share_waited(measured: Measured, seconds: float) -> float:
    """Of a step of so many seconds."""
    return max(1.0 - measured.own / seconds, 0.0) if seconds else 0.0


def _feeding(measured: Measured) -> float:
    """What a device feeder does while nobody else works at the batch."""
    fed = measured.feeding
    return 0.0 if fed is None else fed.transforming + fed.agreeing + fed.transfer
