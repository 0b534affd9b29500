"""Write `docs/league.md`, its pictures, and the README's table of speeds, from the `--results` of both leagues.

    python league/report.py RESULTS.json [MORE.json …]

The tables are written between the marks in `docs/league.md` and `README.md`, the pictures to
`docs/league.png` and `docs/league-speed.png`. All figures are those of the first file, except "× the
best other": it is the lowest value in all files. The other files are further runs of the speed league,
on this machine or another. Needs Matplotlib.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from cases import EVENTS, PIPELINES
from environments import LOADERS
from workloads import WORKLOADS

DOCS = Path(__file__).parent.parent / "docs"
README = DOCS.parent / "README.md"
MARKS = {
    "resume": ("<!-- by league/report.py -->", "<!-- end -->"),
    "speed": ("<!-- speed -->", "<!-- end of speed -->"),
    "rivals": ("<!-- rivals -->", "<!-- end of rivals -->"),
}
SHADES = {
    **dict.fromkeys(["ok"], "#2f8f5b"),
    **dict.fromkeys(["restart"], "#8fc7a4"),
    **dict.fromkeys(["refused"], "#e8d48a"),
    **dict.fromkeys(["order"], "#eda75c"),
    **dict.fromkeys(["doubled", "lost", "uneven", "hang", "error"], "#c94f4f"),
    **dict.fromkeys(["grey", ""], "#dcdcdc"),
}
"""The colours of verdicts; from the best to the worst, but for grey."""


def _short(number: float) -> str:
    """Three digits, and none after the point of larger numbers.

    >>> _short(1326.7), _short(18.39)
    ('1,327', '18.4')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def main() -> int:
    """Writes what there are results for."""
    results, *others = (json.loads(Path(name).read_text()) for name in sys.argv[1:])
    page = DOCS / "league.md"
    if _took_part(results, "cells"):
        page.write_text(between(page.read_text(), "resume", tables(results)))
        draw(results)
    if _took_part(results, "speed"):
        page.write_text(between(page.read_text(), "speed", speed_tables(results)))
        for each in (page, README):
            each.write_text(between(each.read_text(), "rivals", rivals_table([results, *others])))
        draw_speed(results)
    return 0


def between(text: str, league: str, table: str) -> str:
    """The page with another table between the marks of a league."""
    begin, end = MARKS[league]
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n\n{table}\n{end}{rest.partition(end)[2]}"


def _took_part(results: dict[str, Any], what: str) -> list[str]:
    return [name for name in LOADERS if results.get(name, {}).get(what)]


def _head(results: dict[str, Any], played: list[str], key: str) -> list[str]:
    """Date, machine, how busy it was, and versions, as the command noted them."""
    noted = [results[name][key] for name in played]
    same = {fact: value for fact, value in noted[0].items() if all(one.get(fact) == value for one in noted)}
    dates, loads = (sorted({one[fact] for one in noted}) for fact in ("date", "load average"))
    loads.sort(key=float)
    told = {
        fact: f"{value} {fact}" if fact == "cores" else value if fact == "CPU" else f"{fact} {value}"
        for fact, value in same.items()
        if not fact.startswith(("date", "load average"))
    }
    machine = [told[fact] for fact in told if fact in ("CPU", "cores", "memory", "system")]
    settings = [told[fact] for fact in told if fact not in ("CPU", "cores", "memory", "system")]
    versions = sorted({f"{package} {value}" for name in played for package, value in results[name]["versions"].items()})
    return [
        f"* **When**: {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}.",
        f"* **Machine**: {', '.join(machine)}; load average {' to '.join(dict.fromkeys([loads[0], loads[-1]]))}.",
        *([f"* **Settings**: {', '.join(settings)}."] if settings else []),
        f"* **Versions**: {', '.join(versions)}.",
        "",
    ]


def tables(results: dict[str, Any]) -> str:
    """Machine and versions, events by loaders, and each cell that is not right."""
    played = _took_part(results, "cells")
    lines = _head(results, played, "facts")
    lines += [f"| event | {' | '.join(LOADERS[name].title for name in played)} |", f"|---|{'---|' * len(played)}"]
    for event in EVENTS:
        row = [_summary(results[name]["cells"], event.name) for name in played]
        lines.append(f"| {event.about} | {' | '.join(row)} |")
    lines += [f"\n{one.title} is not in this table: {one.stateless}." for one in LOADERS.values() if one.stateless]
    lines += [
        "",
        "The next table says what the test program found for each result above that is not “ok”, “restart” or “–”:",
        "",
    ]
    lines += ["| loader | pipeline | event | verdict | found |", "|---|---|---|---|---|"]
    for name in played:
        for cell, (word, detail) in sorted(results[name]["cells"].items()):
            if word not in ("ok", "restart", "grey"):
                short = " ".join(detail.split())[:160].replace("|", "/")
                lines.append(f"| {LOADERS[name].title} | {' | '.join(cell.split(':'))} | {word} | {short} |")
    return "\n".join(lines) + "\n"


