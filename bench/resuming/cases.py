"""Pipelines and events of the comparison of resuming, as plain data that does not depend on a
loader.

A record is its number. A stage describes what is done with records, so that arithmetic shows what
must come out (`oracle.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SOURCE = 1000
"""Records of the second source are numbered from here on, those of the third from twice this
number.
"""

MAPPED = 100_000
"""The number that the stages `map` and `map_batch` add."""

DRAW = 1_000_000
"""The number that the stage `random_map` adds as often as it drew."""


@dataclass(frozen=True)
class Pipeline:
    """A pipeline.

    Attributes:
        name: the name for `--pipelines`.
        about: a line for the tables.
        stages: in this order, each a name with its numbers: `shuffle`; `window` of so many;
            `repeat` so many times; `map`, `random_map`, `filter` (no multiple of 3), `flat_map`
            (number % 3 elements), `none` (a filter that few pass), `document` (1 + number % 7
            tokens); `pack` into rows of so many; `drop` the last batch if it is short; `map_batch`.
        shards: for each source, how many records each of its files has. Several sources are mixed
            in equal parts.
        small: whether it is part of the small size.
    """

    name: str
    about: str
    stages: tuple[tuple[str | int, ...], ...] = ()
    shards: tuple[tuple[int, ...], ...] = ((48, 48),)
    small: bool = False

    def has(self, stage: str) -> bool:
        """Whether the stage is one of its own."""
        return any(name == stage for name, *_ in self.stages)

    def number(self, stage: str, default: int = 0) -> int:
        """The first number of a stage."""
        return next((int(numbers[0]) for name, *numbers in self.stages if name == stage), default)

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
    Pipeline("plain", "records in order", small=True),
    Pipeline("map", "a function of each record", (("map",),)),
    Pipeline("filter", "a third is left out", (("filter",),)),
    Pipeline("flat_map", "0, 1 or 2 elements for each record", (("flat_map",),)),
    Pipeline("shuffle", "shuffled", (("shuffle",),), small=True),
    Pipeline(
        "shuffle_filter",
        "shuffled, a third left out",
        (("shuffle",), ("map",), ("filter",)),
        small=True,
    ),
    Pipeline(
        "shuffle_flat_map", "shuffled, 0, 1 or 2 elements for each", (("shuffle",), ("flat_map",))
    ),
    Pipeline("random_map", "shuffled, a random number for each", (("shuffle",), ("random_map",))),
    Pipeline("repeat", "two epochs in order", (("repeat", 2),)),
    Pipeline("epochs", "two epochs, shuffled anew", (("shuffle",), ("repeat", 2)), small=True),
    Pipeline(
        "epochs_filter",
        "two epochs, shuffled anew, a third left out",
        (("shuffle",), ("repeat", 2), ("filter",)),
    ),
    Pipeline("remainder", "a last batch of 5", (("shuffle",),), ((50, 51),)),
    Pipeline("drop", "the last batch of 5 is dropped", (("shuffle",), ("drop",)), ((50, 51),)),
    Pipeline(
        "unequal_shards",
        "files of 3, 61, 9 and 23 records",
        (("shuffle",),),
        ((3, 61, 9, 23),),
        small=True,
    ),
    Pipeline("window", "shuffled inside a window of 16", (("window", 16),)),
    Pipeline(
        "mix", "two sources in equal parts, shuffled", (("shuffle",),), ((48,), (48,)), small=True
    ),
    Pipeline(
        "mix_uneven",
        "three sources of 60, 24 and 12 in equal parts",
        (("shuffle",),),
        ((60,), (24,), (12,)),
    ),
    Pipeline("pack", "documents packed into rows of 16 tokens", (("document",), ("pack", 16))),
    Pipeline(
        "shuffle_pack",
        "shuffled documents packed into rows of 16",
        (("shuffle",), ("document",), ("pack", 16)),
    ),
    Pipeline("batch_map", "a function of each batch", (("shuffle",), ("map_batch",))),
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


EVENTS = (
    Event("each_step", "resumed after each batch", (Leg(workers=0, reopen=True, stop=-1),)),
    Event("middle", "stopped and resumed in the middle", (Leg(stop=3), Leg())),
    Event("end", "stopped after the last batch, and resumed", (Leg(stop=-1), Leg()), epoch=True),
    Event(
        "workers",
        "resumed on 3 workers, then on 1",
        (Leg(stop=2), Leg(stop=2, workers=3), Leg(workers=1)),
    ),
    Event(
        "hosts",
        "2 hosts, then 1, then 2",
        (Leg(stop=2, hosts=2), Leg(stop=2), Leg(hosts=2)),
        ordered=False,
    ),
    Event("kill_worker", "a worker is killed", (Leg(kill="worker"), Leg(spare=True)), errors=True),
    Event("kill_program", "the program is killed, and run again", (Leg(kill="program"), Leg())),
    Event(
        "failing_record",
        "a record fails, is repaired, and the program run again",
        (Leg(fail=True), Leg()),
        errors=True,
    ),
    Event("data_grow", "records are added between two runs", (Leg(stop=3), Leg(more=8))),
    Event(
        "unequal_hosts",
        "two hosts, one has a record more",
        (Leg(hosts=2),),
        more=1,
        ordered=False,
        alike=True,
    ),
    Event("batch_size", "resumed with batches of 12 in place of 8", (Leg(stop=3), Leg(batch=12))),
    Event(
        "timing", "threads and workers are slowed at random", (Leg(stop=3, noise=1), Leg(noise=2))
    ),
)
