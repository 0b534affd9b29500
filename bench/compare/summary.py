"""Summarise the turns of contenders: medians and spreads, and ratios; as a table and as plain values.

A ratio is the median of the ratios within each round. The contenders of a round run within seconds of
each other, so most changes of a shared machine cancel out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from compare.work import Contender, Workload
from measuring import Turn
from rich import box
from rich.console import Console
from rich.table import Table

COLUMNS = (
    "contender",
    "records/s",
    "min – max",
    "× limit",
    "× bare",
    "first batch ms",
    "next() p50 µs",
    "p99 µs",
    "CPU-s / million",
)


@dataclass(frozen=True)
class Summary:
    """A contender's numbers in one workload.

    Attributes:
        rate: records per second, median of the rounds.
        rate_low: the slowest round's.
        rate_high: the fastest round's.
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
    to_limit: float | None
    to_bare: float | None
    first_batch_ms: float
    next_p50_us: float
    next_p99_us: float
    cpu_seconds_per_million: float

    def cells(self) -> list[str]:
        """Its row of the table."""
        return [
            self.label,
            f"{self.rate:,.0f}",
            f"{self.rate_low:,.0f} – {self.rate_high:,.0f}",
            *("–" if one is None else f"{one:.3f}" if one < 0.095 else f"{one:.2f}" for one in self._ratios()),
            f"{self.first_batch_ms:,.1f}",
            f"{self.next_p50_us:,.0f}",
            f"{self.next_p99_us:,.0f}",
            f"{self.cpu_seconds_per_million:,.1f}",
        ]

    def _ratios(self) -> tuple[float | None, float | None]:
        return self.to_limit, self.to_bare


@dataclass(frozen=True)
class Report:
    """All about one workload.

    Attributes:
        checksum: of the first batches of all contenders.
        turns: of each contender, one for each round.
    """

    workload: Workload
    checksum: str
    turns: dict[Contender, list[Turn]]

    def summaries(self) -> list[Summary]:
        """One for each contender."""
        return [self._summary(contender) for contender in self.turns]

    def _summary(self, contender: Contender) -> Summary:
        turns, rates = self.turns[contender], self._rates(contender)
        p50, p99 = np.percentile(np.concatenate([turn.waits for turn in turns]), [50, 99])
        return Summary(
            name=contender.name,
            label=contender.label,
            worker_count=contender.worker_count,
            rate=float(np.median(rates)),
            rate_low=min(rates),
            rate_high=max(rates),
            to_limit=self._ratio(contender, "limit"),
            to_bare=self._ratio(contender, "bare"),
            first_batch_ms=1e3 * float(np.median([turn.first_batch_seconds for turn in turns])),
            next_p50_us=1e6 * float(p50),
            next_p99_us=1e6 * float(p99),
            cpu_seconds_per_million=1e6 * float(np.median([turn.cpu_seconds / turn.records for turn in turns])),
        )

    def _rates(self, contender: Contender) -> list[float]:
        return [turn.rate for turn in self.turns[contender]]

    def _ratio(self, contender: Contender, name: str) -> float | None:
        """How many times as fast as a loop; the median over the rounds."""
        loop = next((one for one in self.turns if one.name == name), None)
        return None if loop is None else float(np.median(np.divide(self._rates(contender), self._rates(loop))))

    def _core_share(self) -> float | None:
        """The share of a core that the limit loop got: well below 1, others were using the machine."""
        turns = next((turns for one, turns in self.turns.items() if one.name == "limit"), None)
        return None if turns is None else float(np.median([turn.cpu_seconds / turn.seconds for turn in turns]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the summaries, and the rate of every turn."""
        return {
            "workload": self.workload.name,
            "about": self.workload.about,
            "batch_size": self.workload.batch_size,
            "checksum": self.checksum,
            "core_share_of_limit_loop": self._core_share(),
            "contenders": [
                {**asdict(summary), "rates": self._rates(contender)}
                for summary, contender in zip(self.summaries(), self.turns)
            ],
        }

    def show(self, console: Console) -> None:
        """Print the table."""
        title, style = self.workload.name, {"title_justify": "left", "title_style": "bold", "padding": (0, 1, 0, 0)}
        table = Table(title=title, box=box.SIMPLE_HEAD, **style)
        table.add_column(COLUMNS[0], no_wrap=True)
        for column in COLUMNS[1:]:
            heading = column.replace(" ", "\n", 1) if len(column) > 9 else column
            table.add_column(heading, justify="right", no_wrap=True)
        for summary in self.summaries():
            table.add_row(*summary.cells(), style="bold" if summary.name == "headrace" else None)
        console.print(table)
        share = self._core_share()
        calm = "" if share is None else f"; the limit loop got {share:.0%} of a core"
        console.print(f"  checksum {self.checksum}{calm}", highlight=False)