FIGURES = {
    "rate": ("", lambda cell: f"{cell['rate']:,.0f} ({_short(1e6 * cell['cpu'] / cell['rate'])} µs)"),
    "first": ("first batch, s: ", lambda cell: f"{cell['first']:.1f}"),
    "memory": ("memory, MiB: ", lambda cell: f"{cell['memory'] / 2**20:,.0f}"),
}
"""Rows of the speed table: how each begins, and how a cell is written."""


def speed_tables(results: dict[str, Any]) -> str:
    """Machine and versions, figures by loaders, and a sentence for each cell without one."""
    played = _took_part(results, "speed")
    lines = _head(results, played, "speed_facts")
    lines += [f"| workload | {' | '.join(LOADERS[name].title for name in played)} |", f"|---|{'---:|' * len(played)}"]
    for figure, (begins, written) in FIGURES.items():
        for workload in WORKLOADS:
            cells = [results[name]["speed"].get(workload.name, {}) for name in played]
            row = [written(cell) if figure in cell and not cell.get("wrong") else "–" for cell in cells]
            unit = f", {workload.unit}" if figure == "rate" else ""
            lines.append(f"| {begins}`{workload.name}`{unit} | {' | '.join(row)} |")
    lines += ["", *[f"* `{workload.name}`: {workload.about}" for workload in WORKLOADS]]
    lines += ["", "Cells without a figure:", "", "| loader | workload | why |", "|---|---|---|"]
    for name in played:
        for workload, cell in results[name]["speed"].items():
            if cell.get("wrong") or "rate" not in cell:
                why = cell.get("unclaimed") or cell.get("missing") or f"wrong: {cell.get('wrong')}"
                lines.append(
                    f"| {LOADERS[name].title} | `{workload}` | {' '.join(why.split())[:200].replace('|', '/')} |"
                )
    return "\n".join(lines) + "\n"


def rivals_table(runs: list[dict[str, Any]]) -> str:
    """A row for each workload: our rate and that of the best other loader in the first run; the lowest factor of all runs."""
    lines = ["| workload | headrace | the best other | × the best other |", "|---|---:|---:|---:|"]
    for workload in WORKLOADS:
        factors = []
        for results in runs:
            rates = _rates(results, workload.name)
            ours = rates.pop("headrace", 0.0)
            others = {name: rate for name, rate in rates.items() if not name.startswith("headrace")}
            best = max(others, key=others.__getitem__, default="")
            factors.append(ours / others[best] if best else 0.0)
            if results is runs[0]:
                told = f"{LOADERS[best].title}: {others[best]:,.0f}" if best else "–"
                row = f"| `{workload.name}`: {workload.about} | {ours:,.0f} {workload.unit} | {told} |"
        lines.append(f"{row} {_short(min(factors)) if min(factors) else '–'} |")
    return "\n".join(lines) + "\n"


def _rates(results: dict[str, Any], workload: str) -> dict[str, float]:
    """The rates of the loaders that have one."""
    cells = {name: found.get("speed", {}).get(workload, {}) for name, found in results.items()}
    return {name: cell["rate"] for name, cell in cells.items() if "rate" in cell and not cell.get("wrong")}


def _summary(cells: dict[str, list[str]], event: str) -> str:
    """Numbers of pipelines, the best verdict first; those that are not claimed do not count."""
    words = Counter(word for cell, (word, _) in cells.items() if cell.endswith(f":{event}"))
    return ", ".join(f"{words[word]} {word}" for word in SHADES if words[word] and word not in ("grey", "")) or "–"


def draw(results: dict[str, Any]) -> None:
    """A square for each cell."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    played = _took_part(results, "cells")
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


def draw_speed(results: dict[str, Any]) -> None:
    """A bar for each figure, as long as its part of the workload's best one."""
    from matplotlib import pyplot as plt

    played = _took_part(results, "speed")
    figure, axes = plt.subplots(1, len(WORKLOADS), figsize=(1.6 + 1.5 * len(WORKLOADS), 2.9), sharey=True)
    for place, (axis, workload) in enumerate(zip(axes, WORKLOADS)):
        cells = [results[name]["speed"].get(workload.name, {}) for name in played]
        rates = [0 if cell.get("wrong") else cell.get("rate", 0) for cell in cells]
        axis.barh(range(len(played)), rates, color=["#2f8f5b" if name == "headrace" else "#8a97a6" for name in played])
        for y, rate in enumerate(rates):
            axis.text(rate, y, f" {rate:,.0f}" if rate else " –", va="center", fontsize=6)
        axis.set(xlim=(0, 1.6 * max([*rates, 1])), ylim=(len(played) - 0.5, -0.5), xticks=[])
        axis.set_title(f"{workload.name}\n{workload.unit}", fontsize=7)
        if not place:
            axis.set_yticks(range(len(played)), [LOADERS[name].title for name in played], fontsize=7)
        axis.tick_params(length=0)
        for side in axis.spines.values():
            side.set_visible(False)
    figure.tight_layout()
    figure.savefig(DOCS / "league-speed.png", dpi=110)


if __name__ == "__main__":
    sys.exit(main())
