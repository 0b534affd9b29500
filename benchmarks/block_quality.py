"""Plot how well `BlockShuffle` shuffles, by the number of blocks in a window, beside the full shuffle.

    python benchmarks/block_quality.py [--out FILE]

Writes docs/shuffle-blocks.png. There are 1,281,167 records in blocks of 1,024. Panels 1 and 2 are as in
`shuffle_quality.py`: 1,024 consecutive positions, eight seeds, two places in the order. Panel 3 shows
the worst case, records that are sorted by 1,000 classes: the number of classes in a batch of 256,
divided by the number in a random batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray
from shuffle_quality import SEEDS, WINDOW, chi_square, neighbour_distance

from headrace import BlockShuffle, IndexSampler

RECORDS, BLOCK, CLASSES, BATCH = 1_281_167, 1024, 1000, 256
WINDOWS = (2, 4, 8, 16, 32, 64, 128, 256, 512)

Keys = NDArray[np.int64]
Measure = Callable[[Keys, int], float]


def classes_in_batches(keys: Keys, num_records: int) -> float:
    """Mean number of classes in a batch, over that in a random one."""
    batches = keys[: len(keys) // BATCH * BATCH].reshape(-1, BATCH) * CLASSES // num_records
    expected = CLASSES * (1 - (1 - 1 / CLASSES) ** BATCH)
    return float(np.mean([len(np.unique(batch)) for batch in batches]) / expected)


PANELS: tuple[tuple[str, Measure], ...] = (
    ("Evenness of 1,024 consecutive keys\nchi² / 63 in 64 buckets", chi_square),
    ("Mean distance of neighbours\n× 3 / range", neighbour_distance),
    ("Classes in a batch of 256, records sorted\nby 1,000 classes, relative to random", classes_in_batches),
)


def measured(shuffle: BlockShuffle | bool, measure: Measure) -> NDArray[np.float64]:
    """The measure for each seed and place."""
    samplers = [IndexSampler(RECORDS, shuffle=shuffle, seed=seed) for seed in SEEDS]
    starts = (0, RECORDS // 3)
    return np.array(
        [measure(one.record_keys(np.arange(at, at + WINDOW)), RECORDS) for one in samplers for at in starts]
    )


def draw_panel(axes: Axes, title: str, measure: Measure) -> None:
    """Means as a line, smallest to largest as a band; the full shuffle as a dashed line."""
    values = np.array([measured(BlockShuffle(BLOCK, window), measure) for window in WINDOWS])
    full = measured(True, measure)
    axes.fill_between(WINDOWS, values.min(1), values.max(1), color="#1d4ed8", alpha=0.15, linewidth=0)
    axes.plot(
        WINDOWS, values.mean(1), color="#1d4ed8", marker="o", markersize=5, label=f"BlockShuffle(block={BLOCK}, window)"
    )
    axes.axhline(full.mean(), color="#6b7280", linestyle="--", label="full shuffle")
    for window, row in zip([*WINDOWS, "full"], [*values, full]):
        print(f"{measure.__name__:19} window {window!s:>4} {row.mean():7.2f} ({row.min():.2f} – {row.max():.2f})")
    axes.set(
        xscale="log", title=title, xlabel="blocks in a window", yscale="log" if measure is chi_square else "linear"
    )
    axes.set_xticks(WINDOWS, [str(window) for window in WINDOWS])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.6)
    if measure is not chi_square:
        axes.set_ylim(0, 1.1)


def draw(file: Path) -> None:
    """The whole plot."""
    with mpl.rc_context({"font.size": 10, "axes.titlesize": 11}):
        figure, all_axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
        for axes, (title, measure) in zip(all_axes, PANELS):
            draw_panel(axes, title, measure)
        handles, labels = all_axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(file, dpi=110)
        plt.close(figure)


def main() -> None:
    """Draw into the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "shuffle-blocks.png")
    mpl.use("Agg")
    draw(parser.parse_args().out)


if __name__ == "__main__":
    main()
