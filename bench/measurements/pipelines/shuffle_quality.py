"""Plot how well `IndexSampler` shuffles: its algorithms by the number of records, and `BlockShuffle` by its window.

    python bench/speed.py shuffle_quality [--out FOLDER]

Writes docs/shuffle.png and docs/shuffle-blocks.png. Eight seeds and two places (the start of the first epoch,
and a third of it): 1,024 consecutive positions are read, as eight batches of 128 would be. Panel 1: their keys in
64 equal buckets, chi² against an even spread, divided by its 63 degrees of freedom. Panel 2: the mean distance
of neighbours, divided by a third of the range. A random order has 1 in both. Panel 3, of blocks of 1,024 of
1,281,167 records, shows the worst case, records that are sorted by 1,000 classes: the number of classes in a batch
of 256, divided by the number in a random batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

from headrace import BlockShuffle, IndexSampler

SIZES = (60_000, 1_281_167, 10**7, 10**9, 10**10, 10**12)
SEEDS = range(8)
WINDOW, BUCKETS = 1024, 64
RECORDS, BLOCK, CLASSES, BATCH = 1_281_167, 1024, 1000, 256
WINDOWS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
DOCS = Path(__file__).parents[3] / "docs"

Keys = NDArray[np.int64]


def chi_square(keys: Keys, num_records: int) -> float:
    """Chi² of the keys in equal buckets, over its degrees of freedom."""
    edges = np.arange(1, BUCKETS) * num_records // BUCKETS
    counts = np.bincount(np.searchsorted(edges, keys, side="right"), minlength=BUCKETS)
    expected = len(keys) / BUCKETS
    return float(((counts - expected) ** 2).sum() / expected / (BUCKETS - 1))


def neighbour_distance(keys: Keys, num_records: int) -> float:
    """Mean distance of consecutive keys, over a third of the range."""
    return float(np.abs(np.diff(keys)).mean() * 3 / num_records)


def classes_in_batches(keys: Keys, num_records: int) -> float:
    """Mean number of classes in a batch, over that in a random one."""
    batches = keys[: len(keys) // BATCH * BATCH].reshape(-1, BATCH) * CLASSES // num_records
    expected = CLASSES * (1 - (1 - 1 / CLASSES) ** BATCH)
    return float(np.mean([len(np.unique(batch)) for batch in batches]) / expected)


@dataclass(frozen=True)
class Panel:
    """A measure of quality; a random order has 1, and `accepted` is what headrace's tests accept on average."""

    title: str
    measure: Callable[[Keys, int], float]
    accepted: tuple[float, float] | None = None
    scale: str = "linear"
    ticks: tuple[float, ...] = (0, 0.2, 0.4, 0.6, 0.8, 1)


EVENNESS = "Evenness of 1,024 consecutive keys\nchi² / 63 in 64 buckets"
DISTANCE = "Mean distance of neighbours\n× 3 / range"
PANELS = (
    Panel(EVENNESS, chi_square, (0.9, 1.1), "log", (0.5, 1, 2, 5, 10, 20, 50)),
    Panel(DISTANCE, neighbour_distance, (0.97, 1.03)),
)
BLOCK_PANELS = (
    Panel(EVENNESS, chi_square, scale="log", ticks=()),
    Panel(DISTANCE, neighbour_distance),
    Panel("Classes in a batch of 256, records sorted\nby 1,000 classes, relative to random", classes_in_batches),
)


def measured(panel: Panel, num_records: int, **options: Any) -> NDArray[np.float64]:
    """The measure for each seed and place."""
    samplers = [IndexSampler(num_records, seed=seed, **{"shuffle": True, **options}) for seed in SEEDS]
    starts = (0, num_records // 3)
    orders = [one.record_keys(np.arange(start, start + WINDOW)) for one in samplers for start in starts]
    found = np.array([panel.measure(keys, num_records) for keys in orders])
    told = f"{found.mean():7.2f} ({found.min():.2f} – {found.max():.2f})"
    print(f"{panel.measure.__name__:19} {num_records:>17,} {options or ''} {told}")
    return found


def draw_line(
    axes: Axes, at: tuple[int, ...], values: NDArray[np.float64], color: str, marker: str, label: str
) -> None:
    """Means as a line, smallest to largest values as a band."""
    axes.fill_between(at, values.min(1), values.max(1), color=color, alpha=0.15, linewidth=0)
    axes.plot(at, values.mean(1), color=color, marker=marker, markersize=5, label=label)


def draw_algorithms(axes: Axes, panel: Panel) -> None:
    """Both algorithms, by the number of records."""
    axes.axhspan(*panel.accepted, color="#9ca3af", alpha=0.45, linewidth=0, label="accepted means")
    for algorithm, color, marker, label in (
        ("grain", "#c2410c", "s", 'algorithm="grain": the four-round cipher'),
        ("headrace", "#1d4ed8", "o", 'algorithm="headrace" (default)'),
    ):
        values = np.array([measured(panel, size, algorithm=algorithm) for size in SIZES])
        draw_line(axes, SIZES, values, color, marker, label)
    axes.set(xscale="log", yscale=panel.scale, title=panel.title, xlabel="number of records")
    axes.set_yticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
    axes.set_axisbelow(True)


def draw_blocks(axes: Axes, panel: Panel) -> None:
    """Blocks, by the number of blocks in a window, and the full shuffle as a dashed line."""
    values = np.array([measured(panel, RECORDS, shuffle=BlockShuffle(BLOCK, window)) for window in WINDOWS])
    draw_line(axes, WINDOWS, values, "#1d4ed8", "o", f"BlockShuffle(block={BLOCK}, window)")
    axes.axhline(measured(panel, RECORDS).mean(), color="#6b7280", linestyle="--", label="full shuffle")
    axes.set(xscale="log", title=panel.title, xlabel="blocks in a window", yscale=panel.scale)
    axes.set_xticks(WINDOWS, [str(window) for window in WINDOWS])
    if panel.ticks:
        axes.set_ylim(0, 1.1)


def draw(file: Path, draw_panel: Callable[[Axes, Panel], None], panels: tuple[Panel, ...], width: float) -> None:
    """A whole plot."""
    with mpl.rc_context({"font.size": 10, "axes.titlesize": 11}):
        figure, all_axes = plt.subplots(1, len(panels), figsize=(width, 4.6), layout="constrained")
        for axes, panel in zip(all_axes, panels):
            draw_panel(axes, panel)
            axes.minorticks_off()
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color="#e5e7eb", linewidth=0.6)
        handles, labels = all_axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(file, dpi=110)
        plt.close(figure)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--out", type=Path, default=DOCS, help="the folder of the pictures")


def main(options: argparse.Namespace) -> None:
    """Draw both plots."""
    mpl.use("Agg")
    draw(options.out / "shuffle.png", draw_algorithms, PANELS, 10)
    draw(options.out / "shuffle-blocks.png", draw_blocks, BLOCK_PANELS, 14)
