"""Run a measurement, i.e. a module of `measurements/`: contenders take turns, and a table of their
medians is printed.

A module has `TABLES`, functions by name, which take the options of the command line and yield
tables; and it may have `OPTIONS`, its options with their defaults.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import NamedTuple

import numpy as np
from measuring import keep_bytecode, settle_allocator, turns
from rich import box
from rich.console import Console
from rich.table import Table as Printed

WIDTH = 116


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
    parser.add_argument(
        "tables",
        nargs="*",
        choices=[[], *names],
        metavar="TABLE",
        help=f"some of {', '.join(names)}",
    )
    for name, default in getattr(module, "OPTIONS", {}).items():
        parser.add_argument(
            f"--{name}", type=type(default), default=default, help=f"default: {default!r}"
        )


def main(module: ModuleType, options: argparse.Namespace) -> None:
    """Measure and print the tables that are named, or all."""
    settle_allocator()
    keep_bytecode()
    for name in options.tables or module.TABLES:
        tables: Iterable[Table] = module.TABLES[name](options)
        for table in tables:
            show(table, measured(table, getattr(options, "rounds", 1)))


def measured(table: Table, rounds: int) -> dict[str, list[float]]:
    """The samples of each contender, in the order of the table."""
    contenders = {
        label: contender for label, contender in table.contenders.items() if callable(contender)
    }
    known = {
        label: np.atleast_1d(value).tolist()
        for label, value in table.contenders.items()
        if not callable(value)
    }
    samples = turns(rounds, contenders) | known
    return {label: samples[label] for label in table.contenders}


def show(table: Table, samples: dict[str, list[float]]) -> None:
    """Print a table; the spread only where there are several samples."""
    first = next(iter(samples.values()))
    spread = {"min": 0, "p99": 99, "max": 100} if max(map(len, samples.values())) > 1 else {}
    printed = Printed(
        "", "median", *(["× the first"] if table.better else []), *spread, box=box.SIMPLE_HEAD
    )
    for label, values in samples.items():
        figures = [float(np.median(values))]
        # the ratios within rounds, so that most changes of a shared machine cancel out
        if table.better:
            ratio = float(np.median(np.divide(values, first)))
            figures.append(ratio if table.better == "more" else 1 / ratio)
        figures += [float(np.percentile(values, share)) for share in spread.values()]
        printed.add_row(label, *map(as_text, figures))
    Console(width=WIDTH).print(table.title, printed, highlight=False, markup=False, sep="\n")


def as_text(value: float) -> str:
    """Five digits, or all of a large number.

    >>> as_text(132676.7), as_text(18.394), as_text(0.00125)
    ('132,677', '18.394', '0.00125')
    """
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.5g}"
