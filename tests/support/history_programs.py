"""Programs of the random histories: what a user may write, as plain values, and the loader or
stream of one shard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from headrace import (
    Batch,
    BlockShuffle,
    BudgetBatch,
    DataLoader,
    Filter,
    FlatMap,
    GrowthOptions,
    IndexSampler,
    IterDataset,
    MapDataset,
    MapTransform,
    MapWithIndexTransform,
    MixSampler,
    Pack,
    ReadOptions,
    ShardOptions,
    SourceFacts,
    WeightedSampler,
    WindowShuffle,
)

APART = 1000
"""Number of the first record of a part, times the number of the part."""
MOST_READS = 20_000
"""More reads and looks of one history are taken for a loop without an end."""
NAMES = "abcdefgh"


class Program(NamedTuple):
    """What a user writes.

    Attributes:
        kind: key of `KINDS`.
        records: number of records of each part; "a" is the only one of an order without a mix.
        weights: of the parts. For a `WeightedSampler` they choose which records have weight 0.
        omitted: keys by part.
        tail: names of `TAILS`, each with a small number.
        batch: size of the last batch; None: no batches.
        shards: number of shards.
        epochs: of orders without a mix.
        skipped: ranges of steps.
        every: positions between two looks for appended records.
    """

    kind: str = "index"
    records: dict[str, int] = {"a": 6}
    weights: dict[str, int] = {"a": 1}
    omitted: dict[str, tuple[int, ...]] = {}
    tail: tuple[tuple[str, int], ...] = ()
    batch: int | None = None
    shards: int = 1
    epochs: int = 1
    skipped: tuple[tuple[int, int], ...] = ()
    every: int = 4

    @property
    def aligned(self) -> bool:
        """True if each step has the same number of records."""
        return not self.tail and not KINDS[self.kind].streams


class World:
    """What is on disk: the numbers of records of all generations of each part."""

    def __init__(self, records: dict[str, int]) -> None:
        self.sizes = {name: [count] for name, count in records.items()}
        self.folder = ""
        self.reads = 0

    def take(self, records: dict[str, int]) -> None:
        """Append records up to these numbers."""
        for name, count in records.items():
            sizes = self.sizes.setdefault(name, [count])
            if count > sizes[-1]:
                sizes.append(count)

    def count(self) -> None:
        """Count a read, or a look at the number of records."""
        self.reads += 1
        assert self.reads < MOST_READS, "a run reads without end"

    def newest(self) -> dict[str, int]:
        """The numbers of records now."""
        return {name: sizes[-1] for name, sizes in self.sizes.items()}


class Records:
    """A source whose records are their numbers, at some generation."""

    complete = True
    generation_folder = None

    def __init__(self, world: World, name: str, records: int, growing: bool) -> None:
        self.world, self.name, self.growing = world, name, growing
        self.generation = world.sizes[name].index(records)
        self.first = APART * NAMES.index(name)

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(generations=self)

    def generation_complete(self, generation: int) -> bool:
        return True

    def generation_records(self, generation: int) -> int:
        return self.world.sizes[self.name][generation]

    def newest_generation(self) -> int:
        self.world.count()
        return len(self.world.sizes[self.name]) - 1

    def at_generation(self, generation: int) -> Records:
        return Records(self.world, self.name, self.generation_records(generation), self.growing)

    def __len__(self) -> int:
        return self.generation_records(self.generation)

    def __getitem__(self, key: int) -> int:
        self.world.count()
        return (self.first + int(key)) << 1

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"kind": "Records", "name": self.name, "records": len(self)}


def _tag(index: int, token: int) -> int:
    return token | index << 20


def number_of(token: int) -> int:
    """The number of the record of a token."""
    return (token & 0xFFFFF) >> 1


def keeps_number(number: int) -> bool:
    """True if the filter of `TAILS` keeps the record of this number."""
    return number % 5 != 3


def _keeps(x: Any) -> bool:
    return keeps_number(number_of(int(np.ravel(x)[0])))


def _copies(x: Any) -> list[Any]:
    return [x, x | 1]


def _tokens_of(row: Any) -> Any:
    return row["tokens"][row["tokens_segment_ids"] > 0]


def _document(x: Any) -> Any:
    return np.full(_length(number_of(int(x))), x)


def _length(number: int) -> int:
    return 1 + number % 4


def _of_budget(batch: Any) -> Any:
    return batch["tokens"][batch["lengths"] > 0, 0]


def _planned(program: Program, n: int) -> list[Any]:
    lengths = [_length(number) for number in range(program.records["a"])]
    budget = BudgetBatch(8, pad_to=(2, 4), lengths=np.array(lengths), window=2 * n, seed=1)
    return [MapTransform(_document), budget, MapTransform(_of_budget)]


def _packed(program: Program, n: int) -> list[Any]:
    return [
        MapTransform(np.atleast_1d),
        Pack(1 + n, "first_fit", window=2 * n),
        MapTransform(_tokens_of),
    ]


TAILS: dict[str, Callable[[Program, int], list[Any]]] = {
    "filter": lambda program, n: [Filter(_keeps)],
    "flat map": lambda program, n: [FlatMap(_copies)],
    "pack": lambda program, n: [*_packed(program, n), FlatMap(list)],
    "window shuffle": lambda program, n: [WindowShuffle(n, seed=n)],
    "batch taken apart": lambda program, n: [Batch(n), FlatMap(list)],
    "packed": _packed,
    "budget": _planned,
}
"""Operations after the order. After "packed" and "budget" nothing comes."""
LAST = ("packed", "budget")


def _operations(program: Program) -> list[Any]:
    found = [operation for name, n in program.tail for operation in TAILS[name](program, n)]
    return found if program.batch is None else [*found, Batch(program.batch)]


def is_tagged(program: Program) -> bool:
    """True if a token tells the position of its record, which planned batches do not do."""
    return not any(name == "budget" for name, _ in program.tail)


QUIET = ReadOptions(num_threads=0)
ALONE: dict[str, Any] = {"observe": False, "hang_seconds": None}
"""Without threads."""


def _loader(
    program: Program, shard: ShardOptions, source: Any, sampler: Any, **options: Any
) -> Any:
    tags = [MapWithIndexTransform(_tag)] if is_tagged(program) else []
    omitted = {name: list(keys) for name, keys in program.omitted.items() if keys}
    if omitted:
        options["omit"] = omitted if isinstance(source, dict) else omitted["a"]
    loader = DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[*tags, *_operations(program)],
        shard_options=shard,
        read_options=QUIET,
        **ALONE,
        **options,
    )
    return loader.skip(program.skipped) if program.skipped else loader


def _index(program: Program, shard: ShardOptions, world: World, shuffle: Any = True) -> Any:
    source = Records(world, "a", program.records["a"], False)
    return _loader(
        program,
        shard,
        source,
        IndexSampler(len(source), num_epochs=program.epochs, shuffle=shuffle, seed=3),
    )


def _block(program: Program, shard: ShardOptions, world: World) -> Any:
    return _index(program, shard, world, BlockShuffle(block=2, window=2))


def record_weight(program: Program, number: int) -> int:
    """The weight of a record of a `WeightedSampler`; every third is 0."""
    return 0 if (number + program.weights["a"]) % 3 == 0 else 1 + number % 2


def record_weights(program: Program) -> list[int]:
    """The weights of all records of a `WeightedSampler`."""
    return [record_weight(program, number) for number in range(program.records["a"])]


def _weighted(program: Program, shard: ShardOptions, world: World, replacement: bool = True) -> Any:
    source = Records(world, "a", program.records["a"], False)
    sampler = WeightedSampler(
        record_weights(program),
        replacement=replacement,
        num_epochs=None if replacement else program.epochs,
        seed=3,
    )
    return _loader(program, shard, source, sampler)


def _once_by_weight(program: Program, shard: ShardOptions, world: World) -> Any:
    return _weighted(program, shard, world, False)


def _schedule(program: Program) -> Any:
    """Weights as given, then others that follow from these, then as given."""
    if "schedule" not in program.kind and "ramp" not in program.kind:
        return program.weights
    other = {name: 6 - weight if weight else 0 for name, weight in program.weights.items()}
    return [(0, program.weights), (4, other), (9, program.weights)]


def _mix(
    program: Program, shard: ShardOptions, world: World, ends: Any = "all", **options: Any
) -> Any:
    growing = "growth" in options
    sources = {
        name: Records(world, name, count, growing) for name, count in program.records.items()
    }
    sampler = MixSampler(
        sources,
        _schedule(program),
        when_exhausted=ends,
        shuffle=True,
        seed=3,
        ramp=program.kind == "ramp",
    )
    return _loader(program, shard, sources, sampler, **options)


def _endless(program: Program, shard: ShardOptions, world: World) -> Any:
    return _mix(program, shard, world, "repeat")


def _growth(program: Program, world: World) -> GrowthOptions:
    return GrowthOptions(program.kind.split()[-1], program.every, world.folder)  # type: ignore[arg-type]


def _growing(program: Program, shard: ShardOptions, world: World) -> Any:
    source = Records(world, "a", program.records["a"], True)
    sampler = IndexSampler(len(source), num_epochs=program.epochs, shuffle=True, seed=3)
    return _loader(program, shard, source, sampler, growth=_growth(program, world))


def _growing_mix(program: Program, shard: ShardOptions, world: World) -> Any:
    return _mix(program, shard, world, growth=_growth(program, world))


def _dataset(program: Program, name: str) -> Any:
    first, count = APART * NAMES.index(name), program.records[name]
    return MapDataset.source(np.arange(first, first + count) << 1)


def _with_tail(program: Program, stream: Any) -> Any:
    for operation in _operations(program):
        stream = stream.then(operation)
    return stream.with_options(**ALONE)


def _chain(program: Program, shard: ShardOptions, world: World) -> Any:
    mix = MapDataset.mix(
        {name: _dataset(program, name) for name in program.records},
        program.weights,
        when_exhausted="all",
    )
    stream = mix.to_iter_dataset(QUIET, shard_options=shard).then(MapWithIndexTransform(_tag))
    stream = _with_tail(program, stream)
    omitted = {name: list(keys) for name, keys in program.omitted.items() if keys}
    return stream.omit(omitted) if omitted else stream


def _nested(program: Program, mix: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Parts "a" and "b" become one, whose weight is 2; their own never change."""
    inner = {name: part for name, part in parts.items() if name in "ab"}
    rest = {name: part for name, part in parts.items() if name not in "ab"}
    return {"m": mix(inner, {"a": 1, "b": 2}, when_exhausted="all"), **rest}


