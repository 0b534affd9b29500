"""Decide on one step of a run, from the offers of all processes. No I/O.

An offer says what a process has for the step: a batch, the end of its stream, or an error. A
verdict says what all processes do.

In: the offers of all processes. Out: one verdict. It is the same on all processes, because it
depends only on the offers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ....common.messages import first_few

OnUneven = Literal["error", "drop", "pad", "repeat"]

POLICIES: tuple[OnUneven, ...] = ("error", "drop", "pad", "repeat")
"""Values of `on_uneven`."""

FILLING = ("pad", "repeat")
"""Policies under which missing rows are filled in, with zeros or with rows that came before."""


@dataclass(frozen=True)
class Offer:
    """An offer: what one process has for a step.

    Attributes:
        kind: "batch", "end" (of its stream), "failed" (an error) or "closed" (the feeder was
            closed).
        policy: the process's `on_uneven`.
        rows: number of rows of the batch; -1 if it has no leading axis, or if its number of rows
            does not matter.
        usual: usual number of rows of the process's batches, to which a smaller batch is filled up;
            0 if it is unknown, or if the batch is not filled up.
        divisor: the number of rows must be a multiple of this, so that the rows can be divided over
            the devices.
        layout: description of the leaves of the batch, without the number of rows.
        steady: number of batches, from this one on, that certainly have equally many rows.
        detail: description of the error, if `kind` is "failed".
        at: number of steps of the process up to and including its batch, or up to the end of its
            stream; 0 if it is unknown.
        stops: True if this process was asked to end, so that all processes end their loops after
            this batch.
    """

    kind: Literal["batch", "end", "failed", "closed"]
    policy: OnUneven = "error"
    rows: int = 0
    usual: int = 0
    divisor: int = 1
    layout: str = ""
    steady: int = 1
    detail: str = ""
    at: int = 0
    stops: bool = False


@dataclass(frozen=True)
class Go:
    """Verdict: deliver the batch, filled up to a number of rows if `rows` is not None.

    A verdict says what all processes do at a step.

    Attributes:
        rows: number of rows; None to leave the batch as it is.
        certain: number of following batches for which this verdict holds too, so that the processes
            need not agree on them.
        at: number of steps, up to and including this batch, of the processes that have it; 0 if it
            is unknown.
        last: True if a process was asked to end, so that all processes end their loops after this
            batch.
    """

    rows: int | None = None
    certain: int = 0
    at: int = 0
    last: bool = False


@dataclass(frozen=True)
class Stop:
    """Verdict: the stream ends at this step, on all hosts.

    A verdict says what all processes do at a step.

    Attributes:
        at: if the streams of all processes have ended, the number of steps of the longest stream;
            otherwise 0.
    """

    at: int = 0


@dataclass(frozen=True)
class Refuse:
    """Verdict (what all processes do at a step): raise an error with this message, on all hosts."""

    message: str


Verdict = Go | Stop | Refuse


def decide(offers: Mapping[int, Offer], step: int) -> Verdict:
    """Return the verdict on step number `step`, from the offers of all processes.

    Args:
        offers: for each process, by its index, what it has for the step.
        step: number of the step in the run, for messages of errors.

    >>> decide({0: Offer("batch", rows=8), 1: Offer("batch", rows=8)}, 3)
    Go(rows=None, certain=0, at=0, last=False)
    >>> decide({0: Offer("batch", "pad", rows=8, usual=8), 1: Offer("end", "pad")}, 3)
    Go(rows=8, certain=0, at=0, last=False)
    >>> decide({0: Offer("batch", "drop", rows=8), 1: Offer("end", "drop")}, 3)
    Stop(at=0)
    """
    verdict = _decided(offers, step)
    if isinstance(verdict, Go) and any(offer.stops for offer in offers.values()):
        return replace(verdict, certain=0, last=True)
    return verdict


def _decided(offers: Mapping[int, Offer], step: int) -> Verdict:
    batches = {process: offer for process, offer in offers.items() if offer.kind == "batch"}
    trouble = _trouble(offers, batches, step)
    if trouble is not None:
        return trouble
    if not batches:
        return Stop(max(offer.at for offer in offers.values()))
    policy, rows = next(iter(offers.values())).policy, {offer.rows for offer in batches.values()}
    even = len(batches) == len(offers) and len(rows) == 1
    if policy == "repeat" and (
        without := [process for process, offer in offers.items() if _has_nothing(offer)]
    ):
        return Refuse(
            f"process {first_few(without, 8)} has no batch at all, so it has none to repeat. Give "
            'every process at least one batch, or pass on_uneven="pad" or "drop".'
        )
    if policy in FILLING and min(rows) >= 0:
        return _filled(offers, batches, rows)
    fit = all(offer.rows % offer.divisor == 0 for offer in batches.values())
    # one that does not fit becomes an error where it is divided, on all hosts
    if even and (fit or policy != "drop"):
        return Go(None, min(offer.steady for offer in batches.values()) - 1, _step_after(batches))
    return Stop() if policy == "drop" else Refuse(_uneven(offers, step))


def _trouble(offers: Mapping[int, Offer], batches: Mapping[int, Offer], step: int) -> Refuse | None:
    for process, offer in offers.items():
        if offer.kind in ("failed", "closed"):
            what = "closed its feeder" if offer.kind == "closed" else f"failed: {offer.detail}"
            return Refuse(
                f"process {process} {what} (before or at batch {step} of this run), so no process "
                "can continue. Correct the cause in that process, and restart all processes from "
                "the last checkpoint."
            )
    for what, values in (
        ("on_uneven", {process: offer.policy for process, offer in offers.items()}),
        ("batches", {process: offer.layout for process, offer in batches.items()}),
    ):
        if len(set(values.values())) > 1:
            each = first_few([f"process {process}: {value}" for process, value in values.items()])
            return Refuse(
                f"the processes have different {what} at batch {step} of this run ({each}); make "
                "them the same."
            )
    return None


def _has_nothing(offer: Offer) -> bool:
    return offer.kind == "end" and offer.at == 0


def _step_after(batches: Mapping[int, Offer]) -> int:
    return max(offer.at for offer in batches.values())


def _filled(offers: Mapping[int, Offer], batches: Mapping[int, Offer], rows: set[int]) -> Go:
    """Return the verdict to add rows to the batches of a step, so that all have equally many.

    The number is the largest number of rows of an offered batch, or of the usual batches of a
    process if that is larger. It is rounded up so that the rows can be divided over the devices of
    all processes.

    Args:
        offers: for each process, by its index, what it has for the step.
        batches: the offers among these that have a batch.
        rows: the different numbers of rows of the offered batches.
    """
    wanted = max(*rows, *(offer.usual for offer in offers.values()))
    divisor = math.lcm(*(offer.divisor for offer in offers.values()))
    certain = min(offer.steady for offer in offers.values()) - 1 if rows == {wanted} else 0
    return Go(-(-wanted // divisor) * divisor, certain, _step_after(batches))


def amount(offer: Offer) -> str:
    """Return a text that says how much a process has for a step, such as "8 rows".

    The text is "a batch" if the number of rows does not matter. If there is no batch, it says that
    the stream has ended.
    """
    if offer.kind != "batch":
        return "none, its stream has ended"
    return f"{offer.rows} rows" if offer.rows >= 0 else "a batch"


def _uneven(offers: Mapping[int, Offer], step: int) -> str:
    each = first_few(
        [f"process {process}: {amount(offer)}" for process, offer in sorted(offers.items())]
    )
    return (
        f"the processes have different amounts of data for batch {step} of this run ({each}), and "
        'a step of all processes would never end. Pass on_uneven="drop" to end here on all of '
        'them, or "pad" to continue with zeros and a mask. Or give all shards the same number of '
        "batches: drop_remainder=True for the shards and the Batch, or num_epochs=None."
    )
