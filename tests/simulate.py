"""Simulates pipelines whose workers die, hang, are late or come back, and whose user stops and goes
on: `simulate.py SEED`.

A seed is a history: of a program that `random_programs` draws, on
`headrace.testing.FakeTransport`s. What is held:

* the stream is that of `plain_model`, whatever happens, from every state on (invariants 1 and 2 of
  docs/design.md);
* over restarts on other shards each record comes once (4);
* a failure comes at its place, or what fails is left out and counted (9);
* nothing is waited for that never comes, and no run takes for ever (9); the protocol of `Transport`
  is kept.

    python tests/simulate.py 1234             shows the history of a seed
    python tests/simulate.py 0 10000          plays many, and prints the seeds that fail
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import sys
import time
import traceback
from functools import lru_cache
from typing import Any

from support.pipelines import plain
from support.plain_model import NothingComesError, PlainModel
from support.random_programs import (
    AFTER,
    BEFORE,
    COUNTS,
    FAILING,
    LOSSY,
    SUMMED,
    Broken,
    Recipe,
    counted,
    drawn,
    names_in,
    stream_of,
)

from headrace import ShardOptions
from headrace.errors import EmptyStreamError, NothingPassesError
from headrace.testing import FakeWorkerDeath, SimulationError, simulation
from headrace.testing.simulation import MOST_ELEMENTS as MOST
from headrace.testing.simulation import NO_THREADS, Expected, World, quietly, require

HISTORIES = 32
"""Of each program."""

NO_DEATHS = {"fails midway", "fails when packed", "own"}
"""Methods with which more is lost than by an error: rows that came before it, and streams whose
iterator ends two workers.
"""


@dataclasses.dataclass(frozen=True)
class Program:
    """A stream, and what comes of it."""

    recipe: Recipe
    shard: ShardOptions
    expected: Expected

    def stream(self, **options: Any) -> Any:
        """The stream, to be run by workers."""
        on_error = "skip" if self.expected.skips else "raise"
        stream = stream_of(
            self.recipe, self.shard, broken=FakeWorkerDeath if self.expected.crashes else True
        )
        return stream.with_options(
            on_error=on_error, read_options=NO_THREADS, observe=False, **options
        )


@lru_cache(maxsize=4)
def program_of(number: int) -> Program:
    """A program that gives something."""
    chance = random.Random(f"program {number}")
    while True:
        recipe = drawn(chance, after=[*(AFTER | SUMMED), *FAILING], most_records=9)
        shard = ShardOptions(0, 1) if chance.random() < 0.7 else ShardOptions(1, 2)
        if (program := _modelled(recipe, shard, chance.random() < 0.5)) is not None:
            deadly = (
                random.Random(f"deadly {number}").random() < 0.3
                and not names_in(recipe) & NO_DEATHS
            )
            return dataclasses.replace(
                program, expected=dataclasses.replace(program.expected, crashes=deadly)
            )


def _modelled(recipe: Recipe, shard: ShardOptions, skips: bool) -> Program | None:
    try:
        with quietly():
            model = PlainModel.of(
                stream_of(recipe, shard, broken=True).with_options(
                    on_error="skip" if skips else "raise"
                )
            )
            expected, failure = [], None
            try:
                expected += map(plain, itertools.islice(model, MOST + 1))
            except Broken as error:
                failure = str(error)
    except (EmptyStreamError, NothingComesError, NothingPassesError):
        return None
    ends = len(expected) <= MOST
    if not expected:
        return None
    found = Expected(
        expected[:MOST],
        failure if ends else None,
        ends,
        model.skipped if skips else 0,
        skips,
        same_form=plain,
    )
    return Program(recipe, shard, found)


@lru_cache(maxsize=4)
def elastic_of(number: int) -> tuple[Recipe, Any]:
    """A program that has the same tokens on any shards, and these."""
    chance = random.Random(f"elastic {number}")
    after = AFTER.keys() - LOSSY - COUNTS
    while True:
        recipe = drawn(chance, BEFORE.keys() - {"drop"}, after, most_records=9)
        if names_in(recipe) & (LOSSY | COUNTS):
            continue
        try:
            with quietly():
                every = [_tokens_of(recipe, count) for count in (1, 2, 3)]
        except (EmptyStreamError, NothingPassesError):
            continue
        # else batches that are cut to their first rows are others on other shards
        if every[0] == every[1] == every[2]:
            return recipe, every[0]


def _tokens_of(recipe: Recipe, count: int) -> Any:
    return counted(
        itertools.chain.from_iterable(stream_of(recipe, shard) for shard in _shards(count))
    )


def _shards(count: int) -> list[ShardOptions]:
    return [ShardOptions(index, count) for index in range(count)]


def play(seed: int) -> list[str]:
    """The history of a seed, noted.

    Raises:
        SimulationError: an invariant is broken; `__notes__` has the history.
    """

    def run(world: World) -> None:
        if seed % 4 == 3:
            _play_elastic(elastic_of(seed // HISTORIES), world)
        else:
            _play_resumed(program_of(seed // HISTORIES), world)

    return simulation.play(seed, run)


def _play_resumed(program: Program, world: World) -> None:
    world.note(f"{program}")
    simulation.play_stream(lambda: iter(program.stream(**world.options())), program.expected, world)


def _play_elastic(program: tuple[Recipe, Any], world: World) -> None:
    recipe, expected = program
    chance, seen, count = world.chance, [], world.chance.randint(1, 3)
    world.note(f"{recipe} on {count} shards")

    def opened(count: int) -> list[Any]:
        streams = [stream_of(recipe, shard) for shard in _shards(count)]
        return [
            iter(one.with_options(read_options=NO_THREADS, observe=False, **world.options()))
            for one in streams
        ]

    iterators = opened(count)
    for _ in range(chance.randint(1, 2)):
        for iterator in iterators:
            for _ in range(chance.randint(0, 4)):
                if (element := _next(iterator)) is not None:
                    seen.append(element)
        states = [iterator.get_state() for iterator in iterators]
        count = chance.randint(1, 3)
        world.note(f"goes on on {count} shards")
        iterators = opened(count)
        for iterator in iterators:
            iterator.set_states(states)
    try:
        for iterator in iterators:
            while (element := _next(iterator)) is not None:
                seen.append(element)
            iterator.close()
    except (EmptyStreamError, NothingPassesError):
        return
    require(
        counted(seen) == expected,
        f"tokens {expected - counted(seen)} are lost, {counted(seen) - expected} repeated",
    )


def _next(iterator: Any) -> Any:
    """The next element; None at the end. Whoever interrupted it asks again."""
    while True:
        try:
            return next(iterator, None)
        except KeyboardInterrupt:
            continue


def failures(seeds: range, stop_after: int = sys.maxsize) -> list[SimulationError]:
    """Those of many histories."""
    found = []
    for seed in seeds:
        try:
            play(seed)
        except SimulationError as error:
            found.append(error)
            if len(found) >= stop_after:
                break
    return found


def main(arguments: list[str]) -> int:
    """As above."""
    if len(arguments) == 1:
        try:
            print(*play(int(arguments[0])), sep="\n")
        except SimulationError as error:
            print(*error.__notes__, sep="\n")
            traceback.print_exception(error.__cause__)
            print(error)
            return 1
        return 0
    first, count = map(int, arguments)
    began = time.perf_counter()
    found = failures(range(first, first + count), 20)
    print(*found, sep="\n")
    print(f"{count} histories in {time.perf_counter() - began:.1f} s, {len(found)} of them wrong")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
