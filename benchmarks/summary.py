"""Summarise many turns: medians and spreads, ratios, and whether the goals were reached.

A ratio is the median of the ratios within each round. The contenders of a round run within seconds of
each other, so most changes of a shared machine cancel out. The ratios by CPU time show what remains:
other processes have little influence on them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from contender import Contender, label_of, name_of
from measure import Turn
from workloads import Goal, Workload

SUBJECT = "headrace"


@dataclass(frozen=True)
class Standing:
    """A contender and its turns, one for each round."""

    contender: Contender
    turns: tuple[Turn, ...]

    @property
    def name(self) -> str:
        """Unique in the run."""
        return name_of(self.contender)

    def rates(self) -> list[float]:
        """Records per second of each round."""
        return [turn.rate for turn in self.turns]

    def costs(self) -> list[float]:
        """CPU-seconds for a record, of each round."""
        return [turn.cpu_seconds / turn.records for turn in self.turns]

    def ratio(self, other: Standing) -> float:
        """How many times as fast as `other`; the median over the rounds."""
        return float(np.median(np.divide(self.rates(), other.rates())))

    def cpu_ratio(self, other: Standing) -> float:
        """How many times the records of `other` for the same CPU time; the median over the rounds."""
        return float(np.median(np.divide(other.costs(), self.costs())))

    def cpu_share(self) -> float:
        """CPU-seconds in a second; the median over the rounds."""
        return float(np.median([turn.cpu_seconds / turn.seconds for turn in self.turns]))


@dataclass(frozen=True)
class Summary:
    """A contender's numbers in one workload.

    Attributes:
        rate: records per second, median of the rounds.
        rate_low: the slowest round's.
        rate_high: the fastest round's.
        rate_iqr: distance of the rounds' quartiles.
        to_limit: ratio to the limit loop; None when that took no part.
        to_bare: ratio to the bare loop; None when that took no part.
        first_batch_ms: median of the rounds.
        next_p50_us: median of all waits in `next()`.
        next_p99_us: their 99th percentile.
        cpu_seconds_per_million: CPU-seconds for a million records, median of the rounds.
    """

    name: str
    label: str
    worker_count: int
    rate: float
    rate_low: float
    rate_high: float
    rate_iqr: float
    to_limit: float | None
    to_bare: float | None
    first_batch_ms: float
    next_p50_us: float
    next_p99_us: float
    cpu_seconds_per_million: float


@dataclass(frozen=True)
class Outcome:
    """A goal, and how far it was reached.

    Attributes:
        reached: ratio to the fastest reference; None when one took no part.
        by_cpu: the same by CPU time.
    """

    goal: Goal
    reached: float | None
    by_cpu: float | None

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.reached is not None and self.reached >= self.goal.at_least


@dataclass(frozen=True)
class Report:
    """All about one workload."""

    workload: Workload
    checksum: str
    standings: tuple[Standing, ...]

    def summaries(self) -> list[Summary]:
        """One for each contender."""
        return [self._summary(standing) for standing in self.standings]

    def outcomes(self) -> list[Outcome]:
        """One for each goal."""
        return [self._outcome(goal) for goal in self.workload.goals]

    def calm(self) -> float | None:
        """The share of a core that the limit loop got: well below 1, others were using the machine."""
        limit = self._find("limit")
        return None if limit is None else limit.cpu_share()

    def _find(self, name: str) -> Standing | None:
        return next((standing for standing in self.standings if standing.name == name), None)

    def _outcome(self, goal: Goal) -> Outcome:
        subject = self._find(goal.subject)
        references = [standing for standing in map(self._find, goal.references) if standing is not None]
        if subject is None or len(references) < len(goal.references):
            return Outcome(goal, None, None)
        reached, by_cpu = map(min, zip(*((subject.ratio(other), subject.cpu_ratio(other)) for other in references)))
        return Outcome(goal, reached, by_cpu)

    def _summary(self, standing: Standing) -> Summary:
        rates, turns = standing.rates(), standing.turns
        p50, p99 = np.percentile(np.concatenate([turn.waits for turn in turns]), [50, 99])
        limit, bare = self._find("limit"), self._find("bare")
        return Summary(
            name=standing.name,
            label=label_of(standing.contender),
            worker_count=standing.contender.worker_count,
            rate=float(np.median(rates)),
            rate_low=min(rates),
            rate_high=max(rates),
            rate_iqr=float(np.subtract(*np.percentile(rates, [75, 25]))),
            to_limit=None if limit is None else standing.ratio(limit),
            to_bare=None if bare is None else standing.ratio(bare),
            first_batch_ms=1e3 * float(np.median([turn.first_batch_seconds for turn in turns])),
            next_p50_us=1e6 * float(p50),
            next_p99_us=1e6 * float(p99),
            cpu_seconds_per_million=1e6 * float(np.median(standing.costs())),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the summaries, the goals, and every turn."""
        return {
            "workload": self.workload.name,
            "about": self.workload.about,
            "limit": self.workload.limit,
            "batch_size": self.workload.batch_size,
            "checksum": self.checksum,
            "core_share_of_limit_loop": self.calm(),
            "contenders": [
                {**asdict(summary), "turns": [_turn_to_dict(turn) for turn in standing.turns]}
                for summary, standing in zip(self.summaries(), self.standings)
            ],
            "goals": [_outcome_to_dict(outcome) for outcome in self.outcomes()],
        }


def _outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    return {**asdict(outcome.goal), "reached": outcome.reached, "by_cpu": outcome.by_cpu, "met": outcome.met}


def _turn_to_dict(turn: Turn) -> dict[str, float]:
    p50, p99 = np.percentile(turn.waits, [50, 99])
    return {
        "records": turn.records,
        "seconds": turn.seconds,
        "rate": turn.rate,
        "first_batch_seconds": turn.first_batch_seconds,
        "cpu_seconds": turn.cpu_seconds,
        "next_p50_seconds": float(p50),
        "next_p99_seconds": float(p99),
    }
