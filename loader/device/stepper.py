"""One step of a feeder: from a batch on the host to one on the devices, as all hosts agree.

In: what the reader thread gives. Out: what the user takes. Runs on the transfer thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...errors import HostsError, ShardingError
from ...wording import brief, first_few
from .hosts.agreement import Agreement
from .hosts.verdict import Offer, OnUneven, Refuse, Stop, Verdict, decide
from .queue import Delivered, End, Failed, Loaded
from .shardings import told
from .stats import Times
from .transfer import Arrangement, Prepared, Transfer, span
from .upstream import Upstream

Stopped = Callable[[], bool]


class Stepper:
    """Makes the steps of one run.

    Args:
        upstream: what is read from.
        transfer: brings batches to devices.
        agreement: with the other processes; None: no other has a part in the run.
        on_uneven: what to do when they have different amounts of data.
        promises: whether batches arrive here as the upstream iterator gave them, so that what it knows of their rows holds.
    """

    def __init__(
        self, upstream: Upstream, transfer: Transfer, agreement: Agreement | None, on_uneven: OnUneven, promises: bool
    ) -> None:
        self._upstream = upstream
        self._transfer = transfer
        self._agreement = agreement
        self._on_uneven = on_uneven
        self._promises = promises
        self._promised = (upstream.batch_size or 0) if promises else 0
        self._template: Any = None
        self._constants: dict[str, bytes] | None = None  # of batches that are filled up
        self._known: Arrangement | None = None
        self._known_verdict: Verdict | None = None

    def step(self, item: Loaded | End | Failed, stopped: Stopped) -> Delivered | End | Failed | None:
        """What the user takes for an item; None when `stopped()` came true while others were waited for."""
        agree_from = time.perf_counter()
        prepared, failed = self._prepared(item)
        if prepared is not None and prepared.arrangement is self._known:
            verdict = self._known_verdict
        else:
            verdict = self._agreed(item, prepared, failed, stopped)
        if failed is not None or verdict is None:
            return failed
        if isinstance(verdict, Stop):
            return End()
        if isinstance(verdict, Refuse):
            return Failed(HostsError(verdict.message))
        if isinstance(item, End):
            prepared = self._empty(stopped)
        if prepared is None:
            return None
        agreed = time.perf_counter()
        batch, mask = self._put(prepared, verdict.rows)
        return Delivered(batch, mask, _mark(item), _times(item, agree_from, agreed), isinstance(item, End))

    def _put(self, prepared: Prepared, rows: int | None) -> tuple[Any, Any]:
        try:
            with span("transfer"):
                return self._transfer.put(prepared, rows)
        except BaseException:
            if self._agreement is not None:
                self._agreement.spoiled = True
            raise

    def _agreed(
        self, item: Loaded | End | Failed, prepared: Prepared | None, failed: Failed | None, stopped: Stopped
    ) -> Verdict | None:
        offer = self._offer(item, prepared, failed)
        if self._agreement is not None:
            with span("agree"):
                return self._agreement.agree(offer, stopped)
        verdict = decide({0: offer}, 0)
        if prepared is not None:  # the next batch like this one needs no thought
            self._known, self._known_verdict = prepared.arrangement, verdict
        return verdict

    def _prepared(self, item: Loaded | End | Failed) -> tuple[Prepared | None, Failed | None]:
        """The batch taken apart, or why it cannot be."""
        if not isinstance(item, Loaded):
            return None, item if isinstance(item, Failed) else None
        try:
            prepared = self._transfer.prepare(item.batch)
            if self._constants is not None and prepared.constants() != self._constants:
                raise ShardingError(self._told_change(prepared.constants()))
            return prepared, None
        except Exception as error:
            return None, Failed(error)

    def _told_change(self, constants: dict[str, bytes]) -> str:
        names = [name for name, value in constants.items() if (self._constants or {}).get(name) != value]
        return (
            f"{first_few(list(map(told, names)))} has no rows and changes from batch to batch: a host that has no "
            'batch any more would put another value on its devices. Give it rows, leave it out, or use on_uneven="drop".'
        )

    def _offer(self, item: Loaded | End | Failed, prepared: Prepared | None, failed: Failed | None) -> Offer:
        if failed is not None:
            return self._failure(failed.error)
        if prepared is None:
            return Offer("end", self._on_uneven, usual=self._usual())
        arrangement = prepared.arrangement
        if self._agreement is None:
            return Offer("batch", self._on_uneven, arrangement.rows, self._usual(), arrangement.divisor)
        if self._on_uneven == "pad" and self._template is None:
            self._template, self._constants = prepared.template(), prepared.constants()
            self._agreement.give_template(self._template)
        steady = self._upstream.steady(_mark(item)) if self._promises else 1
        return Offer(
            "batch",
            self._on_uneven,
            arrangement.rows,
            self._usual(),
            arrangement.divisor,
            arrangement.described,
            steady,
        )

    def _usual(self) -> int:
        """Rows that batches have, as far as is known."""
        return max(self._promised, self._transfer.most_rows)

    def _empty(self, stopped: Stopped) -> Prepared | None:
        """A batch without rows, to be filled up, like those that this process had or another one has."""
        if self._template is None and self._agreement is not None:
            self._template = self._agreement.template(stopped)
        return None if self._template is None else self._transfer.prepare(self._template)

    def _failure(self, error: BaseException) -> Offer:
        """What to tell the other processes of an error."""
        return Offer("failed", self._on_uneven, detail=brief(f"{type(error).__name__}: {error}"))

    def leave(self, error: BaseException | None) -> None:
        """The run ends here, by an error or not; that of others is no failure of its own."""
        if self._agreement is not None:
            failed = error is not None and not isinstance(error, HostsError)
            self._agreement.leave(self._failure(error) if failed and error is not None else None)


def _mark(item: Loaded | End | Failed) -> Any:
    assert not isinstance(item, Failed)
    return item.mark


def _times(item: Loaded | End | Failed, agree_from: float, agreed: float) -> Times:
    done = time.perf_counter()
    if isinstance(item, Loaded):
        return Times(item.read_from, item.read_to, item.transformed, agree_from, agreed, done)
    return Times(agree_from, agree_from, agree_from, agree_from, agreed, done)
