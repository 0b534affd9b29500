"""The account of a random history: what came, and what must come. It knows nothing about orders and
states.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from support.history_programs import (
    APART,
    KINDS,
    NAMES,
    Kind,
    Program,
    is_tagged,
    keeps_number,
    number_of,
    record_weight,
)

TOLERANCE = 3
"""How far the number of records of a part may differ from its share."""
NEVER = 1 << 60
"""A position that is not reached."""


class Account:
    """What came, and how often each record must come.

    Attributes:
        came: counts by number of a record and of its copy.
        at: number of the record at each position.
        stages: a program, and two positions: its weights are in force from a position between these
            two on.
        least: how often each record must come at least, if it is not omitted.
        most: how often at most.
        groups: numbers of records that were added together.
        looked_ahead: a run that was killed may have looked for records where no other run will look
            again.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.came = Counter[tuple[int, int]]()
        self.at = dict[int, int]()
        self.stages = [(0, 0, program)]
        self.least, self.most = dict[int, int](), dict[int, int]()
        self.groups = list[list[int]]()
        self.looked_ahead = False
        self._seen = set[tuple[int, int]]()  # positions, with the number of the copy
        self._omitted, self._loose = set[int](), set[int]()
        self._moved = False
        for name, count in program.records.items():
            self._add(name, 0, count, (self._epochs, self._epochs))

    @property
    def _kind(self) -> Kind:
        return KINDS[self.program.kind]

    @property
    def _epochs(self) -> int:
        return self.program.epochs if self._kind.several_epochs else 1

    def _add(self, name: str, first: int, stop: int, bounds: tuple[int, int]) -> None:
        begin = APART * NAMES.index(name)
        self.groups.append([*range(begin + first, begin + stop)])
        for number in self.groups[-1]:
            self.least[number], self.most[number] = bounds

    def take(self, element: Any) -> bool:
        """An element comes. Returns True."""
        self._moved = True
        for token in np.ravel(element).tolist():
            number, copy, position = number_of(token), token & 1, token >> 20
            assert number in self.least, f"record {_told(number)} comes, but it is not there"
            assert number not in self._omitted, f"record {_told(number)} comes, but it is omitted"
            self.came[number, copy] += 1
            if not self._kind.streams and is_tagged(self.program):
                assert (position, copy) not in self._seen, f"position {position} comes twice"
                self._seen.add((position, copy))
                self.at[position] = number
                self._check_weight(position, number)
        return True

    def _check_weight(self, position: int, number: int) -> None:
        """The record may be drawn by the weights that are in force at a position."""
        stops = [*(stop for _, stop, _ in self.stages[1:]), NEVER]
        allowed = [
            program for (low, _, program), stop in zip(self.stages, stops) if low <= position < stop
        ]
        drawn = any(_may_be_drawn(program, number) for program in allowed)
        assert drawn, f"record {_told(number)} comes at position {position}, where its weight is 0"

    def grow(
        self, name: str, stop: int, joins: bool = False, looks: bool = False, lead: int = 0
    ) -> None:
        """A part has so many records now: they come in epochs that begin later, and, if they join,
        in the present one.

        `looks`: the run looks for records, so that it may find them later than they are there.
        `lead`: positions that the fastest shard passes before the next restart. If it stands in the
        next epoch then, this epoch has begun.
        """
        old = [number for number in self.least if number // APART == NAMES.index(name)]
        if stop <= len(old):
            return
        begun = max((self.came[number, 0] for number in old), default=0)
        living = [number for number in old if number not in self._omitted]
        rest = sum(self.came[number, 0] < begun for number in living)
        slack = 4 + self._slack() + self.program.every * looks
        most = self._epochs if not begun and not looks else max(self._epochs - begun + joins, 0)
        sure = (begun > 0 and rest > slack) or not (self._moved or looks)
        least = most if sure else max(0, most - 1 - slack // max(1, len(living)))
        # at least; a fast shard may be in a later one than the counts say
        epoch = len(self.groups[0]) - len(self._omitted)
        ahead = self._kind.several_epochs and max(self.at, default=-1) + 1 + slack > begun * epoch
        least = 0 if (looks and self.looked_ahead) or (ahead and self._moved) else least
        if (
            self._kind.several_epochs
            and max(self.at, default=-1) + 1 + slack + lead > max(begun, 1) * epoch
        ):
            least = max(least - 1, 0)
        self._add(name, len(old), stop, (least, min(most, self._epochs)))

    def _slack(self) -> int:
        """How many positions may have been begun and not seen: of a step of all shards, of windows,
        of skipped steps.
        """
        window = 1
        for name, n in self.program.tail:
            window *= {"filter": 2, "pack": 2 * n, "packed": 2 * n, "budget": 2 * n}.get(name, n)
        steps = sum(stop - start for start, stop in self.program.skipped) * (
            self.program.batch or 1
        )
        return 3 * (window + steps)

    def change(self, program: Program) -> None:
        """The next program has taken over."""
        former, low = self.program, max(self.at, default=-1) + 1
        for name, count in program.records.items():
            if name not in former.records:
                self._add(name, 0, count, (self._epochs, self._epochs))
            elif not self._kind.grows:
                self.grow(name, count)
        for name, keys in program.omitted.items():
            self._omitted |= {APART * NAMES.index(name) + key for key in keys}
        if program.weights != former.weights or program.records.keys() != former.records.keys():
            self.stages.append((low, low + self._slack() if self._moved else low, program))
            if self._kind.repeats:
                self._loose |= {*self.least}
        gone = former.records.keys() - program.records.keys()
        self._loose |= {number for number in self.least if NAMES[number // APART] in gone}
        self.program = program

    def check(self) -> None:
        """All has come that must, and not more."""
        if self._kind.endless:
            self._check_without_end()
            return
        copies = (0, 1) if any(name == "flat map" for name, _ in self.program.tail) else (0,)
        lost, twice = list[str](), list[str]()
        for number in self.least:
            least, most = self._bounds(number)
            for copy in copies:
                count = self.came[number, copy]
                told = f"{_told(number)}{'′' * copy} ×{count}"
                lost += [told] * (count < least)
                twice += [told] * (count > most)
        assert not lost, f"lost {lost}, twice {twice}"
        assert not twice, f"twice {twice}"
        for group in self.groups if not self.program.skipped else ():
            counts = {self.came[number, 0] for number in group if self._is_steady(number)}
            assert len(counts) <= 1, f"records that were added together come {counts} times"

    def _bounds(self, number: int) -> tuple[int, int]:
        """How often a record must come at least and at most."""
        if not self._passes(number):
            return 0, 0
        repeats = self._kind.repeats and number in self._loose
        least = self.least[number] if self._is_steady(number) and not self.program.skipped else 0
        return least, NEVER if repeats else self.most[number]

    def _is_steady(self, number: int) -> bool:
        """True if a record was never omitted or removed, and is drawn now."""
        drawn = _may_be_drawn(self.program, number) and self._passes(number)
        return drawn and number not in self._omitted and number not in self._loose

    def _passes(self, number: int) -> bool:
        return keeps_number(number) or not any(name == "filter" for name, _ in self.program.tail)

    @property
    def passed(self) -> int:
        """The number of positions that did not come, before the last one that came."""
        return max(self.at, default=-1) + 1 - len(self.at)

    def _check_without_end(self) -> None:
        """No position is passed over; parts come as their weights say, each record as often as the
        others of its part.
        """
        dense = next(position for position in range(NEVER) if position not in self.at)
        assert not self.passed or self.program.skipped, (
            f"{self.passed} positions from {dense} on do not come"
        )
        if self.program.kind != "endless mix":
            return
        stops = [*(low for low, _, _ in self.stages[1:]), dense]
        for (_, begin, program), stop in zip(self.stages, stops):
            drawn = [
                NAMES[self.at[position] // APART] for position in range(begin, min(stop, dense))
            ]
            for name, weight in program.weights.items():
                share, count = (
                    len(drawn) * weight / sum(program.weights.values()),
                    drawn.count(name),
                )
                assert abs(count - share) <= TOLERANCE, (
                    f"part {name} comes {count} times, and its share is {share}"
                )
        for group in self.groups:
            counts = dict.fromkeys(set(group) - self._omitted, 0)
            for position in range(dense):
                if self.at[position] in counts:
                    counts[self.at[position]] += 1
                    assert max(counts.values()) - min(counts.values()) <= 1, (
                        f"records come {counts} times"
                    )


def _told(number: int) -> str:
    return f"{NAMES[number // APART]}{number % APART}"


def _may_be_drawn(program: Program, number: int) -> bool:
    """True if the weight of a record, or of its part, is above 0."""
    if "weighted" in program.kind:
        return record_weight(program, number) > 0
    name = NAMES[number // APART]
    return program.weights.get(name, 0) > 0 or name in KINDS[program.kind].fixed
