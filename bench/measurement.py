"""Run a measurement, i.e. a module of `measurements/`: contenders take turns, and a table of their
medians is printed.

A module has `TABLES`, functions by name, which take the options of the command line and yield
tables; and `OPTIONS`, its options with their defaults.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
from measuring import settle_process, turns


class Table(NamedTuple):
    """Contenders under a title.

    Attributes:
        title: says what is measured, in which unit.
        contenders: by their labels, functions that return one sample or a list of them; or numbers
            that need no turns.
        better: `more` or `less`, if the table is to say how many times as good as the first
            contender each one is.
    """

    title: str
    contenders: dict[str, Callable[[], float | list[float]] | float | list[float]]
    better: str = ""


def arguments(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    """Add the names of the module's tables, and its options."""
    names = list(module.TABLES)
    about = f"some of {', '.join(names)}"
    parser.add_argument("tables", nargs="*", choices=[[], *names], metavar="TABLE", help=about)
    for name, default in module.OPTIONS.items():
        about = f"default: {default!r}"
        parser.add_argument(f"--{name}", type=type(default), default=default, help=about)


def main(module: ModuleType, options: argparse.Namespace) -> None:
    """Measure and print the tables that are named, or all."""
    settle_process()
    for name in options.tables or module.TABLES:
        for table in module.TABLES[name](options):
            show(table, measured(table, getattr(options, "rounds", 1)))


def measured(table: Table, rounds: int) -> dict[str, list[float]]:
    """The samples of each contender, in the order of the table."""
    known = {label: np.atleast_1d(each).tolist() for label, each in table.contenders.items()}
    timed = {label: each for label, each in table.contenders.items() if callable(each)}
    return known | turns(rounds, timed)


def show(table: Table, samples: dict[str, list[float]]) -> None:
    """Print a table; the spread only where there are several samples."""
    first = next(iter(samples.values()))
    spread = {"min": 0, "p99": 99, "max": 100} if max(map(len, samples.values())) > 1 else {}
    rows = []
    for label, values in samples.items():
        figures = [float(np.median(values))]
        # the ratios within rounds, so that most changes of a shared machine cancel out
        if table.better:
            ratio = float(np.median(np.divide(values, first)))
            figures.append(ratio if table.better == "more" else 1 / ratio)
        figures += [float(np.percentile(values, share)) for share in spread.values()]
        rows.append([label, *map(as_text, figures)])
    head = ["", "median", *(["× the first"] if table.better else []), *spread]
    print_table(table.title, head, rows)


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a title, all but the first column to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    print(title)
    for first, *others in (head, *rows):
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:])]
        print(f"  {first:{widths[0]}}  {'  '.join(cells)}")
    print(flush=True)


def as_text(value: float) -> str:
    """Five digits, or all of a large number, as 132,677 and 18.394."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.5g}"
