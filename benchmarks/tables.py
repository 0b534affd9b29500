"""Let contenders take turns, and show their samples as tables for a terminal and for a page.

It takes a function for each contender that measures one turn.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

Samples = dict[str, list[float]]


def turns(rounds: int, contenders: dict[str, Callable[[], list[float]]]) -> Samples:
    """The samples of each contender, one turn in each round; who begins changes."""
    samples: Samples = {name: [] for name in contenders}
    for number in range(rounds):
        for place in range(len(contenders)):
            name = list(contenders)[(place + number) % len(contenders)]
            gc.collect()
            samples[name] += contenders[name]()
    return samples


def _cells(values: list[float]) -> list[str]:
    return [
        f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        for value in np.percentile(values, [50, 0, 99, 100]).tolist()
    ]


def show(console: Console, tables: dict[str, Samples]) -> None:
    """Print the tables."""
    for title, samples in tables.items():
        table = Table("", "median", "min", "p99", "max", title=title, title_justify="left")
        for name, values in samples.items():
            table.add_row(name, *_cells(values))
        console.print(table)


def markdown(tables: dict[str, Samples]) -> Iterator[str]:
    """The same, for a page."""
    for title, samples in tables.items():
        yield f"\n**{title}**\n\n| | median | min | p99 | max |\n|---|---:|---:|---:|---:|"
        for name, values in samples.items():
            yield f"| {name} | {' | '.join(_cells(values))} |"
