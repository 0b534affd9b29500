"""Pipelines and events of the comparison of resuming, as plain data.

Records are whole numbers. The stages of a pipeline calculate with them, so `oracle.py` can calculate
which numbers must come out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SOURCE = 1000  # records of a further source are numbered from a multiple of this on
MAPPED = 100_000  # is added by the stages `map` and `map_batch`
DRAW = 1_000_000  # is added by the stage `random_map`, as often as it drew


def passes(number: int) -> bool:
    """The stage `filter`: no multiple of 3."""
    return number % 3 > 0


def fan(number: int) -> list[int]:
    """The stage `flat_map`: 0, 1 or 2 elements."""
    return [number * 10 + copy for copy in range(number % 3)]


@dataclass(frozen=True)
class Pipeline:
    """A pipeline.

    Attributes:
        name: the name for `--pipelines`.
        chain: its stages in their order, some with a number: `shuffle`; `window:16`, a shuffle in
            windows of so many; `repeat:2`, so many times; `map`, `random_map`, `filter`,
            `flat_map`, `document` (1 + number % 7 tokens); `pack:16` into rows of so many; `drop`
            the last batch if it is short; `map_batch`.
        shards: for each source, how many records each of its files has. Several sources are mixed
            in equal parts.
        small: whether it is part of the small size.
    """

    name: str
    chain: str = ""
    shards: tuple[tuple[int, ...], ...] = ((48, 48),)
    small: bool = False

    @property
    def stages(self) -> list[str]:
        """The names of its stages."""
        return [stage.partition(":")[0] for stage in self.chain.split()]

    def has(self, stage: str) -> bool:
        """Whether the stage is one of its own."""
        return stage in self.stages

    def number(self, stage: str, default: int = 0) -> int:
        """The number of a stage."""
        numbers = dict(one.split(":") for one in self.chain.split() if ":" in one)
        return int(numbers.get(stage, default))

    def with_records(self, more: int) -> Pipeline:
        """Return the pipeline with more records at the end of the last file of the first source."""
        first, *others = self.shards
        return replace(self, shards=((*first[:-1], first[-1] + more), *others))

    def with_file(self, more: int) -> Pipeline:
        """Return the pipeline with one more file in the first source, of this number of records."""
        first, *others = self.shards
        return replace(self, shards=((*first, more), *others)) if more else self

    def records(self) -> list[list[list[int]]]:
        """For each source and file, the numbers of its records."""
        sources = []
        for number, sizes in enumerate(self.shards):
            ends = [number * SOURCE + sum(sizes[: file + 1]) for file in range(len(sizes))]
            sources.append([list(range(end - size, end)) for end, size in zip(ends, sizes)])
        return sources


PIPELINES = (
    Pipeline("plain", small=True),
    Pipeline("map", "map"),
    Pipeline("filter", "filter"),
    Pipeline("flat_map", "flat_map"),
    Pipeline("shuffle", "shuffle", small=True),
    Pipeline("shuffle_filter", "shuffle map filter", small=True),
    Pipeline("shuffle_flat_map", "shuffle flat_map"),
    Pipeline("random_map", "shuffle random_map"),
    Pipeline("repeat", "repeat:2"),
    Pipeline("epochs", "shuffle repeat:2", small=True),
    Pipeline("epochs_filter", "shuffle repeat:2 filter"),
    Pipeline("remainder", "shuffle", ((50, 51),)),
    Pipeline("drop", "shuffle drop", ((50, 51),)),
    Pipeline("unequal_shards", "shuffle", ((3, 61, 9, 23),), small=True),
    Pipeline("window", "window:16"),
    Pipeline("mix", "shuffle", ((48,), (48,)), small=True),
    Pipeline("mix_uneven", "shuffle", ((60,), (24,), (12,))),
    Pipeline("pack", "document pack:16"),
    Pipeline("shuffle_pack", "shuffle document pack:16"),
    Pipeline("batch_map", "shuffle map_batch"),
)


@dataclass(frozen=True)
class Leg:
    """One run of the program: from the last state of the leg before, or from the beginning.

    Attributes:
        stop: batches after which each host stops; None runs to the end.
        workers: worker processes of each host.
        hosts: processes that share the data.
        batch: elements, or rows, in a batch.
        more: records that were added since the first leg, in a file of their own.
        kill: `worker` or `program` is killed after three batches.
        fail: whether a record in the middle raises an error.
        noise: sleeps of random length before each record, by this seed; 0 sleeps not.
        reopen: a new loader for each batch, from the state after the one before.
        spare: runs only if the leg before ended by an error or was killed.
    """

    stop: int | None = None
    workers: int = 2
    hosts: int = 1
    batch: int = 8
    more: int = 0
    kill: str = ""
    fail: bool = False
    noise: int = 0
    reopen: bool = False
    spare: bool = False


@dataclass(frozen=True)
class Event:
    """Something that happens to a program.

    Attributes:
        name: the name for `--events`.
        about: a line for the tables.
        legs: the runs.
        more: records that the pipeline has more from the beginning.
        ordered: whether the elements must come in the order of a run to which nothing happened.
        errors: whether a leg that is not the last may end by an error, as the event asks for it.
        alike: whether all hosts must make the same number of batches; so many records as fill no
            batch may be left out.
        epoch: whether the last leg may be one whole epoch more: some loaders begin the next one,
            others end.
    """

    name: str
    about: str
    legs: tuple[Leg, ...]
    more: int = 0
    ordered: bool = True
    errors: bool = False
    alike: bool = False
    epoch: bool = False


_FAILING = "a record fails, is repaired, and the program run again"
_UNEQUAL = "two hosts, one has a record more"

EVENTS = (
    Event("each_step", "resumed after each batch", (Leg(workers=0, reopen=True, stop=-1),)),
    Event("middle", "stopped and resumed in the middle", (Leg(3), Leg())),
    Event("end", "stopped after the last batch, and resumed", (Leg(-1), Leg()), epoch=True),
    Event(
        "workers", "resumed on 3 workers, then on 1", (Leg(2), Leg(2, workers=3), Leg(workers=1))
    ),
    Event(
        "hosts", "2 hosts, then 1, then 2", (Leg(2, hosts=2), Leg(2), Leg(hosts=2)), ordered=False
    ),
    Event("kill_worker", "a worker is killed", (Leg(kill="worker"), Leg(spare=True)), errors=True),
    Event("kill_program", "the program is killed, and run again", (Leg(kill="program"), Leg())),
    Event("failing_record", _FAILING, (Leg(fail=True), Leg()), errors=True),
    Event("data_grow", "records are added between two runs", (Leg(3), Leg(more=8))),
    Event("unequal_hosts", _UNEQUAL, (Leg(hosts=2),), more=1, ordered=False, alike=True),
    Event("batch_size", "resumed with batches of 12 in place of 8", (Leg(3), Leg(batch=12))),
    Event("timing", "threads and workers are slowed at random", (Leg(3, noise=1), Leg(noise=2))),
)
