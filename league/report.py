"""Writes `docs/league.md` and its picture: `python league/report.py RESULTS.json`, of what `resume.py --results` kept.

In: verdicts. Out: the table between the marks in `docs/league.md`, and `docs/league.png`. Needs Matplotlib.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from cases import EVENTS, PIPELINES
from environments import LOADERS

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- by league/report.py -->", "<!-- end -->"
SHADES = {
    **dict.fromkeys(["ok"], "#2f8f5b"),
    **dict.fromkeys(["restart"], "#8fc7a4"),
    **dict.fromkeys(["refused"], "#e8d48a"),
    **dict.fromkeys(["order"], "#eda75c"),
    **dict.fromkeys(["doubled", "lost", "uneven", "hang", "error"], "#c94f4f"),
    **dict.fromkeys(["grey", ""], "#dcdcdc"),
}
"""The colours of verdicts; from the best to the worst, but for grey."""


def main() -> int:
    """Writes both."""
    results = json.loads(Path(sys.argv[1]).read_text())
    page = DOCS / "league.md"
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{tables(results)}\n{END}{rest.partition(END)[2]}")
    draw(results)
    return 0


def tables(results: dict[str, Any]) -> str:
    """Machine and versions, events by loaders, and each cell that is not right."""
    played = [name for name in LOADERS if results.get(name, {}).get("cells")]
    dates = sorted({results[name]["date"] for name in played})
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    versions = sorted({f"{key} {value}" for name in played for key, value in results[name]["versions"].items()})
    lines = [
        f"{when}; {os.cpu_count()} cores, {platform.system()}, Python 3.11.",
        f"Versions: {', '.join(versions)}.",
        "",
    ]
    lines += [f"| event | {' | '.join(LOADERS[name].title for name in played)} |", f"|---|{'---|' * len(played)}"]
    for event in EVENTS:
        row = [_summary(results[name]["cells"], event.name) for name in played]
        lines.append(f"| {event.about} | {' | '.join(row)} |")
    lines += [f"\n{one.title} is not in this table: {one.stateless}." for one in LOADERS.values() if one.stateless]
    lines += ["", "Cells that are neither right nor grey, each with what was found:", ""]
    lines += ["| loader | pipeline | event | verdict | found |", "|---|---|---|---|---|"]
    for name in played:
        for cell, (word, detail) in sorted(results[name]["cells"].items()):
            if word not in ("ok", "restart", "grey"):
                short = " ".join(detail.split())[:160].replace("|", "/")
                lines.append(f"| {LOADERS[name].title} | {' | '.join(cell.split(':'))} | {word} | {short} |")
    return "\n".join(lines) + "\n"


def _summary(cells: dict[str, list[str]], event: str) -> str:
    words = Counter(word for cell, (word, _) in cells.items() if cell.endswith(f":{event}"))
    claimed = {word: count for word, count in words.items() if word != "grey"}
    return ", ".join(f"{count} {word}" for word, count in claimed.items()) or "–"


def draw(results: dict[str, Any]) -> None:
    """A square for each cell."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    played = [name for name in LOADERS if results.get(name, {}).get("cells")]
    shown = [
        one.name
        for one in PIPELINES
        if any(f"{one.name}:{EVENTS[1].name}" in results[name]["cells"] for name in played)
    ]
    figure, axes = plt.subplots(1, len(played), figsize=(1.5 + 1.35 * len(played), 3.6), sharey=True)
    for place, (axis, name) in enumerate(zip(axes, played)):
        for y, event in enumerate(EVENTS):
            for x, pipeline in enumerate(shown):
                word = results[name]["cells"].get(f"{pipeline}:{event.name}", [""])[0]
                axis.add_patch(plt.Rectangle((x, y), 0.9, 0.9, color=SHADES[word]))
        axis.set(xlim=(0, len(shown)), ylim=(len(EVENTS), 0), title="")
        axis.set_title(LOADERS[name].title.replace(", ", ",\n"), fontsize=7)
        axis.set_xticks([x + 0.45 for x in range(len(shown))], shown, rotation=90, fontsize=6)
        if not place:
            axis.set_yticks([y + 0.45 for y in range(len(EVENTS))], [event.name for event in EVENTS], fontsize=7)
        axis.tick_params(length=0)
        for side in axis.spines.values():
            side.set_visible(False)
    named = ["ok", "restart", "refused", "order", "lost", "grey"]
    titles = [
        "ok",
        "ok after a restart",
        "refused",
        "another order",
        "lost, doubled, uneven, hang, error",
        "not claimed, or not played",
    ]
    marks = [Patch(color=SHADES[word], label=title) for word, title in zip(named, titles)]
    figure.legend(handles=marks, ncols=6, fontsize=7, loc="lower center", frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(DOCS / "league.png", dpi=110)


if __name__ == "__main__":
    sys.exit(main())