def _outer(program: Program) -> dict[str, int]:
    return {
        "m": 2,
        **{name: weight for name, weight in program.weights.items() if name not in "ab"},
    }


def mix_weights(program: Program) -> dict[str, int] | None:
    """The weights that a user gives to the uppermost mix; None if these are a schedule."""
    if isinstance(_schedule(program), list):
        return None
    return _outer(program) if KINDS[program.kind].fixed else program.weights


def _mix_of_mixes(program: Program, shard: ShardOptions, world: World) -> Any:
    parts = _nested(
        program, MapDataset.mix, {name: _dataset(program, name) for name in program.records}
    )
    mix = MapDataset.mix(parts, _outer(program), when_exhausted="all")
    return _with_tail(
        program, mix.to_iter_dataset(QUIET, shard_options=shard).then(MapWithIndexTransform(_tag))
    )


def _stream(program: Program, name: str, shard: ShardOptions) -> Any:
    part, keys = _dataset(program, name), program.omitted.get(name, ())
    part = part.omit(list(keys)) if keys else part
    return part.to_iter_dataset(QUIET, shard_options=shard)


def _streams(program: Program, shard: ShardOptions, world: World) -> Any:
    parts = {name: _stream(program, name, shard) for name in program.records}
    return _with_tail(program, IterDataset.mix(parts, _schedule(program), when_exhausted="all"))


