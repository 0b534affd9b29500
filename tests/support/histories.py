"""Histories of runs: a program is stopped, changed and resumed several times. A plain account says
what must come.

`drawn(seed)` makes a `History` of plain values, `played(history)` runs it, without workers, and
`smallest(history)` reduces one that fails. A history changes weights, parts, omitted records, the
number of records, batch sizes, skipped steps and the number of shards. It resumes by `set_state`,
by `set_states`, and by `set_states` with equal steps, also after a kill.

The account counts records: each record must come once in each epoch, and never after it was
omitted; or `CheckpointError` refuses the change before the next element is read. A token tells the
record, and, where an order counts positions for all shards, the position. So the account also sees
which weights were used at a position.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from headrace import ShardOptions
from headrace.errors import CheckpointError
from support.history_account import Account
from support.history_programs import (
    KINDS,
    LAST,
    NAMES,
    TAILS,
    Program,
    World,
    mix_weights,
    record_weights,
)
from support.remedies import REMEDY

STEPS = (0, 1, 2, 3, 4, 9)
"""Numbers of steps of a run: after many, some shards are at their end."""
MOST_STEPS = 400
"""More elements of one shard are taken for a stream without an end."""


class Run(NamedTuple):
    """One run, and how the next one resumes.

    Attributes:
        steps: of each shard until its state is saved; a shard takes the next entry, and the first
            one after the last.
        then: the next program.
        way: "own" state, "all" states, "one" state for all shards, or "live": the run goes on with
            `change`. Other ways than "all" are taken only if they are possible.
        lost: steps after the state was saved, before the run is killed; none if it goes on.
        appended: part and number of records that are appended before the steps.
    """

    steps: tuple[int, ...]
    then: Program
    way: str = "all"
    lost: int = 0
    appended: tuple[tuple[str, int], ...] = ()


class History(NamedTuple):
    """A program, and its runs. After them the last program runs to its end."""

    program: Program
    runs: tuple[Run, ...]


class Refusal(NamedTuple):
    """A change that was refused, and the reason: a key of `REASONS`."""

    reason: str
    text: str


def _weights(program: Program, draw: random.Random) -> Program:
    changed = {name: draw.choice([0, 1, 1, 2, 3, 5]) for name in program.records}
    changed |= {name: program.weights[name] for name in KINDS[program.kind].fixed}
    if not any(changed[name] for name in changed if name not in KINDS[program.kind].fixed):
        changed[max(changed)] = 1
    return program._replace(weights=changed)


def _add(program: Program, draw: random.Random) -> Program:
    name = NAMES[NAMES.index(max(program.records)) + 1]
    weights = {**program.weights, name: draw.randint(1, 3)}
    return program._replace(records={**program.records, name: draw.randint(1, 5)}, weights=weights)


def _remove(program: Program, draw: random.Random) -> Program:
    gone = draw.choice([*program.records])
    weights = {name: weight for name, weight in program.weights.items() if name != gone}
    if (
        gone in KINDS[program.kind].fixed
        or not any(weights.values())
        or gone == max(program.records)
    ):
        return program  # the last name is kept, so that no name comes back
    records = {name: count for name, count in program.records.items() if name != gone}
    return program._replace(records=records, weights=weights, omitted={**program.omitted, gone: ()})


def _omit(program: Program, draw: random.Random) -> Program:
    name = draw.choice([*program.records])
    gone = program.omitted.get(name, ())
    left = [key for key in range(program.records[name]) if key not in gone]
    if len(left) < 2:
        return program
    more = draw.sample(left, draw.randint(1, min(2, len(left) - 1)))
    return program._replace(omitted={**program.omitted, name: tuple(sorted((*gone, *more)))})


def _append(program: Program, draw: random.Random) -> Program:
    name = draw.choice([*program.records])
    return program._replace(
        records={**program.records, name: program.records[name] + draw.randint(1, 4)}
    )


def _batch(program: Program, draw: random.Random) -> Program:
    return program if program.batch is None else program._replace(batch=draw.randint(1, 4))


def _skip(program: Program, draw: random.Random) -> Program:
    begin = draw.randint(0, 8)
    return program._replace(skipped=(*program.skipped, (begin, begin + draw.randint(1, 2))))


CHANGES: dict[str, Callable[[Program, random.Random], Program]] = {
    "weights": _weights,
    "add": _add,
    "remove": _remove,
    "omit": _omit,
    "append": _append,
    "batch": _batch,
    "skip": _skip,
}


STREAMS_THAT_GROW = ("growing streams epoch", "growing streams now")
"""Kinds with histories of their own, so that the others keep theirs."""


def drawn(
    seed: int,
    kinds: tuple[str, ...] = tuple(kind for kind in KINDS if kind not in STREAMS_THAT_GROW),
) -> History:
    """A history of at least two changes, by a seed."""
    draw = random.Random(f"history {seed}")
    program = _first(draw, kinds[seed % len(kinds)])
    kind, runs, last = KINDS[program.kind], list[Run](), program
    for _ in range(draw.choice([2, 2, 3])):
        then = last
        for _ in range(draw.choice([0, 1, 1, 1, 2])):
            then = CHANGES[draw.choice(_possible(then))](then, draw)
        then = then if draw.random() < 0.4 else then._replace(shards=draw.randint(1, 3))
        equal = draw.random() < 0.4
        steps = (
            (draw.choice(STEPS),)
            if equal
            else tuple(draw.choice(STEPS) for _ in range(last.shards))
        )
        way = draw.choice(["own", "all", "all", "one", "one", "live", "live"])
        appended = tuple(
            (draw.choice([*last.records]), draw.randint(1, 3)) for _ in range(draw.randint(0, 2))
        )
        lost = draw.choice([0, 0, 1, 2])
        runs.append(Run(steps, then, way, lost, appended if kind.grows else ()))
        last = then
    return History(program, tuple(runs))


def _possible(program: Program) -> tuple[str, ...]:
    """Kinds of changes that a program can make; planned batches keep their records."""
    planned = any(name == "budget" for name, _ in program.tail)
    return ("skip",) if planned else KINDS[program.kind].can


def _first(draw: random.Random, kind: str) -> Program:
    least, most = KINDS[kind].parts
    names = NAMES[: draw.randint(least, most)]
    records = {name: draw.randint(1, 9) for name in names}
    if len(names) == 1:
        records = {"a": draw.randint(3, 16)}
    tail: list[tuple[str, int]] = []
    if draw.random() < 0.6 and not KINDS[kind].endless:
        choices = [name for name in TAILS if name != "budget"]
        tail = [
            (name, draw.randint(2, 4)) for name in draw.sample(choices, draw.choice([1, 1, 2, 3]))
        ]
        tail.sort(key=lambda one: one[0] in LAST)
        if kind in ("index", "block shuffle") and draw.random() < 0.2:
            tail = [("budget", draw.randint(2, 4))]
    return Program(
        kind,
        records,
        {name: draw.randint(1, 3) for name in names},
        tail=tuple(tail),
        batch=None if any(name in LAST for name, _ in tail) else draw.choice([None, 1, 2, 3]),
        shards=draw.randint(1, 3),
        epochs=draw.randint(1, 3),
        every=draw.randint(1, 8),
    )


REASONS = {
    "steps of several sizes": (
        "equal_steps=True needs a pipeline in which each step has the same number of records"
    ),
    "the end of a shard": "equal_steps=True cannot be used at the end of a shard",
    "shorter": "fewer than the shards of that run have read",
    "one shard": "shards do not say at which steps the other shards were",
    "records inside a window": "saved inside a window of a Pack",
    "records of a removed part": "some of its records must still be delivered",
    "late record": "is omitted now, but a Pack, window_shuffle or the like already holds it",
    "a mix of streams after an omission": "records were appended or omitted earlier in the run",
    "a second omission": "were read with another omit= than now",
    "draws otherwise": "would draw other numbers",
    "not one by one": "equal_steps=True cannot be used with a growing source",
    "a digest of weights": "the state does not contain the former values",
    "a record in a window by weight": "the rest would be made of other records",
    "planned batches": "to another pipeline (sampler: batches",
    "a dataset that a window needs": "held some of its records",
    "skipped steps of two sizes": "so a step contains other records in each shard",
    "planned batches and skipped steps": "planned batches cannot change their number of shards",
    "shorter epochs by weight": "in all, but shard ",
    "datasets and omitted records": (
        "datasets were added to a mix or removed from it, and other records are omitted"
    ),
    "rows after a mix": "restore a checkpoint of another step",
    "a growing stream that ended": "this growing stream has ended in the mix on a shard",
    "a growing mix inside a window": "weights or parts of a mix of growing sources changed",
    "live, and not aligned": "in which each step has the same number of records",
    "live, and grows": "does not work for a mix whose parts grow during the run",
    "live, and joined or planned": "does not work for",
    "live, and left by other shards": (
        "its records are the rest of a run on another number of shards"
    ),
    "live, after the end": "is after the end of the stream",
}
"""What may be refused, and words of the message."""


class Outcome(NamedTuple):
    """The result of a history: how many changes were made, and which were refused."""

    changes: int
    refused: tuple[Refusal, ...]


class MixInForce:
    """The weights with which a mix draws: those of its program, unless a call of `change` gave it
    others.

    After a call, a program with the weights of before the call may restore the run too: the weights
    of the call stay.

    Attributes:
        described: the program that the states describe.
        weights: the weights in force; they are those of the program, where these were never changed
            by a call.
    """

    def __init__(self, program: Program) -> None:
        self.described, self.weights = program, program.weights

    def change(self, former: Program, then: Program, live: bool) -> None:
        """A program takes over, or, if `live`, a call of `change` makes the run as this program
        describes it.
        """
        if live and "weighted" not in then.kind:
            self.weights = then.weights if then.weights != former.weights else self.weights
        elif (then.weights, then.records.keys()) != (
            self.described.weights,
            self.described.records.keys(),
        ):
            was_called = (
                then.records.keys() == self.described.records.keys()
                and then.weights == self.weights
            )
            self.described, self.weights = self.described if was_called else then, then.weights

    def of(self, program: Program) -> Program:
        """A program with the weights in force."""
        return program._replace(weights=self.weights)


class Shard:
    """An iterator of one shard, which may have elements to repeat that were lost when the run was
    killed.
    """

    def __init__(self, program: Program, iterator: Any) -> None:
        self.program, self.iterator, self.ended = program, iterator, False
        self.expected: list[Any] = []

    def take(self, count: int) -> Iterator[Any]:
        """At most `count` elements."""
        for _ in range(count):
            element = next(self.iterator, None)
            if element is None:
                self.ended = True
                assert not self.expected, f"{self.expected} do not come again"
                return
            if self.expected:
                again = self.expected.pop(0)
                assert np.array_equal(again, element), f"{element} comes instead of {again}"
            yield element


def opened(program: Program, world: World) -> list[Shard]:
    """All shards of a program."""
    world.take(program.records)
    if KINDS[program.kind].grows:
        program = program._replace(records={name: world.newest()[name] for name in program.records})
    make, shards = (
        KINDS[program.kind].make,
        [ShardOptions(shard, program.shards) for shard in range(program.shards)],
    )
    return [Shard(program, iter(make(program, shard, world))) for shard in shards]


def played(history: History) -> Outcome:
    """Play a history. Raises AssertionError, or what else should not be raised."""
    world = World(history.program.records)
    if KINDS[history.program.kind].grows:
        with tempfile.TemporaryDirectory() as world.folder:
            return _played(history, world)
    return _played(history, world)


def _played(history: History, world: World) -> Outcome:
    program, account, mix = history.program, Account(history.program), MixInForce(history.program)
    shards, ended, even = opened(program, world), False, True
    changes, refused = 0, list[Refusal]()
    for run in history.runs:
        for name, more in run.appended:
            if name in program.records:
                world.sizes[name].append(world.sizes[name][-1] + more)
                lead = max(run.steps) * program.shards * (program.batch or 1)
                account.grow(
                    name,
                    world.sizes[name][-1],
                    joins=program.kind.endswith("now"),
                    looks=True,
                    lead=lead,
                )
        for number, shard in enumerate(shards):
            for element in shard.take(run.steps[number % len(run.steps)]):
                account.take(element)
        ended |= any(shard.ended for shard in shards)
        states = [shard.iterator.get_state() for shard in shards]
        equal = len({shard.iterator.step for shard in shards}) == 1 and not ended and even
        then = run.then
        wanted = one_change(program, then) if run.way == "live" and equal else {}
        live = wanted and not any(shard.expected for shard in shards)
        lost = [[*shard.take(0 if live else run.lost)] for shard in shards]
        account.looked_ahead |= any(lost)
        found = (
            _changed(shards, wanted, then)
            if live
            else _resumed(states, opened(then, world), run.way, program, equal)
        )
        if isinstance(found, str):
            refused.append(Refusal(reason_of(found), found))
            then = program
            found = _resumed(states, opened(then, world), "own", program, False)
            assert not isinstance(found, str), f"the same program is refused: {found}"
        elif then != program:
            changes += 1
            mix.change(program, then, bool(live))
        if then == program and not KINDS[program.kind].grows:
            for shard, elements in zip(found, lost):
                shard.expected = elements
        ended &= then.shards == program.shards
        even = then.shards != program.shards or (even and (equal or then.batch == program.batch))
        account.change(mix.of(then))
        program, shards = then, found
    _finish(program, shards, world, account, mix)
    return Outcome(changes, tuple(refused))


def one_change(former: Program, then: Program) -> dict[str, Any]:
    """The arguments of `change` that make one program of another; {} if there are none, or it takes
    several calls.
    """
    wanted: dict[str, Any] = {}
    kind = KINDS[then.kind]
    if then.weights != former.weights and then.weights.keys() == former.weights.keys():
        wanted["weights"] = record_weights(then) if "weighted" in then.kind else mix_weights(then)
    if then.omitted != former.omitted:
        omitted = {name: list(keys) for name, keys in then.omitted.items() if name in then.records}
        wanted["omit"] = omitted["a"] if kind.parts == (1, 1) else omitted
    if then.batch != former.batch:
        wanted["batch_size"] = then.batch
    if wanted.get("weights", {}) is None or wanted.get("batch_size", 1) is None:
        return {}
    rest = former._replace(weights=then.weights, omitted=then.omitted, batch=then.batch)
    return wanted if len(wanted) == 1 and rest == then else {}


def _changed(shards: list[Shard], wanted: dict[str, Any], then: Program) -> list[Shard] | str:
    """The same shards, which go on with a change; or why that was refused."""
    reasons = [_reason(partial(shard.iterator.change, **wanted)) for shard in shards]
    assert all(reasons) or not any(reasons), f"some shards change, and others do not: {reasons}"
    if reasons[0]:
        return reasons[0]
    for shard in shards:
        shard.program = then
    return shards


def _reason(change: Callable[[], None]) -> str:
    """Why a change was refused; "" if it was made."""
    try:
        change()
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def _resumed(
    states: list[bytes], shards: list[Shard], way: str, former: Program, equal: bool
) -> list[Shard] | str:
    """Shards that were restored; or why that was refused."""
    program = shards[0].program
    strict = (program.weights, program.records.keys()) == (former.weights, former.records.keys())
    try:
        for number, shard in enumerate(shards):
            if way == "own" and len(states) == len(shards):
                shard.iterator.set_state(states[number], strict=strict)
            elif way == "one" and equal and former.aligned:
                shard.iterator.set_states([states[-1]], strict=strict, equal_steps=True)
            else:
                shard.iterator.set_states(states, strict=strict)
    except CheckpointError as error:
        return str(error)
    return shards


def reason_of(text: str) -> str:
    """The key of `REASONS` that a refusal belongs to. Raises AssertionError: none, or the text has
    no remedy.
    """
    assert REMEDY.search(text), f"no remedy: {text}"
    found = [name for name, words in REASONS.items() if words in text]
    assert found, f"refused for a reason that is not expected: {text}"
    return found[0]


def _finish(
    program: Program, shards: list[Shard], world: World, account: Account, mix: MixInForce
) -> None:
    """Read to the end. Without an end, one shard takes over, so that nothing before its place is
    left.
    """
    steps, endless = MOST_STEPS, KINDS[program.kind].endless
    if endless:
        states, one = [shard.iterator.get_state() for shard in shards], program._replace(shards=1)
        found = _resumed(states, opened(one, world), "all", program, False)
        if isinstance(found, str):
            assert reason_of(found) == "skipped steps of two sizes", (
                f"the same program is refused on one shard: {found}"
            )
            return
        account.change(mix.of(one))
        steps, shards = (36 + account.passed) // (program.batch or 1), found
    for shard in shards:
        count = sum(account.take(element) for element in shard.take(steps))
        assert endless or count < steps, "no end comes"
    account.check()


def smallest(history: History, fails: Callable[[History], bool]) -> History:
    """A history that still fails, from which nothing can be left out."""
    while True:
        smaller = next(
            (each for each in _smaller(history) if each != history and fails(each)), None
        )
        if smaller is None:
            return history
        history = smaller


def _smaller(history: History) -> Iterator[History]:
    program, runs = history
    for number in range(len(runs)):
        yield History(program, (*runs[:number], *runs[number + 1 :]))
    for number, run in enumerate(runs):

        def others(new, number=number):
            return History(program, (*runs[:number], new, *runs[number + 1 :]))

        yield from (others(run._replace(lost=0)), others(run._replace(appended=run.appended[1:])))
        yield from (others(run._replace(way="all")), others(run._replace(steps=(max(run.steps),))))
        for place, steps in enumerate(run.steps):
            if steps:
                yield others(
                    run._replace(steps=(*run.steps[:place], steps - 1, *run.steps[place + 1 :]))
                )
        before = program if not number else runs[number - 1].then
        for field in Program._fields:
            if getattr(run.then, field) != getattr(before, field):
                yield _everywhere(history, number + 1, **{field: getattr(before, field)})
    for number in range(len(program.tail)):
        yield _everywhere(history, 0, tail=(*program.tail[:number], *program.tail[number + 1 :]))
    yield from (
        _everywhere(history, 0, batch=None),
        _everywhere(history, 0, epochs=1),
        _everywhere(history, 0, shards=1),
    )
    for name, count in program.records.items():
        if count > 1:
            yield _counts(history, {**program.records, name: count - 1})
    for change in ({"skipped": ()}, {"omitted": {}}):
        yield _everywhere(history, 0, **change)


def _everywhere(history: History, first: int, **fields: Any) -> History:
    """The same change of all programs from a number on."""
    program = history.program if first else history.program._replace(**fields)
    runs = [
        run if number < first else run._replace(then=run.then._replace(**fields))
        for number, run in enumerate(history.runs, 1)
    ]
    return History(program, tuple(runs))


def _counts(history: History, records: dict[str, int]) -> History:
    runs = [
        run._replace(
            then=run.then._replace(
                records={
                    **run.then.records,
                    **{
                        name: max(count, 1)
                        for name, count in records.items()
                        if name in run.then.records
                        and run.then.records[name] == history.program.records[name]
                    },
                }
            )
        )
        for run in history.runs
    ]
    return History(history.program._replace(records=records), tuple(runs))


def told(history: History) -> str:
    """A history as short text: what each program changes."""
    lines, last = [f"{_fields(history.program, Program())}"], history.program
    for run in history.runs:
        lines.append(
            f"steps {run.steps} lost {run.lost} appended {run.appended}; {run.way}: "
            f"{_fields(run.then, last)}"
        )
        last = run.then
    return "\n".join(lines)


def _fields(program: Program, last: Program) -> dict[str, Any]:
    return {
        name: value
        for name, value in program._asdict().items()
        if value != getattr(last, name) or name == "kind"
    }
