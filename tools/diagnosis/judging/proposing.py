"""What a proposed change would give, at best."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from ..measured import Measured
from .estimates import lighter, share_waited, step_seconds
from .verdict import Change, Finding

# work counts as hidden if the user waits for at most this share of the time, mostly for the
# hand-over
HIDDEN = 0.1


# Chosen: better than everything that was measured.
LEAST, FASTEST = 5e-6, 20e9
"""Smallest number of seconds of a step and most bytes per second that are promised.

The bytes are of batches. Both are for a best case.
"""


# Chosen: no two runs take the same time. If other programs use processors now, the factor is
# larger.
NOISE = 1.15
"""Largest factor between a computed and an actual step time.

Best cases ("up to") are divided by it.
"""


# Measured with the programs of docs/performance.md: the code and data of a step are no longer in
# the caches.
SMALL, COLD = 1 / 6, 1.6
"""Share, and factor of the speed of a step.

A step that takes less than this share of the current one may be faster by up to this factor.

Work is measured while other work interrupts it, and is faster without interruptions.
"""


DEFAULT_BUFFER = 500  # number of records that are read in advance by default


Propose: TypeAlias = Callable[[Measured, Finding], Iterable[Change]]


def effect(measured: Measured, what: str, seconds: float) -> str:
    """Describe the effect of a change as the end of a sentence, such as "4 workers would hide it".

    Args:
        measured: the measurement before the change.
        what: the change, such as "4 workers".
        seconds: seconds of a step after the change.
    """
    does = (
        "hide it"
        if hides(measured, seconds)
        else f"give {measured.elapsed / seconds:.1f} times the batches"
    )
    return f"{what} would {does}"


def hides(measured: Measured, seconds: float) -> bool:
    """Return True if the loop would hardly wait with steps of so many seconds."""
    return measured.step_known and share_waited(measured, seconds) <= HIDDEN


def at_most(measured: Measured, what: str, cure: str = "") -> Change:
    """Return a change with the seconds of a step in the best case.

    In the best case workers and loop never wait for each other, reads take no longer than alone,
    and headrace's own work takes no time.

    Args:
        measured: the measurement as it would be after the change.
        what: description of the change.
        cure: words that end the sentence about the finding (what the steps wait for), if the change
            is its remedy; else "".
    """
    waited = measured.waited if measured.step_known else measured.elapsed
    smooth = replace(lighter(measured, 0.0, "between"), waited=waited, unready=waited)
    if smooth.reads_ahead:  # nobody waits for reads, so as many are under way as can be
        read = (
            replace(part, seconds=0.0) if part.kind == "reading" else part for part in smooth.parts
        )
        smooth = replace(smooth, parts=tuple(read))
    alone = measured.records * measured.source.random
    if measured.source.singly and alone:
        smooth = replace(smooth, read_seconds=min(smooth.read_seconds, alone))
    seconds = step_seconds(smooth, measured.workers) / noise(measured)
    if seconds < SMALL * measured.elapsed:
        seconds = max(seconds / COLD, own(measured))
    return Change(what, max(seconds, LEAST, measured.nbytes / FASTEST), True, cure)


def noise(measured: Measured) -> float:
    """Return the relative error of a measurement, with other programs on the machine."""
    return NOISE * (1 + measured.others / measured.cores)


def own(measured: Measured) -> float:
    """Return the seconds of the user's own step, without noise; 0 if it is unknown."""
    return measured.own / noise(measured) if measured.step_known else 0.0
