"""Draw docs/performance.png from the results of compare.py: records per second, relative to the limit loop.

python benchmarks/plot.py [benchmarks/output/results.json] [docs/performance.png]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
SHOWN = {
    "headrace": "#3f7af0",
    "bare": "#9aa3ad",
    "torch_stack": "#d9822b",
    "grain_inline": "#c2410c",
    "grain": "#a8563f",
}
INK = "#7b8087"
"""Of all words and lines. The picture has no background, so that it reads on light and on dark pages."""

_INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")


def main(results: Path, picture: Path) -> None:
    """One group of bars for each workload, on a logarithmic axis."""
    plt.rcParams.update(dict.fromkeys(_INKED, INK))
    workloads = json.loads(results.read_text())["workloads"]
    workloads = [one for one in workloads if any(each["name"] == "limit" for each in one["contenders"])]
    figure, axes = plt.subplots(figsize=(11, 4.2), constrained_layout=True)
    width = 0.8 / len(SHOWN)
    for place, (name, colour) in enumerate(SHOWN.items()):
        for group, workload in enumerate(workloads):
            found = [one for one in workload["contenders"] if one["name"] == name]
            if found:
                bar = axes.bar(group + place * width, found[0]["to_limit"], width, color=colour)
                axes.bar_label(bar, [f"{found[0]['to_limit']:.2g}"], fontsize=7)
                if group == 0:
                    bar.set_label(found[0]["label"])
    axes.axhline(1, color=INK, linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("records/s ÷ limit loop's")
    axes.set_xticks([group + 0.32 for group in range(len(workloads))], [one["workload"] for one in workloads])
    axes.legend(ncols=len(SHOWN), frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.12))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=100, transparent=True)


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:]]
    defaults = [HERE / "output" / "results.json", HERE.parent / "docs" / "performance.png"]
    main(*(given + defaults[len(given) :]))
