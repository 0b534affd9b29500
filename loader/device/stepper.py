"""Make one step of a feeder: put a batch on devices, once all hosts agree on the step.

In: items of the reader thread (a batch, the end, an error). Out: items for the user. Runs on the
transfer thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...common.messages import first_few, shorten
from ...errors import HostsError, ShardingError
from ..timing.profiles import profiled
from .hosts.agreement import Agreement
from .hosts.repeats import Repeats
from .hosts.verdict import FILLING, Go, Offer, Refuse, Stop, Verdict, decide
from .options import CommonOptions
from .prepared import Arrangement, Placement, Prepared, describe_leaf
from .queue import Delivered, End, Failed, Loaded, Times
from .upstream import Upstream

Stopped = Callable[[], bool]


class Stepper:
    """Makes the steps of a run of a feeder: each turns a batch on the host into a batch on devices.

    In a feeder without devices, the batch stays on the host, and is only filled up.

    Args:
        description: options of the feeder.
        upstream: wrapper of the iterator that the feeder reads.
        transfer: puts batches on devices, or keeps them on the host.
        agreement: agreement with other processes; None if no other process takes part.
    """

    def __init__(
        self,
        description: CommonOptions,
        upstream: Upstream,
        transfer: Placement,
        agreement: Agreement | None,
    ) -> None:
        self._upstream = upstream
        self._transfer = transfer
        self._agreement = agreement
        self._on_uneven = description.on_uneven
        # True: batches arrive here unchanged, so the numbers of rows that their iterator has
        # promised are right.
        self._promises = description.transform is None
        self._repeats = (
            Repeats(description.source, description.transform)
            if description.on_uneven == "repeat"
            else None
        )
        self._templates: dict[str, Any] = {}  # a batch without rows of each layout
        self._constants: dict[
            str, dict[str, bytes]
        ] = {}  # leaves without rows, equal in all batches of a layout
        self._known: tuple[Arrangement, int] | None = None
        self._known_verdict: Verdict | None = None
        self._most_rows: dict[
            str, int
        ] = {}  # by the batch's layout, where no pipeline says how many rows are usual

    def step(
        self, item: Loaded | End | Failed, stopped: Stopped
    ) -> Delivered | End | Failed | None:
        """Convert a reader thread's item to an item for the user, after all hosts agreed on it.

        Errors of the transfer are raised.

        Args:
            item: a batch, the end, or an error.
            stopped: function that returns True to stop waiting for other hosts.

        Returns:
            A `Delivered` batch. If this process has no batch left, but other hosts continue, this
            is a batch whose rows are all filled in. An `End` at the end of the stream on all hosts.
            A `Failed` if this process or the agreement failed. None if `stopped()` became True.
        """
        agree_from = time.perf_counter()
        if self._agreement is not None and not self._agreement.begin(stopped):
            return None
        prepared = self._prepared(item) if isinstance(item, Loaded) else None
        if isinstance(prepared, Failed):
            item, prepared = prepared, None
        verdict = self._verdict(item, prepared, stopped)
        if isinstance(item, Failed) or verdict is None:
            return item if isinstance(item, Failed) else None
        if isinstance(verdict, Stop):
            return End(at=verdict.at)
        if isinstance(verdict, Refuse):
            return Failed(HostsError(verdict.message))
        ended = isinstance(item, End)
        prepared = self._filler(item, verdict, stopped) if prepared is None else prepared
        if prepared is None:
            return None
        agreed = time.perf_counter()
        batch, mask = self._put(prepared, verdict.rows, 0 if ended else None)
        made = item.made if isinstance(item, Loaded) else (agree_from,) * 3
        times = Times(*made, agree_from, agreed, time.perf_counter())
        return Delivered(
            batch,
            mask,
            item.mark,
            times,
            empty=ended,
            at=verdict.at if ended else 0,
            last=verdict.last,
        )

    def _put(self, prepared: Prepared, rows: int | None, real: int | None) -> tuple[Any, Any]:
        try:
            with profiled("transfer"):
                return self._transfer.put(prepared, rows, real)
        except BaseException:
            if self._agreement is not None:
                self._agreement.spoiled = True
            raise

    def _prepared(self, item: Loaded) -> Prepared | Failed:
        try:
            prepared = self._transfer.prepare(item.batch)
            before = self._constants.get(prepared.arrangement.described)
            if before is not None and (now := prepared.constants()) != before:
                raise ShardingError(_describe_change(before, now))
            return prepared
        except Exception as error:
            return Failed(error)

    def _verdict(
        self, item: Loaded | End | Failed, prepared: Prepared | None, stopped: Stopped
    ) -> Verdict | None:
        usual = (
            self._usual(item, prepared.arrangement)
            if isinstance(item, Loaded) and prepared is not None
            else 0
        )
        known = self._known
        if (
            prepared is not None
            and known is not None
            and known[0] is prepared.arrangement
            and known[1] == usual
        ):
            return self._known_verdict
        offer = self._offer(item, prepared, usual)
        if self._agreement is not None:
            with profiled("agree"):
                return self._agreement.agree(offer, stopped)
        verdict = decide({0: offer}, 0)
        if prepared is not None:  # the next batch like this one needs no thought
            self._known, self._known_verdict = (prepared.arrangement, usual), verdict
        return verdict

    def _offer(self, item: Loaded | End | Failed, prepared: Prepared | None, usual: int) -> Offer:
        if isinstance(item, Failed):
            return self._failure(item.error)
        at = self._step_at(item)
        if prepared is None:
            return Offer("end", self._on_uneven, at=at, stops=self._upstream.stops)
        known = prepared.arrangement
        if (
            self._agreement is not None
            and self._on_uneven == "pad"
            and known.described not in self._templates
        ):
            layout = known.described
            self._templates[layout], self._constants[layout] = (
                prepared.template(),
                prepared.constants(),
            )
            self._agreement.give_template(layout, self._templates[layout])
        steady = self._upstream.steady(item.mark) if self._promises else 1
        return Offer(
            "batch",
            self._on_uneven,
            known.rows,
            usual,
            known.divisor,
            known.described,
            steady,
            at=at,
            stops=self._upstream.stops,
        )

    def _step_at(self, item: Loaded | End | Failed) -> int:
        """Return the number of steps up to and including a batch, or up to the end of the stream.

        Return 0 if the batches do not come from a `DataLoader`, or if the item is an error.
        """
        return (
            0
            if isinstance(item, Failed) or self._upstream.host_iterator is None
            else int(item.mark.step)
        )

    def _usual(self, item: Loaded, arrangement: Arrangement) -> int:
        """Return the number of rows to which batches of a layout are filled up if they have fewer.

        A layout is the structure, dtypes and shapes without rows. Return 0 if the batch is not
        filled up. The number depends only on the loader's operations, so that a resumed run has the
        same shapes. If the batches do not come from a `DataLoader`, the number is the largest
        number of rows of earlier batches with the same layout.

        Args:
            item: the batch.
            arrangement: facts about batches of its layout.
        """
        if self._on_uneven not in FILLING or arrangement.rows < 0:
            return 0
        if self._upstream.host_iterator is not None:
            return self._upstream.usual_rows(item.mark, arrangement.rows, not self._promises)
        most = max(self._most_rows.get(arrangement.described, 0), arrangement.rows)
        self._most_rows[arrangement.described] = most
        return most

    def _filler(
        self, item: Loaded | End | Failed, verdict: Go, stopped: Stopped
    ) -> Prepared | None:
        """Return the batch that this process delivers after the end of its own stream.

        With `on_uneven="pad"`, the batch has no rows, and is filled up later. With "repeat", it is
        one of this process's own batches again. Return None if `stopped()` became True.
        """
        assert self._agreement is not None
        layout = self._agreement.layout
        if self._repeats is None:
            return self._empty(self._agreement, layout, stopped)
        prepared = self._transfer.prepare(self._repeats.batch(verdict.at - self._step_at(item) - 1))
        if prepared.arrangement.described != layout:
            raise ShardingError(
                "this process has no batch left, and the batch that it would repeat has another "
                f"shape than the batch of the other processes ({prepared.arrangement.described}, "
                f'not {layout}). Make all batches alike, or pass on_uneven="pad" or "drop".'
            )
        return prepared

    def _empty(self, agreement: Agreement, layout: str, stopped: Stopped) -> Prepared | None:
        """Return a batch without rows, with the structure of the other processes' batches.

        The caller fills it up with zeros. If this process had no batch of this structure, another
        process sends one.

        Args:
            agreement: agreement with the other processes.
            layout: description of the leaves of their batches.
            stopped: function that returns True to stop waiting for the other process; the result is
                then None.

        Raises:
            HostsError: the batch of the other process has a class that this process has not
                imported.
        """
        if layout not in self._templates:
            template = agreement.template(stopped)
            if template is None:
                return None
            self._templates[layout] = template
        return self._transfer.prepare(self._templates[layout])

    def _failure(self, error: BaseException) -> Offer:
        return Offer("failed", self._on_uneven, detail=shorten(f"{type(error).__name__}: {error}"))

    def leave(self, error: BaseException | None) -> None:
        """Leave the agreement with the other hosts, and send them whether this host failed.

        Exception: if this host failed at a step to which all hosts agreed in advance, nothing is
        sent, because the other hosts do not wait for this host, and it can try the step again.

        Args:
            error: the error that ended the run, or None. An error that came from another host does
                not count as a failure of this host.
        """
        if self._repeats is not None:
            self._repeats.close()
        if self._agreement is not None:
            self._agreement.leave(
                None if error is None or isinstance(error, HostsError) else self._failure(error)
            )


def _describe_change(before: dict[str, bytes], now: dict[str, bytes]) -> str:
    names = [name for name, value in now.items() if before.get(name) != value]
    return (
        f"{first_few(list(map(describe_leaf, names)))} has no rows and changes from batch to "
        "batch: a host that has no batch left would put another value on its devices. Give this "
        'leaf rows, leave it out, or use on_uneven="drop".'
    )