def _growing_streams(program: Program, shard: ShardOptions, world: World) -> Any:
    parts = {}
    for name, count in program.records.items():
        part = MapDataset.source(Records(world, name, count, True)).shuffle(seed=3)
        part = part.omit(list(keys)) if (keys := program.omitted.get(name, ())) else part
        parts[name] = part.to_iter_dataset(
            QUIET, shard_options=shard, growth=_growth(program, world)
        )
    return _with_tail(program, IterDataset.mix(parts, _schedule(program), when_exhausted="all"))


def _streams_of_streams(program: Program, shard: ShardOptions, world: World) -> Any:
    parts = _nested(
        program, IterDataset.mix, {name: _stream(program, name, shard) for name in program.records}
    )
    return _with_tail(program, IterDataset.mix(parts, _outer(program), when_exhausted="all"))


def _streams_of_mixes(program: Program, shard: ShardOptions, world: World) -> Any:
    parts = _nested(
        program, MapDataset.mix, {name: _dataset(program, name) for name in program.records}
    )
    streams = {
        name: part.to_iter_dataset(QUIET, shard_options=shard) for name, part in parts.items()
    }
    return _with_tail(program, IterDataset.mix(streams, _outer(program), when_exhausted="all"))


class Kind(NamedTuple):
    """A kind of program.

    Attributes:
        make: makes the loader or stream of one shard.
        can: kinds of changes, keys of `CHANGES`.
        parts: smallest and largest number of parts at the beginning.
        endless: it has no end.
        streams: it mixes streams, whose positions are those of a part.
        fixed: parts that cannot be changed.
        grows: records may be appended during a run.
        repeats: a change of the weights may repeat a record in an epoch.
        several_epochs: it has the epochs of the program; others have one.
    """

    make: Callable[[Program, ShardOptions, World], Any]
    can: tuple[str, ...]
    parts: tuple[int, int] = (1, 3)
    endless: bool = False
    streams: bool = False
    fixed: str = ""
    grows: bool = False
    repeats: bool = False
    several_epochs: bool = False


