"""Write results as JSON (`results.json`), as Markdown (`results.md`), and as tables on the terminal.

It takes the reports of all turns, and facts about the machine and the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from summary import SUBJECT, Outcome, Report, Summary

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

INTRODUCTION = """\
Made by `python benchmarks/compare.py`. Contenders take turns, round by round; rates are medians of the rounds, ratios
medians of the ratios within each round. p50 and p99 are over all `next()` of all rounds; CPU time includes threads and
child processes. First batches of all contenders in one common order had the same checksum. The C library was made to
keep freed memory of up to 31 MiB (`settle_allocator` in `benchmarks/measure.py` says why)."""

Facts = Mapping[str, Any]


def write(folder: Path, facts: Facts, reports: Sequence[Report]) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"facts": dict(facts), "workloads": [report.to_dict() for report in reports]}
    (folder / "results.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    (folder / "results.md").write_text("\n".join(_markdown(facts, reports)) + "\n")


def show(console: Console, report: Report) -> None:
    """Print a workload's table."""
    table = Table(
        title=report.workload.name, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column(COLUMNS[0], no_wrap=True)
    for column in COLUMNS[1:]:
        table.add_column(_folded(column), justify="right", no_wrap=True)
    for summary in report.summaries():
        table.add_row(*_cells(summary), style="bold" if summary.name == "headrace" else None)
    console.print(table)
    console.print(f"  {_mood(report)}", highlight=False)
    for outcome in report.outcomes():
        console.print(f"  {_as_text(outcome)}", style="green" if outcome.met else "red", highlight=False)


def _markdown(facts: Facts, reports: Sequence[Report]) -> Iterator[str]:
    yield "# headrace and others on the same work\n"
    yield INTRODUCTION + "\n"
    yield "| | |\n|---|---|"
    for name, value in facts.items():
        yield f"| {name} | {value} |"
    for report in reports:
        yield from _markdown_of(report)


def _markdown_of(report: Report) -> Iterator[str]:
    workload = report.workload
    yield f"\n## {workload.name}\n"
    yield f"{workload.about}. Batch {workload.batch_size}. Limit loop: {workload.limit}.\n"
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|" + "---:|" * (len(COLUMNS) - 1)
    for summary in report.summaries():
        yield f"| {' | '.join(_cells(summary))} |"
    yield f"\n* {_mood(report)}"
    for outcome in report.outcomes():
        yield f"* {_as_text(outcome)}"


def _cells(summary: Summary) -> list[str]:
    return [
        summary.label,
        f"{summary.rate:,.0f}",
        f"{summary.rate_low:,.0f} – {summary.rate_high:,.0f}",
        _ratio(summary.to_limit),
        _ratio(summary.to_bare),
        f"{summary.first_batch_ms:,.1f}",
        f"{summary.next_p50_us:,.0f}",
        f"{summary.next_p99_us:,.0f}",
        f"{summary.cpu_seconds_per_million:,.1f}",
    ]


def _folded(column: str) -> str:
    """A long heading on two lines."""
    return column.replace(" ", "\n", 1) if len(column) > 9 else column


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if value < 0.095 else f"{value:.2f}"


def _mood(report: Report) -> str:
    share = report.calm()
    return f"checksum {report.checksum}" + ("" if share is None else f"; the limit loop got {share:.0%} of a core")


def _as_text(outcome: Outcome) -> str:
    goal = outcome.goal
    subject = "" if goal.subject == SUBJECT else f"{goal.subject}: "
    reference = " and ".join(goal.references)
    if outcome.reached is None:
        return f"{subject}goal {goal.at_least:g} × {reference}: not measured"
    verdict = "reached" if outcome.met else "MISSED"
    return f"{subject}goal {goal.at_least:g} × {reference}: {outcome.reached:.2f}, {verdict} (by CPU time {outcome.by_cpu:.2f})"
