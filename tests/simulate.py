"""Simulates pipelines whose workers die, hang, are late or come back, and whose user stops and goes on: `simulate.py SEED`.

A seed is a history: of a program that `random_programs` draws, on `FakeTransport`s. What is held:

* the stream is that of `plain_model`, whatever happens, from every state on (invariants 1 and 2 of docs/design.md);
* over restarts on other shards each record comes once (4);
* a failure comes at its place, or what fails is left out and counted (9);
* nothing is waited for that never comes, and no run takes for ever (9); the protocol of `Transport` is kept.

    python tests/simulate.py 1234             shows the history of a seed
    python tests/simulate.py 0 10000          plays many, and prints the seeds that fail
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any
from unittest import mock

from support.fake_transport import FakeTransport, FakeWorkerDeath, Faults
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

from headrace import ReadOptions, ShardOptions
from headrace.errors import EmptyStreamError, NothingPassesError, WorkerCrashedError
from headrace.loader import iterator as iterator_module
from headrace.loader.executors import local
from headrace.loader.executors.pooled import PooledExecutor

MOST = 16
"""Elements of a stream that are looked at."""

HISTORIES = 32
"""Of each program."""

NO_DEATHS = {"fails midway", "fails when packed", "own"}
"""Methods with which more is lost than by an error: rows that came before it, and streams whose iterator ends two workers."""

NO_THREADS = ReadOptions(num_threads=0)


@dataclasses.dataclass(frozen=True)
class Program:
    """A stream, and what comes of it: `failure` is the text of what comes after the elements, if that is one."""

    recipe: Recipe
    shard: ShardOptions
    skips: bool
    expected: list[Any]
    failure: str | None
    skipped: int
    ends: bool
    deadly: bool = False  # failures end the worker

    def stream(self, **options: Any) -> Any:
        """The stream, to be run by workers."""
        on_error = "skip" if self.skips else "raise"
        stream = stream_of(self.recipe, self.shard, broken=FakeWorkerDeath if self.deadly else True)
        return stream.with_options(on_error=on_error, read_options=NO_THREADS, observe=False, **options)


@lru_cache(maxsize=4)
def program_of(number: int) -> Program:
    """A program that gives something."""
    chance = random.Random(f"program {number}")
    while True:
        recipe = drawn(chance, after=[*(AFTER | SUMMED), *FAILING], most_records=9)
        shard = ShardOptions(0, 1) if chance.random() < 0.7 else ShardOptions(1, 2)
        if (program := _modelled(recipe, shard, chance.random() < 0.5)) is not None:
            deadly = random.Random(f"deadly {number}").random() < 0.3 and not names_in(recipe) & NO_DEATHS
            return dataclasses.replace(program, deadly=deadly)


def _modelled(recipe: Recipe, shard: ShardOptions, skips: bool) -> Program | None:
    try:
        with quietly():
            model = PlainModel.of(
                stream_of(recipe, shard, broken=True).with_options(on_error="skip" if skips else "raise")
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
    return Program(recipe, shard, skips, expected[:MOST], failure if ends else None, model.skipped, ends)


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
        if every[0] == every[1] == every[2]:  # else batches that are cut to their first rows are others on other shards
            return recipe, every[0]


def _tokens_of(recipe: Recipe, count: int) -> Any:
    return counted(itertools.chain.from_iterable(stream_of(recipe, shard) for shard in _shards(count)))


def _shards(count: int) -> list[ShardOptions]:
    return [ShardOptions(index, count) for index in range(count)]


class World:
    """The transports of a history: which faults they have, and what they noted."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"history {seed}")
        self.log: list[str] = []
        self.note: Callable[[str], None] = self.log.append
        self.most_faults = 2
        self.last: FakeTransport | None = None
        self.interrupts = True

    def executor(self, original: Any, pipeline: Any, options: Any, observer: Any, tuning: Any = None) -> Any:
        """In place of `make_executor`."""
        if options.workers == 0:
            return original(pipeline, options, observer, tuning)
        chance = self.chance
        depth = chance.choice([None, None, 1, 2, 3])
        faults = Faults(
            die=chance.choice([0, 0.02, 0.1]),
            hang=chance.choice([0, 0.05]),
            come_back=chance.choice([0.02, 0.5]),
            all_end=chance.choice([0, 0.02]) if depth is None else 0,
            lose=chance.choice([0, 0.05]) if depth is not None else 0,
            resize=chance.choice([0, 0.02]) if depth is not None else 0,
            interrupt=chance.choice([0, 0.02]) if self.interrupts else 0,
            most=self.most_faults,
        )
        self.note(f"a run begins: {options.workers} workers, depth {depth}, timeout {options.timeout}, {faults}")
        self.last = FakeTransport(
            pipeline, chance, options.workers, faults, depth, depth is not None, options.timeout, self.note
        )
        return PooledExecutor(pipeline, options, observer, self.last, self.last.clock)

    def options(self) -> dict[str, Any]:
        """Any workers."""
        chance = self.chance
        return {
            "worker_count": chance.randint(1, 3),
            "worker_buffer_size": chance.randint(1, 3),
            "timeout": chance.choice([None, 1000.0]),
        }


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings of workers that end, and of what a chain is."""
    logger = logging.getLogger("headrace")
    was, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = was


class Wrong(AssertionError):  # noqa: N818
    """A history broke an invariant."""


def play(seed: int) -> list[str]:
    """The history of a seed, noted.

    Raises:
        Wrong: an invariant is broken; `__notes__` has the history.
    """
    world = World(seed)
    original = iterator_module.make_executor
    made = lambda *args: world.executor(original, *args)  # noqa: E731
    try:
        made_here = mock.patch.object(
            local, "perf_counter", partial(next, itertools.count(0.0, 1e-6))
        )  # the same each time
        with quietly(), made_here, mock.patch.object(iterator_module, "make_executor", made):
            if seed % 4 == 3:
                _play_elastic(elastic_of(seed // HISTORIES), world)
            else:
                _play_resumed(program_of(seed // HISTORIES), world)
    except BaseException as error:
        wrong = Wrong(f"seed {seed}: {type(error).__name__}: {error}")
        wrong.add_note("\n".join(world.log))
        raise wrong from error
    return world.log


def _hold(holds: Any, text: str) -> None:
    if not holds:
        raise Wrong(text)


def _play_resumed(program: Program, world: World) -> None:
    chance, expected = world.chance, program.expected
    world.most_faults = 2 if program.skips else chance.choice([1, 2, 6])
    world.note(f"{program}")
    iterator, step, whole = iter(program.stream(**world.options())), 0, True
    states = [(0, iterator.get_state())]
    for _ in range(20 * MOST):
        if chance.random() < 0.05:
            if closes := chance.random() < 0.3:
                iterator.close()
            step, state = chance.choice(states) if chance.random() < 0.5 else (step, iterator.get_state())
            world.note(f"goes on from step {step}")
            if closes or chance.random() < 0.5:
                iterator = iter(program.stream(**world.options()))
            _go_to(iterator, state)
            whole = False
            _hold(iterator.get_state() == state, "a state that was set is another one")
        if step == len(expected) and not program.ends:
            break
        state = iterator.get_state()
        try:
            element = next(iterator)
        except KeyboardInterrupt:
            _hold(iterator.get_state() == state, "Ctrl-C changed where the user is")
            whole = False
            continue
        except WorkerCrashedError as error:
            if program.deadly and step == len(expected) and program.failure is not None:
                break
            _hold(world.last is not None and world.last.faults > 2, f"{error}, after too few faults")
            _hold(iterator.get_state() == state, "a crash changed where the user is")
            whole = False
            continue
        except StopIteration:
            _hold(step == len(expected) and program.failure is None, f"ended at step {step}")
            break
        except Broken as error:
            _hold(step == len(expected) and str(error) == program.failure, f"failed at step {step} with {error}")
            _hold(iterator.get_state() == state, "a failure changed where the user is")
            break
        _hold(step < len(expected), "more came than there is")
        _hold(plain(element) == expected[step], f"another element {step}: {element}")
        world.note(f"element {step}")
        step += 1
        if chance.random() < 0.2:
            states.append((step, iterator.get_state()))
    else:
        raise Wrong("no end comes")
    if whole and program.skips and program.ends:
        _hold(iterator.skipped_count >= program.skipped, "what failed is not counted")
    iterator.close()


def _go_to(iterator: Any, state: bytes) -> None:
    """Set a state. Whoever interrupted that asks again."""
    while True:
        try:
            return iterator.set_state(state)
        except KeyboardInterrupt:
            continue


def _play_elastic(program: tuple[Recipe, Any], world: World) -> None:
    recipe, expected = program
    chance, seen, count = world.chance, [], world.chance.randint(1, 3)
    world.note(f"{recipe} on {count} shards")

    def opened(count: int) -> list[Any]:
        streams = [stream_of(recipe, shard) for shard in _shards(count)]
        return [iter(one.with_options(read_options=NO_THREADS, observe=False, **world.options())) for one in streams]

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
    _hold(counted(seen) == expected, f"tokens {expected - counted(seen)} are lost, {counted(seen) - expected} repeated")


def _next(iterator: Any) -> Any:
    """The next element; None at the end. Whoever interrupted it asks again."""
    while True:
        try:
            return next(iterator, None)
        except KeyboardInterrupt:
            continue


def failures(seeds: range, stop_after: int = sys.maxsize) -> list[Wrong]:
    """Those of many histories."""
    found = []
    for seed in seeds:
        try:
            play(seed)
        except Wrong as error:
            found.append(error)
            if len(found) >= stop_after:
                break
    return found


def main(arguments: list[str]) -> int:
    """As above."""
    if len(arguments) == 1:
        try:
            print(*play(int(arguments[0])), sep="\n")
        except Wrong as error:
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