RECORDS = ("omit", "append", "batch", "skip")
PARTS = ("weights", "weights", "add", "remove")
KINDS = {
    "index": Kind(_index, RECORDS, (1, 1), several_epochs=True),
    "block shuffle": Kind(_block, RECORDS, (1, 1), several_epochs=True),
    "weighted": Kind(_weighted, ("weights", "batch", "skip"), (1, 1), endless=True),
    "weighted once": Kind(
        _once_by_weight, ("weights", "batch"), (1, 1), repeats=True, several_epochs=True
    ),
    "mix": Kind(_mix, (*PARTS, *RECORDS)),
    "mix by schedule": Kind(_mix, (*PARTS, *RECORDS)),
    "ramp": Kind(_mix, (*PARTS, *RECORDS), (2, 3)),
    "endless mix": Kind(_endless, (*PARTS, *RECORDS), endless=True),
    "mix of a chain": Kind(_chain, (*PARTS, "omit", "batch")),
    "mix of mixes": Kind(_mix_of_mixes, (*PARTS, "batch"), (3, 3), fixed="ab"),
    "mix of streams": Kind(_streams, (*PARTS, "omit", "batch"), streams=True),
    "streams by schedule": Kind(_streams, (*PARTS, "omit", "batch"), streams=True),
    "streams of streams": Kind(
        _streams_of_streams, (*PARTS, "batch"), (3, 3), streams=True, fixed="ab"
    ),
    "streams of mixes": Kind(
        _streams_of_mixes, (*PARTS, "batch"), (3, 3), streams=True, fixed="ab"
    ),
    "growing epoch": Kind(_growing, ("omit",), (1, 1), grows=True, several_epochs=True),
    "growing now": Kind(_growing, ("omit",), (1, 1), grows=True, several_epochs=True),
    "growing mix epoch": Kind(_growing_mix, ("weights", "omit"), (2, 2), grows=True),
    "growing mix now": Kind(_growing_mix, ("weights", "omit"), (2, 2), grows=True),
    "growing streams epoch": Kind(
        _growing_streams, ("weights", "omit"), (2, 2), streams=True, grows=True
    ),
    "growing streams now": Kind(
        _growing_streams, ("weights", "omit"), (2, 2), streams=True, grows=True
    ),
}
