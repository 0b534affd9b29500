"""Faults of simulated runs: their probabilities, and the errors that a simulated run raises."""

from __future__ import annotations

from dataclasses import dataclass


class SimulationError(AssertionError):
    """A simulated run did not do what it must.

    `__notes__` has the events of the run, if a seed was played.
    """


class StuckError(SimulationError):
    """The caller waits for a result that will never come."""


class TransportMisuseError(SimulationError):
    """The caller called a method of a transport when the protocol does not allow it."""


class FakeWorkerDeath(BaseException):
    """Exception that ends the simulated worker whose operation raises it.

    It stands for a bug in compiled code that ends a process.
    """


@dataclass(frozen=True)
class Faults:
    """Probabilities of faults, for each step of a `FakeTransport`. The default is no fault.

    Attributes:
        die: a worker ends. Answers that were not received yet may be lost with it.
        hang: a worker stops. Used only if the run has a timeout, because otherwise the loop would
            wait for ever.
        come_back: a worker that has stopped continues.
        all_end: the process that makes workers ends, and all workers with it.
        lose: workers end with their machine, and their rows are lost. Set it only with
            `may_lose_rows`.
        resize: the number of workers for which there is room changes. Set it only with a `depth`.
        interrupt: Ctrl-C comes at a call of a method.
        most: largest number of ends, stops and interrupts together. A task is given up after three
            ends, so with at most two, no task is given up.
    """

    die: float = 0.0
    hang: float = 0.0
    come_back: float = 0.3
    all_end: float = 0.0
    lose: float = 0.0
    resize: float = 0.0
    interrupt: float = 0.0
    most: int = 2


NO_FAULTS = Faults()
