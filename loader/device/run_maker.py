"""Begins the runs of a feeder: one at first, another one after an error or `set_state`.

In: what the description says. Out: runs. Nothing here knows the feeder, so that dropping it ends its run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .hosts.agreement import Agreements
from .hosts.verdict import OnUneven
from .run import Buffers, Intake, Run
from .stepper import Stepper
from .transfer import Transfer
from .upstream.protocol import Upstream
from .upstream.user_mark import UserMark


@dataclass(frozen=True)
class Runs:
    """What is the same for all runs of a feeder.

    Attributes:
        upstream: what is read from.
        transform: applied to batches on the host; None: nothing is.
        buffers: how many batches may wait.
        transfer: brings batches to devices.
        agreements: with the other processes.
        on_uneven: what to do when they have different amounts of data.
    """

    upstream: Upstream
    transform: Callable[[Any], Any] | None
    buffers: Buffers
    transfer: Transfer
    agreements: Agreements
    on_uneven: OnUneven

    def next(self, user: UserMark) -> Run:
        """Another run, from where the upstream iterator stands; to be started."""
        agreement, promises = self.agreements.next(), self.transform is None
        stepper = Stepper(self.upstream, self.transfer, agreement, self.on_uneven, promises)
        intake = Intake(self.upstream, self.transform, self.upstream.goes_back or not self.agreements.alone)
        return Run(intake, stepper, self.buffers, user.way_out)

    def forget(self) -> None:
        """The next run begins elsewhere, or there is none."""
        self.agreements.forget()
