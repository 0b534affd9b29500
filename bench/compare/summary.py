"""Summarise the turns of contenders: medians and spreads, and ratios; as plain values, and as a
table.

A ratio is the median of the ratios within each round. The contenders of a round run within seconds
of each other, so most changes of a shared machine cancel out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from compare.work import Contender, Workload
from measuring import Turn
from rich import box
from rich.console import Console
from rich.table import Table

Turns = dict[Contender, list[Turn]]
"""Measured turns of each contender, one turn for each round."""

COLUMNS = {
    "contender": "{label}",
    "records/s": "{rate:,.0f}",
    "min – max": "{rate_low:,.0f} – {rate_high:,.0f}",
    "× limit": "{to_limit:.3g}",
    "× bare": "{to_bare:.3g}",
    "first batch ms": "{first_batch_ms:,.1f}",
    "next() p50 µs": "{next_p50_us:,.0f}",
    "p99 µs": "{next_p99_us:,.0f}",
    "CPU-s / million": "{cpu_seconds_per_million:,.1f}",
}


def report(workload: Workload, checksum: str, turns: Turns) -> dict[str, Any]:
    """Return the results of one workload as plain values. `checksum` belongs to the first batches
    of all contenders.
    """
    loops = {
        contender.name: own
        for contender, own in turns.items()
        if contender.name in ("limit", "bare")
    }
    shares = [turn.cpu_seconds / turn.seconds for turn in loops.get("limit", [])]
    return {
        "workload": workload.name,
        "about": workload.about,
        "batch_size": workload.batch_size,
        "checksum": checksum,
        "core_share_of_limit_loop": float(np.median(shares)) if shares else None,
        "contenders": [_summary(contender, own, loops) for contender, own in turns.items()],
    }


def _summary(contender: Contender, own: list[Turn], loops: dict[str, list[Turn]]) -> dict[str, Any]:
    """A contender's numbers; ratios to loops that took no part are None."""
    rates = [turn.rate for turn in own]
    ratios = {name: np.divide(rates, [turn.rate for turn in loop]) for name, loop in loops.items()}
    p50, p99 = np.percentile(np.concatenate([turn.waits for turn in own]), [50, 99])
    return {
        "name": contender.name,
        "label": contender.label,
        "worker_count": contender.worker_count,
        "rate": float(np.median(rates)),
        "rate_low": min(rates),
        "rate_high": max(rates),
        "to_limit": float(np.median(ratios["limit"])) if "limit" in ratios else None,
        "to_bare": float(np.median(ratios["bare"])) if "bare" in ratios else None,
        "first_batch_ms": 1e3 * float(np.median([turn.first_batch_seconds for turn in own])),
        "next_p50_us": 1e6 * float(p50),
        "next_p99_us": 1e6 * float(p99),
        "cpu_seconds_per_million": 1e6
        * float(np.median([turn.cpu_seconds / turn.records for turn in own])),
        "rates": rates,
    }


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the table of a report."""
    title, style = (
        found["workload"],
        {"title_justify": "left", "title_style": "bold", "padding": (0, 1, 0, 0)},
    )
    table = Table(title=title, box=box.SIMPLE_HEAD, **style)
    for column in COLUMNS:
        heading = column.replace(" ", "\n", 1) if len(column) > 9 else column
        table.add_column(
            heading, justify="left" if column == "contender" else "right", no_wrap=True
        )
    for summary in found["contenders"]:
        cells = [_cell(written, summary) for written in COLUMNS.values()]
        table.add_row(*cells, style="bold" if summary["name"] == "headrace" else None)
    console.print(table)
    share = found["core_share_of_limit_loop"]  # well below 1, others were using the machine
    calm = "" if share is None else f"; the limit loop got {share:.0%} of a core"
    console.print(f"  checksum {found['checksum']}{calm}", highlight=False)


def _cell(written: str, summary: dict[str, Any]) -> str:
    try:
        return written.format(**summary)
    except TypeError:  # a ratio that is None
        return "–"
