"""A loop as it was measured, before it is judged: plain numbers, each for one step, in seconds unless it is said.

In: nothing. Out: values that `verdict` and `model` read; a runner, a test or a file can make them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

PartKind: TypeAlias = Literal["sampler", "reading", "record", "batch", "stacking", "between", "packing"]
"""Which records are read; reading; an operation on single records, or on batches; one that makes one element of several;
headrace's own work between operations; making rows ready for another process."""

SLOW_MEMORY = 50e-6
"""Seconds for a record: no record that lies in memory takes so long. Chosen."""


HANDED = 25e-6
"""Seconds of a processor that a record takes which another thread reads. Measured with 64 and 256 threads."""


@dataclass(frozen=True)
class WorkPart:
    """A piece of work for each step, of workers or, without any, of the user's thread.

    Attributes:
        name: as it is told: an operation's, or what it is.
        kind: see `PartKind`.
        seconds: of all workers together, for one step.
        calls: for one step.
    """

    name: str
    kind: PartKind
    seconds: float
    calls: float = 1.0


@dataclass(frozen=True)
class Rare:
    """Records that take far longer than others.

    Attributes:
        name: of the operation that takes so long.
        seconds: that it took for one of them, and took again when it was tried.
        key: where that record stands; "" where it has no name.
        share: of the time of all workers, for the tasks that such records are in; of reading, for these records.
        few: share of the tasks that these are; of reading, of the records.
        rest: share of the work that is left, if no record takes longer than those of quick tasks.
    """

    name: str
    seconds: float
    key: str
    share: float
    few: float
    rest: float = 0.0


@dataclass(frozen=True)
class Feeding:
    """Waits of the user in a device feeder, beside the batch of the host; see `StepTimes`."""

    transforming: float
    agreeing: float
    transfer: float
    hand_over: float


@dataclass(frozen=True)
class SourceFacts:
    """The source that is read.

    Attributes:
        kind: the name of its class.
        records: how many it has.
        files: in how many files they lie; 0: not known, or none.
        together: how many records are decompressed to read one.
        evaluates: datasets below a mix do their maps when its records are read.
        in_memory: nothing is gained by reading ahead.
        columns: it has columns, so that a batch is one copy for each.
        reads: how many may be under way at a time in each place that works; 0: none is read ahead of the work.
        threads: that may read in each place; `num_threads`.
        buffer: how many records may be read ahead in each place; `prefetch_buffer_size`.
        most_reads: that the source itself allows, by its `reads_ahead`; None: any number.
        in_event_loop: its reads are coroutines.
        singly: its records are read one by one, so that a read alone can be compared with one among others.
        whole_batches: one call of it reads all records of a batch.
        sampler: seconds that the sampler takes for the key of a record. 0: not known.
        random: seconds for one record, read in the order of the sampler. 0: not known.
        processor: seconds of a processor for one record, as far as the loop had room for it.
        consecutive: seconds for one record, read with those that lie beside it. 0: not known.
        at_work: share of that time in which the processor was at work. The rest was waited, for a disk or a network.
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
    """Records that a filter leaves out after work was done for them.

    Attributes:
        name: of the filter.
        share: of the records that come to it.
        before: seconds of the work on a step's records before it, reading included.
        operations: of these, in operations.
        after: names of these operations.
    """

    name: str
    share: float
    before: float
    operations: float
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """A loop, as it was measured over some steps.

    Attributes:
        steps: number of them.
        elapsed: for one step, the user's own work included.
        waited: of these, in `next`.
        unready: of these, while workers had not finished; the user's thread itself, without workers.
        records: number, for one step.
        nbytes: for one step.
        parts: what workers did.
        at_work: share of the time of operations in which the processor was at work.
        own_processor: of the processors, for the user's own work.
        rare: what rare records cost.
        gil: seconds that a thread waited for the interpreter's lock, in the middle.
        workers: number; 0: the user's thread works.
        worker_kind: "process", "thread", or another executor's name.
        cores: number, of the machine that works.
        step_known: there was a step of the user's; else batches were only taken, as fast as they came.
        source: what is read.
        feeding: of a device feeder.
        start: seconds that the workers took to begin, in which the first batch was waited for. All else is without them, unless
            the program begins one loop after the other over the same loader: then `starting` counts them.
        loops: number of those that the program made; this is the one that took most of the time.
        loops_alike: of these, number of those over the same loader. `steps`, `elapsed` and `waited` are of all of these.
        starting: of `unready`, while the workers of one of several loops over the same loader had not begun.
        alone: seconds of the largest operation, where that was done once more by nobody else at the same time. 0: not known.
        read_seconds: in which the records were being read, of all reads together, those ahead of the work too.
        rows: number, that the element of a step is made of; 0: as many as `records`.
        dropped: what a filter leaves out.
        others: number of this machine's cores that other programs took meanwhile, on average.
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
    source: SourceFacts = SourceFacts("MemorySource", in_memory=True)
    feeding: Feeding | None = None
    start: float = 0.0
    loops: int = 1
    loops_alike: int = 1
    starting: float = 0.0
    alone: float = 0.0
    read_seconds: float = 0.0
    rows: float = 0.0
    dropped: Dropped | None = None
    others: float = 0.0

    @property
    def own(self) -> float:
        """The user's own work."""
        return max(self.elapsed - self.waited, 0.0)

    @property
    def share_waited(self) -> float:
        """Share of the time."""
        return self.waited / self.elapsed if self.elapsed else 0.0

    @property
    def batch(self) -> float:
        """Number of rows in the element of a step, as a user counts them."""
        return self.rows or self.records

    def places(self, workers: int | None = None) -> int:
        """Places that read ahead, each for itself: processes, or actors; maybe with another number of workers."""
        return 1 if self.worker_kind == "thread" else max(self.workers if workers is None else workers, 1)

    @property
    def reads_ahead(self) -> bool:
        """Records are read while others are worked on."""
        return self.source.reads > 0 and not self.source.in_memory

    @property
    def work(self) -> float:
        """Seconds of all workers together."""
        return sum(part.seconds for part in self.parts)

    @property
    def processor(self) -> float:
        """Seconds of `work` that need a processor."""
        packing = self.seconds_of("packing")
        return (self.work - self.seconds_of("reading") - packing) * self.at_work + self.reading_processor + packing

    @property
    def reading_processor(self) -> float:
        """Seconds of reading that need a processor."""
        if not self.reads_ahead:
            return self.seconds_of("reading") * self.source.at_work
        return self.records * (self.source.processor + HANDED)

    @property
    def reads_memory_slowly(self) -> bool:
        """Reading takes longer than memory can: it is the sampler, or a file that is mapped to memory."""
        return self.source.in_memory and self.seconds_of("reading") > SLOW_MEMORY * self.records

    @property
    def hand_over(self) -> float:
        """In `next`, while workers had finished: taking batches over, or copies of them apart."""
        fed = self.feeding
        if fed is not None:
            return fed.hand_over
        return max(self.waited - self.unready, 0.0)

    def seconds_of(self, *kinds: PartKind) -> float:
        """Seconds of the parts of some kinds."""
        return sum(part.seconds for part in self.parts if part.kind in kinds)
