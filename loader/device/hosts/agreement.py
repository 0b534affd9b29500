"""Let processes agree on each step before the transfer, so that all have equally many batches.

In: this process's offer for a step (a batch, the end, an error). Out: a verdict (deliver the batch,
end, or raise an error), the same on all processes.

The processes exchange messages in a store (`store.py`): the key-value store of jax's coordination
service, or a folder that all of them share. They do so on the feeder's transfer thread and before
the training needs the batches. They do not use a collective operation of the devices, because on
another host it could come between the collectives of the training step. If all processes know that
the next n batches are full, they agree once for all n; with a folder, for at most 4 batches at a
time. For an endless loader whose batches all have equally many records, n has no limit.

Keys are `headrace/<processes>.<feeder>.<run>/<block of steps>/<step>/<process>`. Feeders of the
same processes are numbered in the order in which they are made, and the runs of a feeder in the
order in which they begin (a run begins after an error or `set_state`). The order is the same on all
processes. A process that has read the messages of a step has read the messages of all earlier
steps. So the first process deletes the messages of a block of steps once all processes have passed
it, and the last process to leave a run deletes the rest.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from ....common.messages import first_few
from ....errors import HostsError, ShardingError
from .store import KeyValueStore, MessageStore
from .template import from_text, to_text
from .verdict import Go, Offer, Refuse, Verdict, amount, decide

BLOCK = 64
"""Number of steps whose messages are deleted together."""

_feeder_numbers: dict[str, int] = Counter()
"""Number of feeders made so far, for each group of processes, by the name of the group."""


class Agreement:
    """The agreement of one run with the other processes, so that all take equally many batches.

    For each step, every process sends the others its offer (`Offer`: a batch, the end, an error),
    and computes the same verdict (what all processes do) from all offers. A run is the time in
    which the threads of a feeder work; a new run begins after an error or `set_state`. Only the
    run's transfer thread uses this object.

    Args:
        store: where the processes exchange messages.
        name: name of the run, the same on all processes.
        me: index of this process.
        processes: indices of all processes that take part.
    """

    def __init__(self, store: MessageStore, name: str, me: int, processes: Sequence[int]) -> None:
        self._store = store
        self._folder = f"headrace/{name}/"
        self._me = me
        self._processes = processes
        self._step = 0
        self._certain = 0  # number of next steps for which there is a verdict already …
        self._agreed: tuple[Offer, Go] | None = (
            None  # … this process's offer for them, and the verdict
        )
        self._kept_from = 0
        self._with_batches: list[int] = []
        self._gave: set[str] = set()
        self.layout = ""  # of the batches that others offered for the last step
        self.left = False  # True: the next run needs a new agreement
        # True: this process failed at a batch that had been agreed on, and the others continued
        self.spoiled = False

    def begin(self, stopped: Callable[[], bool]) -> bool:
        """Wait until the processes can exchange messages, and return True.

        Return False if `stopped()` becomes True before.

        Raises:
            HostsError: another process does not come.
        """
        return self._store.open(stopped)

    def agree(self, offer: Offer, stopped: Callable[[], bool]) -> Verdict | None:
        """Send this process's offer for the next step, and return the verdict for all processes.

        An offer says what a process has for the step; the verdict says what all processes do. This
        call waits for the offers of all processes. One exception: at a step to which all processes
        agreed in advance, nothing is sent, and the verdict is the one agreed on. If this process
        then does not have the batch that it promised, the verdict is a `Refuse` (an error).

        Args:
            offer: what this process has for the step.
            stopped: function that returns True to stop waiting; the result is then None.
        """
        if self._certain:
            return self._as_promised(offer)
        self._tell(offer)
        offers = self._hear(stopped)
        if offers is None:
            return None
        verdict = decide(offers, self._step)
        self._with_batches = [
            process for process in self._processes if offers[process].kind == "batch"
        ]
        self.layout = offers[self._with_batches[0]].layout if self._with_batches else ""
        if isinstance(verdict, Go):
            self._certain, self._agreed = (
                int(min(verdict.certain, self._store.most_certain)),
                (offer, verdict),
            )
        self._forget()
        self._step += 1
        return verdict

    def _as_promised(self, offer: Offer) -> Verdict:
        """Return the verdict for a step to which all processes agreed in advance.

        The verdict is a `Refuse` (an error) if this process failed, has no batch, or has another
        batch than the promised one.
        """
        assert self._agreed is not None
        promised, verdict = self._agreed
        if (offer.kind, offer.rows, offer.layout) == ("batch", promised.rows, promised.layout):
            self._certain -= 1
            self._step += 1
            return verdict
        if offer.kind == "failed":
            return Refuse(offer.detail)  # here alone: see `leave`
        self._certain = 0
        return Refuse(
            f"batch {self._step} of this run has {offer.rows} rows ({offer.layout or offer.kind}), "
            f"where the sampler and the Batch promised {amount(promised)} "
            f"({promised.layout or 'of any shape'}), so that the other processes were not asked. "
            "Let no operation and no transform= change shapes or dtypes from batch to batch."
        )

    def _key(self, step: int) -> str:
        return f"{self._folder}{step // BLOCK}/{step}/"

    def _tell(self, offer: Offer) -> None:
        self._store.set(self._key(self._step) + str(self._me), json.dumps(asdict(offer)))

    def _hear(self, stopped: Callable[[], bool]) -> dict[int, Offer] | None:
        folder = self._key(self._step)
        there, words = self._store.there(folder), {}
        for process in map(str, self._processes):
            words[process] = there.get(process) or self._wait_for(folder, process, stopped)
            if words[process] is None:
                return None
        return {
            int(process): Offer(**json.loads(word))
            for process, word in words.items()
            if word is not None
        }

    def _wait_for(self, folder: str, process: str, stopped: Callable[[], bool]) -> str | None:
        """Wait for a process's message about a step, and return the message.

        If the process leaves the run without such a message, return its message about leaving.

        Args:
            folder: beginning of the message's key; the index of the process is its end.
            process: index of the process, as text.
            stopped: function that returns True to stop waiting; the result is then None.
        """
        while not stopped():
            word = self._store.get(folder + process)
            if (
                word is None
                and (gone := self._store.there(f"{self._folder}gone/").get(process)) is not None
            ):
                # it may have left word and then gone
                return self._store.there(folder).get(process) or gone
            if word is not None:
                return word
        return None

    def _forget(self) -> None:
        """Delete the messages of the previous block of steps, which all processes have read."""
        block = self._step // BLOCK
        if self._me == self._processes[0] and block > self._kept_from:
            self._store.delete(f"{self._folder}{self._kept_from}/")
            self._kept_from = block

    def give_template(self, layout: str, template: Any) -> None:
        """Send the other processes a batch without rows, as a pattern for batches of its layout.

        A layout is the structure, dtypes and shapes without rows. A process that has no batch left
        makes its own batches by the pattern. Only the first call for a layout has an effect.

        Args:
            layout: description of the leaves of the batch, without the number of rows.
            template: the batch without rows.
        """
        if layout not in self._gave:
            self._store.set(f"{self._templates(layout)}{self._me}", to_text(template))
            self._gave.add(layout)

    def template(self, stopped: Callable[[], bool]) -> Any:
        """Return a batch without rows, sent by another process: a pattern for batches.

        It has the layout (structure, dtypes and shapes without rows) of the last step.

        Args:
            stopped: function that returns True to stop waiting; the result is then None.

        Raises:
            HostsError: the batch has a class that this process has not imported, or cannot be sent
                as text.
        """
        process = self._with_batches[0]
        text = self._wait_for(self._templates(self.layout), str(process), stopped)
        return None if text is None else from_text(text)

    def _templates(self, layout: str) -> str:
        digest = hashlib.blake2b(layout.encode(), digest_size=8).hexdigest()
        return f"{self._folder}template/{digest}/"

    def leave(self, failure: Offer | None) -> None:
        """Leave a feeder's run, and send the other processes a message that says so.

        The last process to leave deletes the keys of the run. Exception: if this process failed at
        a step to which all processes agreed in advance, it does not leave, because the others do
        not wait for it and it can try the step again. But if a transfer failed (`spoiled`), it
        leaves in any case.

        Args:
            failure: offer of the kind "failed" with the error because of which this process leaves;
                None if it did not fail.
        """
        if failure is not None and self._certain and not self.spoiled:
            return
        self.left = True
        if not self._store.is_open:  # no other process has heard of this run
            return
        last = failure or Offer("closed")
        self._store.set(f"{self._folder}gone/{self._me}", json.dumps(asdict(last)))
        if self._store.count(f"{self._folder}left") == len(self._processes):
            self._store.delete(self._folder)


class Agreements:
    """Makes an `Agreement` for each run of a device feeder.

    By their agreements, all processes that hold a part of the feeder's batches take the same number
    of batches. A feeder begins a new run after an error or `set_state`. Each run has an agreement
    of its own, with one exception: if the last run failed at a step to which all processes had
    agreed in advance, the new run continues with the agreement of the last run.

    Args:
        me: index of this process.
        processes: indices of all processes that hold a part of each batch.
        new_store: function that returns the store in which the processes exchange messages. It is
            called when a run begins.

    Raises:
        ShardingError: this process holds no part of the batches.
    """

    def __init__(
        self,
        me: int,
        processes: Sequence[int],
        new_store: Callable[[], MessageStore] = KeyValueStore,
    ) -> None:
        if processes and me not in processes:
            raise ShardingError(
                "all devices of the sharding belong to other processes "
                f"({first_few(processes, 8)}), and this is process {me}. Pass a device of "
                "jax.local_devices() or a mesh that contains one, or use the feeder only in these "
                "processes."
            )
        self._me = me
        self._processes = processes
        self._new_store = new_store
        self._alone = set(processes) <= {me}
        if not self._alone:
            name = hashlib.blake2b(repr(sorted(processes)).encode(), digest_size=8).hexdigest()
            self._feeder = f"{name}.{_feeder_numbers[name]}"
            _feeder_numbers[name] += 1
        self._runs = itertools.count()
        self._last: Agreement | None = None

    @property
    def has_others(self) -> bool:
        """True if other processes hold a part of the feeder's batches, too."""
        return not self._alone

    def next(self) -> Agreement | None:
        """Return the agreement for the run that begins now; None if no other process takes part.

        Raises:
            HostsError: in the last run, this process could not put a batch on its devices, although
                the other processes have delivered this batch; or jax runs without its coordination
                service, and no folder was given.
        """
        if self._last is not None and self._last.spoiled:
            raise HostsError(
                "the last batch could not be put on the devices of this process after all "
                "processes had agreed on it, so the others may be a batch ahead. Restore the last "
                "checkpoint with set_state(…) in all processes."
            )
        if not self._alone and (self._last is None or self._last.left):
            self._last = Agreement(
                self._new_store(), f"{self._feeder}.{next(self._runs)}", self._me, self._processes
            )
        return self._last

    def forget(self) -> None:
        """Leave the last run, unless it was already left; the next run gets a new agreement.

        Called if the next run begins at another position, or if no run follows.
        """
        if self._last is not None and not self._last.left:
            self._last.leave(None)
        self._last = None
