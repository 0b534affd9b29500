"""Measurements of a loop before they are judged: plain numbers per step, in seconds unless stated otherwise.

They may come from a run, a test or a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

PartKind: TypeAlias = Literal["sampler", "reading", "record", "batch", "stacking", "between", "packing"]
"""Kinds of work.

"sampler": finding record keys. "reading": reading records. "record": an operation on single
records. "batch": an operation on batches. "stacking": making batches of several elements.
"between": headrace's own work between operations. "packing": preparing rows for another process.
"""

SLOW_MEMORY = 50e-6  # Seconds for a record: no record that lies in memory takes so long. Chosen
# Measured with 64 and 256 threads.
HANDED = 25e-6
"""Processor seconds to hand over a record that another thread has read."""


@dataclass(frozen=True)
class WorkPart:
    """A part of the work of one step, done by the workers or, without workers, by the user's thread."""

    name: str  # as it is told: an operation's, or what it is
    kind: PartKind  # see `PartKind`
    seconds: float  # of all workers together, for one step
    calls: float = 1.0  # for one step
    pillow: bool = False  # an operation whose function works on images by Pillow


@dataclass(frozen=True)
class Rare:
    """Records that take far longer than others."""

    name: str  # of the operation that takes so long
    seconds: float  # that it took for one of them, and took again when it was tried
    key: str  # where that record stands; "" where it has no name
    share: float  # of the time of all workers, for the tasks that such records are in; of reading, for these records
    few: float  # share of the tasks that these are; of reading, of the records
    rest: float = 0.0  # share of the work that is left, if no record takes longer than those of quick tasks


@dataclass(frozen=True)
class Feeding:
    """Seconds that the user of a device feeder waits, besides the wait for the host's batch; see `StepTimes`."""

    transforming: float
    agreeing: float
    transfer: float
    hand_over: float


@dataclass(frozen=True)
class SourceFacts:
    """Facts about the source of a loop."""

    kind: str  # the name of its class
    records: int = 0  # how many it has
    files: int = 0  # in how many files they lie; 0: not known, or none
    together: int = 1  # how many records are decompressed to read one
    evaluates: bool = False  # datasets below a mix do their maps when its records are read
    in_memory: bool = False  # nothing is gained by reading ahead
    columns: bool = False  # it has columns, so that a batch is one copy for each
    reads: int = 0  # how many may be under way at a time in each place that works; 0: none is read ahead of the work
    threads: int = 0  # that may read in each place; `num_threads`
    buffer: int = 0  # how many records may be read ahead in each place; `prefetch_buffer_size`
    most_reads: int | None = None  # that the source itself allows, by its `reads_ahead`; None: any number
    in_event_loop: bool = False  # its reads are coroutines
    singly: bool = False  # its records are read one by one, so that a read alone can be compared with one among others
    whole_batches: bool = False  # one call of it reads all records of a batch
    sampler: float = 0.0  # seconds that the sampler takes for the key of a record. 0: not known
    random: float = 0.0  # seconds for one record, read in the order of the sampler. 0: not known
    processor: float = 0.0  # seconds of a processor for one record, as far as the loop had room for it
    consecutive: float = 0.0  # seconds for one record, read with those that lie beside it. 0: not known
    at_work: float = 1.0  # share of that time the processor worked; the rest was waited, for a disk or a network


@dataclass(frozen=True)
class Dropped:
    """Records that a filter drops after work was done for them."""

    name: str  # of the filter
    share: float  # of the records that come to it
    before: float  # seconds of the work on a step's records before it, reading included
    operations: float  # of these, in operations
    after: tuple[str, ...] = ()  # names of these operations


@dataclass(frozen=True)
class Measured:
    """A measurement of a loop over some steps."""

    steps: int  # number of them
    elapsed: float  # for one step, the user's own work included
    waited: float  # of these, in `next`
    unready: float  # of these, while workers had not finished; the user's thread itself, without workers
    records: float  # number, for one step
    nbytes: float  # for one step
    parts: tuple[WorkPart, ...]  # what workers did
    at_work: float = 1.0  # share of the time of operations in which the processor was at work
    own_processor: float = 0.0  # of the processors, for the user's own work
    rare: Rare | None = None  # what rare records cost
    gil: float = 0.0  # seconds that a thread waited for the interpreter's lock, in the middle
    workers: int = 0  # number; 0: the user's thread works
    worker_kind: str = "process"  # "process", "thread", or another executor's name
    cores: int = 1  # number, of the machine that works
    step_known: bool = True  # there was a step of the user's; else batches were only taken, as fast as they came
    source: SourceFacts = SourceFacts("MemorySource", in_memory=True)  # what is read
    feeding: Feeding | None = None  # of a device feeder
    start: float = 0.0  # seconds that workers took to begin before the first batch; in nothing else but `starting`
    loops: int = 1  # number of those that the program made; this is the one that took most of the time
    hangs: str = ""  # what hung at last, as a sentence; "" if nothing did
    decision: str = ""  # why the user's thread makes the batches although workers were asked for; "" if it does not
    loops_alike: int = 1  # of these, over the same loader: `steps`, `elapsed` and `waited` are of all of them
    starting: float = 0.0  # of `unready`, while the workers of one of several loops over the same loader had not begun
    alone: float = 0.0  # seconds of the largest operation, done once more with nobody else at work; 0: not known
    read_seconds: float = 0.0  # in which records were being read, of all reads together, also ahead of the work
    rows: float = 0.0  # number, that the element of a step is made of; 0: as many as `records`
    dropped: Dropped | None = None  # what a filter leaves out
    others: float = 0.0  # number of this machine's cores that other programs took meanwhile, on average

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

        `workers` is a number of workers; None means the measured one.
        """
        return 1 if self.worker_kind == "thread" else max(self.workers if workers is None else workers, 1)

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
        return (self.work - self.seconds_of("reading") - packing) * self.at_work + self.reading_processor + packing

    @property
    def reading_processor(self) -> float:
        if not self.reads_ahead:
            return self.seconds_of("reading") * self.source.at_work
        return self.records * (self.source.processor + HANDED)

    @property
    def reads_memory_slowly(self) -> bool:
        """True if reading is slower than memory can be, because of the sampler or of mapped files."""
        return self.source.in_memory and self.seconds_of("reading") > SLOW_MEMORY * self.records

    @property
    def hand_over(self) -> float:
        """Seconds of `next` after the workers had finished: the time to receive a batch."""
        fed = self.feeding
        if fed is not None:
            return fed.hand_over
        return max(self.waited - self.unready, 0.0)

    def seconds_of(self, *kinds: PartKind) -> float:
        return sum(part.seconds for part in self.parts if part.kind in kinds)
