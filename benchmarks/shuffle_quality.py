"""Plot how well each algorithm of `IndexSampler` shuffles, by the number of records.

    python benchmarks/shuffle_quality.py [--out FILE]

Writes docs/shuffle.png. For each number of records, eight seeds and two places (the start of the first
epoch, and a third of it), 1,024 consecutive positions are read, as eight batches of 128 would be.
Panel 1: their keys in 64 equal buckets, chi² against an even spread, divided by its 63 degrees of
freedom. Panel 2: the mean distance of neighbours, divided by a third of the range. A random order has 1
in both.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

from headrace import IndexSampler

SIZES = (60_000, 1_281_167, 10**7, 10**9, 10**10, 10**12)
SEEDS = range(8)
WINDOW, BUCKETS = 1024, 64

Keys = NDArray[np.int64]


@dataclass(frozen=True)
class Series:
    """An algorithm, and how it is drawn."""

    algorithm: Literal["headrace", "grain"]
    label: str
    color: str
    marker: str


@dataclass(frozen=True)
class Panel:
    """A measure of quality; a random order has 1, and `low` to `high` is what headrace's tests accept on average."""

    title: str
    measure: Callable[[Keys, int], float]
    low: float
    high: float
    scale: Literal["linear", "log"]
    ticks: tuple[float, ...]


SERIES = (
    Series("grain", 'algorithm="grain": the four-round cipher', "#c2410c", "s"),
    Series("headrace", 'algorithm="headrace" (default)', "#1d4ed8", "o"),
)


def chi_square(keys: Keys, num_records: int) -> float:
    """Chi² of the keys in equal buckets, over its degrees of freedom."""
    edges = np.arange(1, BUCKETS) * num_records // BUCKETS
    counts = np.bincount(np.searchsorted(edges, keys, side="right"), minlength=BUCKETS)
    expected = len(keys) / BUCKETS
    return float(((counts - expected) ** 2).sum() / expected / (BUCKETS - 1))


def neighbour_distance(keys: Keys, num_records: int) -> float:
    """Mean distance of consecutive keys, over a third of the range."""
    return float(np.abs(np.diff(keys)).mean() * 3 / num_records)


PANELS = (
    Panel(
        title="Evenness of 1,024 consecutive keys\nchi² / 63 in 64 buckets",
        measure=chi_square,
        low=0.9,
        high=1.1,
        scale="log",
        ticks=(0.5, 1, 2, 5, 10, 20, 50),
    ),
    Panel(
        title="Mean distance of neighbours\n× 3 / range",
        measure=neighbour_distance,
        low=0.97,
        high=1.03,
        scale="linear",
        ticks=(0, 0.2, 0.4, 0.6, 0.8, 1),
    ),
)


def windows(series: Series, num_records: int) -> list[Keys]:
    """The keys of all windows of one size."""
    samplers = [IndexSampler(num_records, shuffle=True, seed=seed, algorithm=series.algorithm) for seed in SEEDS]
    starts = (0, num_records // 3)
    return [sampler.record_keys(np.arange(start, start + WINDOW)) for sampler in samplers for start in starts]


def draw_series(axes: Axes, panel: Panel, series: Series) -> None:
    """The mean over the windows as a line, their smallest to largest value as a band."""
    values = np.array([[panel.measure(keys, size) for keys in windows(series, size)] for size in SIZES])
    axes.fill_between(SIZES, values.min(1), values.max(1), color=series.color, alpha=0.15, linewidth=0)
    axes.plot(SIZES, values.mean(1), color=series.color, marker=series.marker, markersize=5, label=series.label)
    for size, row in zip(SIZES, values):
        told = f"{row.mean():6.2f} ({row.min():.2f} – {row.max():.2f})"
        print(f"{series.algorithm:9} {size:>17,} {panel.measure.__name__:19} {told}")


def draw_panel(axes: Axes, panel: Panel) -> None:
    """One panel, all series."""
    axes.axhspan(panel.low, panel.high, color="#9ca3af", alpha=0.45, linewidth=0, label="accepted means")
    for series in SERIES:
        draw_series(axes, panel, series)
    axes.set(xscale="log", yscale=panel.scale, title=panel.title, xlabel="number of records")
    axes.set_yticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)


def draw(file: Path) -> None:
    """The whole plot."""
    style: dict[str, Any] = {"font.size": 10, "axes.titlesize": 11}
    with mpl.rc_context(style):
        figure, all_axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
        for axes, panel in zip(all_axes, PANELS):
            draw_panel(axes, panel)
        handles, labels = all_axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(file, dpi=110)
        plt.close(figure)


def main() -> None:
    """Draw into the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "shuffle.png")
    mpl.use("Agg")
    draw(parser.parse_args().out)


if __name__ == "__main__":
    main()
