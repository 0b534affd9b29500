"""Show what was measured, on a terminal: samples of contenders, and rows of a number with a remark."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from measuring import Samples
from rich.console import Console
from rich.table import Table

Row = tuple[float, str]
"""A measured number, and a remark."""


def show(tables: dict[str, Samples]) -> None:
    """Print the tables of samples, by their titles."""
    console = Console(width=110)
    for title, samples in tables.items():
        table = Table("", "median", "min", "p99", "max", title=title, title_justify="left")
        for name, values in samples.items():
            figures = np.percentile(values, [50, 0, 99, 100]).tolist()
            table.add_row(name, *(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in figures))
        console.print(table)


def print_rows(rows: dict[str, Callable[[], Row]], names: list[str]) -> None:
    """Measure the rows that are named, or all, and print a line for each."""
    for name in names or rows:
        measured, remark = rows[name]()
        print(f"{name:<18}{measured:>10.4f}   {remark}", flush=True)
