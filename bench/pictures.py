"""Draw docs/performance.png, docs/league.png and docs/league-speed.png from results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from libraries import LIBRARIES
from loaders.workloads import WORKLOADS
from matplotlib import pyplot as plt
from matplotlib.patches import Patch
from resuming.cases import EVENTS, PIPELINES

mpl.use("Agg")

SHOWN = {
    "headrace": "#3f7af0",
    "bare": "#9aa3ad",
    "torch_stack": "#d9822b",
    "grain_inline": "#c2410c",
    "grain": "#a8563f",
}
INK = "#7b8087"
"""Of all words and lines, as the picture has no background: for light and for dark pages."""

_INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")

LEGEND = {
    "ok": ("#2f8f5b", "ok"),
    "restart": ("#8fc7a4", "ok after a restart"),
    "refused": ("#e8d48a", "refused"),
    "order": ("#eda75c", "another order"),
    "doubled lost uneven hang error": ("#c94f4f", "lost, doubled, uneven, hang, error"),
    "grey none": ("#dcdcdc", "not claimed, or not played"),
}
"""The colours of verdicts, from the best to the worst but for grey, and what the legend says."""
SHADES = {word: colour for words, (colour, _) in LEGEND.items() for word in words.split()}


def draw_compare(results: dict[str, Any], file: Path) -> None:
    """Rates relative to the limit loop: a group of bars for each workload, on a logarithmic axis."""
    with mpl.rc_context(dict.fromkeys(_INKED, INK)):
        found = {
            one["workload"]: {each["name"]: each for each in one["contenders"]}
            for one in results["workloads"]
        }
        found = {name: rates for name, rates in found.items() if "limit" in rates}
        figure, axes = plt.subplots(figsize=(11, 4.2), constrained_layout=True)
        width = 0.8 / len(SHOWN)
        for place, (name, colour) in enumerate(SHOWN.items()):
            for group, rates in enumerate(found.values()):
                if one := rates.get(name):
                    bar = axes.bar(group + place * width, one["to_limit"], width, color=colour)
                    axes.bar_label(bar, [f"{one['to_limit']:.2g}"], fontsize=7)
                    if group == 0:
                        bar.set_label(one["label"])
        axes.axhline(1, color=INK, linewidth=0.8)
        axes.set_yscale("log")
        axes.set_ylabel("records/s ÷ limit loop's")
        axes.set_xticks([group + 0.32 for group in range(len(found))], [*found])
        axes.legend(ncols=len(SHOWN), frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.12))
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(file, dpi=100, transparent=True)
        plt.close(figure)


def draw_verdicts(results: dict[str, Any], played: list[str], file: Path) -> None:
    """A square for each cell."""
    cells = {name: results[name]["cells"] for name in played}
    played_ones = {cell.partition(":")[0] for each in cells.values() for cell in each}
    shown = [one.name for one in PIPELINES if one.name in played_ones]
    rows = 2 if len(played) > 5 else 1
    columns = -(-len(played) // rows)
    figure, grid = plt.subplots(
        rows, columns, figsize=(1.5 + 2.1 * columns, 0.3 + 3.3 * rows), sharey=True, squeeze=False
    )
    axes = grid.ravel()
    for axis in axes[len(played) :]:
        axis.axis("off")
    for axis, name in zip(axes, played):
        for y, event in enumerate(EVENTS):
            for x, pipeline in enumerate(shown):
                word = cells[name].get(f"{pipeline}:{event.name}", ["none"])[0]
                axis.add_patch(plt.Rectangle((x, y), 0.9, 0.9, color=SHADES[word]))
        axis.set(xlim=(0, len(shown)), ylim=(len(EVENTS), 0), title="")
        axis.set_title(LIBRARIES[name].title.replace(", ", ",\n"), fontsize=7)
        axis.set_xticks([x + 0.45 for x in range(len(shown))], shown, rotation=90, fontsize=6)
    names = [event.name for event in EVENTS]
    for axis in grid[:, 0]:
        axis.set_yticks([y + 0.45 for y in range(len(EVENTS))], names, fontsize=7)
    marks = [Patch(color=colour, label=told) for colour, told in LEGEND.values()]
    figure.legend(handles=marks, ncols=6, fontsize=7, loc="lower center", frameon=False)
    _save(figure, axes, file, (0, 0.06 / rows, 1, 1))


def draw_speed(results: dict[str, Any], played: list[str], file: Path) -> None:
    """A bar for each figure, as long as its part of the workload's best one."""
    size = (1.6 + 1.5 * len(WORKLOADS), 2.9)
    figure, axes = plt.subplots(1, len(WORKLOADS), figsize=size, sharey=True)
    colours = ["#2f8f5b" if name == "headrace" else "#8a97a6" for name in played]
    for axis, workload in zip(axes, WORKLOADS):
        cells = [results[name]["speed"].get(workload.name, {}) for name in played]
        rates = [0 if cell.get("wrong") else cell.get("rate", 0) for cell in cells]
        axis.barh(range(len(played)), rates, color=colours)
        for y, rate in enumerate(rates):
            axis.text(rate, y, f" {rate:,.0f}" if rate else " –", va="center", fontsize=6)
        axis.set(xlim=(0, 1.6 * max([*rates, 1])), ylim=(len(played) - 0.5, -0.5), xticks=[])
        axis.set_title(f"{workload.name}\n{workload.unit}", fontsize=7)
    axes[0].set_yticks(range(len(played)), [LIBRARIES[name].title for name in played], fontsize=7)
    _save(figure, axes, file, (0, 0, 1, 1))


def _save(figure: Any, axes: Any, file: Path, rect: tuple[float, ...]) -> None:
    """Without lines at the sides."""
    for axis in axes:
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    figure.tight_layout(rect=rect)
    figure.savefig(file, dpi=110)
    plt.close(figure)
