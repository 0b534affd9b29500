"""Measurement of a loop, before it is judged: plain numbers per step in seconds.

Other units are stated.

The numbers may come from a run, a test or a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

PartKind: TypeAlias = Literal[
    "sampler", "reading", "record", "batch", "stacking", "between", "packing"
]
"""Kinds of work.

"sampler": finding record keys. "reading": reading records. "record": an operation on single
records. "batch": an operation on batches. "stacking": making batches of several elements.
"between": headrace's own work between operations. "packing": preparing rows for another process.
"""

SLOW_MEMORY = 50e-6  # reading a record that is in memory takes fewer seconds than this. Chosen
# Measured with 64 and 256 threads.
HANDED = 25e-6
"""Processor seconds to hand a record over that another thread has read."""


@dataclass(frozen=True)
class WorkPart:
    """A part of the work of one step.

    The workers do it or, without workers, the thread of the user or of a feeder.

    Attributes:
        name: name of the operation, or description of other work.
        kind: see `PartKind`.
        seconds: seconds of all workers together.
        calls: number of calls.
        pillow: True for an operation whose function uses Pillow.
    """

    name: str
    kind: PartKind
    seconds: float
    calls: float = 1.0
    pillow: bool = False


@dataclass(frozen=True)
class Rare:
    """A few records that take far longer than others.

    Attributes:
        name: name of the operation that takes so long, or "reading".
        seconds: seconds that it took for one of these records, confirmed by a second try.
        key: description of that record; "" if it is unknown.
        share: share of all workers' time that tasks with such records take; for reading, share of
            the reading time.
        few: share of the tasks that have such records; for reading, share of the records that take
            so long.
        rest: share of the work that would remain if no record took longer than the records of quick
            tasks.
    """

    name: str
    seconds: float
    key: str
    share: float
    few: float
    rest: float = 0.0


@dataclass(frozen=True)
class Feeding:
    """Seconds per step that a device feeder's user waits, without those for the host's batch.

    Attributes:
        transforming: seconds in which `transform` ran.
        agreeing: seconds of waiting for the other hosts' messages about the step.
        transfer: seconds in which the batch was transferred to the devices.
        hand_over: the remaining seconds: queues, and the waking up of threads.
    """

    transforming: float
    agreeing: float
    transfer: float
    hand_over: float


@dataclass(frozen=True)
class SourceInUse:
    """Facts about the source of a loop.

    Attributes:
        kind: name of its class.
        records: number of records; 0 without random access.
        files: number of files; 0 if unknown, or if there are none.
        together: number of records that are decompressed to read one record.
        evaluates: True if reading a record also runs maps of the datasets that are mixed.
        in_memory: True if the source is in memory, so that reading ahead has no use.
        columns: True if it has columns, so that a batch is one copy for each column.
        reads: possible number of concurrent reads in each place (process or actor that works); 0
            without reading ahead.
        threads: number of reading threads in each place (`num_threads`).
        buffer: number of records that may be read ahead in each place (`prefetch_buffer_size`).
        most_reads: largest number of concurrent reads that the source allows (`reads_ahead`); None
            for any number.
        in_event_loop: True if reads are coroutines.
        singly: True if records are read one by one, so that a read alone can be compared with a
            read beside others.
        whole_batches: True if one call reads all records of a batch.
        sampler: seconds in which the sampler finds one key; 0 if unknown.
        random: seconds to read a record in the sampler's order; 0 if unknown.
        processor: seconds of a processor to read a record. Some records are read again to measure
            it; it is at most the time that the loop can have spent on reading. 0 if unknown.
        consecutive: seconds to read a record together with its neighbours; 0 if unknown.
        at_work: share of the reading time in which the processor worked; otherwise it waited for a
            disk or network.
    """

    kind: str
    records: int = 0
    files: int = 0
    together: int = 1
    evaluates: bool = False
    in_memory: bool = False
    columns: bool = False
    reads: int = 0
    threads: int = 0
    buffer: int = 0
    most_reads: int | None = None
    in_event_loop: bool = False
    singly: bool = False
    whole_batches: bool = False
    sampler: float = 0.0
    random: float = 0.0
    processor: float = 0.0
    consecutive: float = 0.0
    at_work: float = 1.0


@dataclass(frozen=True)
class Dropped:
    """Records that a filter drops after work was done for them.

    Attributes:
        name: name of the filter; of several filters, the last one.
        share: share of the records that it and the filters before it drop.
        before: seconds of the work on a step's records before the filter, with reading and without
            other filters.
        operations: part of these that was spent in operations.
        after: names of these operations.
    """

    name: str
    share: float
    before: float
    operations: float
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """A measurement of a loop over some steps.

    Attributes:
        steps: number of steps.
        elapsed: seconds of a step, including the user's own work.
        waited: part of `elapsed` spent in `next`.
        unready: part of `waited` in which workers, or without workers the user's thread, were
            making the batch.
        records: number of records of a step.
        nbytes: bytes of a step's batch.
        parts: the work of a step, done by the workers.
        at_work: share of the operations' time in which the processor was at work.
        own_processor: processor seconds of the user's own work.
        rare: cost of a few records that take far longer than others; None if there are none.
        gil: median seconds that a thread waited for Python's lock (GIL).
        workers: number of workers; 0 if the thread of the user or of a feeder makes the batches.
        worker_kind: "process", "thread", or the name of another executor.
        cores: number of cores of the machine that works.
        step_known: True if the loop had the user's own steps; False if batches were only taken, as
            fast as they came.
        source: facts about the source.
        feeding: waits in a device feeder; None without a feeder.
        start: seconds that workers took to start up before the first batch. Of the other values,
            only `starting` includes them.
        loops: number of loops of the program. The measured one took most of the time.
        hangs: sentence about the last task that took too long; "" if none did.
        decision: sentence that says why the user's thread makes the batches although workers were
            asked for; "" if it does not.
        loops_alike: number of loops over the same loader. If there are several, `steps` is the sum
            over all of them, and `elapsed`, `waited`, `unready` and `starting` are means over all
            these steps.
        starting: part of `unready` in which the workers of several loops over the same loader had
            not started up.
        alone: seconds of the largest operation when it was run a second time with nothing else at
            work; 0 if unknown.
        read_seconds: seconds of all reads of records together, including those made in advance.
        rows: number of rows in the element of a step; 0 if it is `records`.
        dropped: records that a filter drops; None if there is no filter, or if it is unknown.
        others: mean number of this machine's cores that other programs used meanwhile.
    """

    steps: int
    elapsed: float
    waited: float
    unready: float
    records: float
    nbytes: float
    parts: tuple[WorkPart, ...]
    at_work: float = 1.0
    own_processor: float = 0.0
    rare: Rare | None = None
    gil: float = 0.0
    workers: int = 0
    worker_kind: str = "process"
    cores: int = 1
    step_known: bool = True
    source: SourceInUse = SourceInUse("MemorySource", in_memory=True)
    feeding: Feeding | None = None
    start: float = 0.0
    loops: int = 1
    hangs: str = ""
    decision: str = ""
    loops_alike: int = 1
    starting: float = 0.0
    alone: float = 0.0
    read_seconds: float = 0.0
    rows: float = 0.0
    dropped: Dropped | None = None
    others: float = 0.0

    @property
    def own(self) -> float:
        return max(self.elapsed - self.waited, 0.0)

    @property
    def share_waited(self) -> float:
        return self.waited / self.elapsed if self.elapsed else 0.0

    @property
    def batch(self) -> float:
        """Number of rows in the element of a step."""
        return self.rows or self.records

    def places(self, workers: int | None = None) -> int:
        """Return the number of places (processes or actors) that read ahead.

        Args:
            workers: a number of workers; None for the measured one.
        """
        return (
            1
            if self.worker_kind == "thread"
            else max(self.workers if workers is None else workers, 1)
        )

    @property
    def reads_ahead(self) -> bool:
        """True if records are read ahead while other records are processed."""
        return self.source.reads > 0 and not self.source.in_memory

    @property
    def work(self) -> float:
        return sum(part.seconds for part in self.parts)

    @property
    def processor(self) -> float:
        packing = self.seconds_of("packing")
        return (
            (self.work - self.seconds_of("reading") - packing) * self.at_work
            + self.reading_processor
            + packing
        )

    @property
    def reading_processor(self) -> float:
        if not self.reads_ahead:
            return self.seconds_of("reading") * self.source.at_work
        return self.records * (self.source.processor + HANDED)

    @property
    def reads_memory_slowly(self) -> bool:
        """True if reading is slower than memory can be, due to the sampler or mapped files."""
        return self.source.in_memory and self.seconds_of("reading") > SLOW_MEMORY * self.records

    @property
    def hand_over(self) -> float:
        """Seconds in `next` after the workers had finished a batch, to receive it.

        With a feeder, its `hand_over`.
        """
        fed = self.feeding
        if fed is not None:
            return fed.hand_over
        return max(self.waited - self.unready, 0.0)

    def seconds_of(self, *kinds: PartKind) -> float:
        return sum(part.seconds for part in self.parts if part.kind in kinds)
