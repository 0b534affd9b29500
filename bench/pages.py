"""Write the generated parts of docs/performance.md, docs/league.md and the README from results, and
draw their pictures.

    python bench/pages.py performance [RESULTS.json]             of `speed.py compare --workers 0,2`
    python bench/pages.py league RESULTS.json [MORE.json …]      of `resume.py` and `speed.py
    loaders`

Tables are written between marks of the pages. All figures of docs/league.md are those of the first
file, except "× the best other": it is the lowest value in all files. The other files are further
runs of `speed.py loaders`, on this machine or another. Needs Matplotlib.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from libraries import LIBRARIES
from loaders.workloads import WORKLOADS
from resuming.cases import EVENTS

BENCH = Path(__file__).parent
DOCS = BENCH.parent / "docs"
PERFORMANCE, LEAGUE, README = (
    DOCS / "performance.md",
    DOCS / "league.md",
    BENCH.parent / "README.md",
)
MARKS = {
    "performance": ("<!-- by bench/pages.py -->", "<!-- end of bench/pages.py -->"),
    "resume": ("<!-- by bench/pages.py -->", "<!-- end -->"),
    "speed": ("<!-- speed -->", "<!-- end of speed -->"),
    "rivals": ("<!-- rivals -->", "<!-- end of rivals -->"),
}


def main(arguments: list[str]) -> int:
    """Write what there are results for."""
    page, *names = arguments or [""]
    if page == "performance":
        write_performance(
            json.loads(Path(*names or [BENCH / "output" / "results.json"]).read_text())
        )
    elif page == "league" and names:
        write_league([json.loads(Path(name).read_text()) for name in names])
    else:
        print(__doc__)
        return 2
    return 0


def write_performance(results: dict[str, Any]) -> None:
    """Write docs/performance.md, and its picture."""
    from pictures import draw_compare

    write(PERFORMANCE, "performance", "\n".join(performance_tables(results)) + "\n")
    draw_compare(results, DOCS / "performance.png")


def write_league(runs: list[dict[str, Any]]) -> None:
    """Write docs/league.md, its pictures, and the README's table of speeds."""
    from pictures import draw_speed, draw_verdicts

    results = runs[0]
    if played := _took_part(results, "cells"):
        write(LEAGUE, "resume", resume_tables(results))
        draw_verdicts(results, played, DOCS / "league.png")
    if played := _took_part(results, "speed"):
        write(LEAGUE, "speed", speed_tables(results))
        for each in (LEAGUE, README):
            write(each, "rivals", rivals_table(runs))
        draw_speed(results, played, DOCS / "league-speed.png")


def write(page: Path, part: str, table: str) -> None:
    """Put another table between the marks of a part of a page."""
    page.write_text(between(page.read_text(), part, table))


def between(text: str, part: str, table: str) -> str:
    """The page with another table between the marks of a part."""
    begin, end = MARKS[part]
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        sys.exit(
            f"the page lacks the mark {begin} or {end}: put it back where the table of “{part}” is "
            "to stand"
        )
    return f"{before}{begin}\n\n{table}\n{end}{after}"


# docs/performance.md

RIVALS = {"Grain": ("grain", "grain_inline"), "PyTorch": ("torch", "torch_stack")}
"""Each other library, at the better of its settings."""
CHAINS = {
    "chain": ("grain_chain", "grain_chain_inline"),
    "packing": ("grain_packing", "grain_packing_inline"),
}

Rates = Mapping[str, Mapping[str, Any]]


def performance_tables(results: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the tables."""
    facts = results["facts"]
    yield (
        "* **Conditions of the measurement**: "
        + "; ".join(f"{name} {value}" for name, value in facts.items())
        + "."
    )
    yield ""
    rivals = " | ".join(f"× {name}" for name in RIVALS)
    columns = f"records/s, median (best) | × limit loop | {rivals}"
    yield f"| workload | {columns} | 2 workers: {columns} |"
    yield f"|---|{'---:|' * (2 * len(RIVALS) + 4)}"
    for workload in results["workloads"]:
        found = {one["name"]: one for one in workload["contenders"]}
        if "headrace" in found and "limit" in found:
            cells = [cell for suffix in ("", "@2") for cell in _cells(found, suffix)]
            yield f"| `{workload['workload']}`: {workload['about']} | {' | '.join(cells)} |"
    yield ""
    yield "| chains | no workers | 2 workers |"
    yield "|---|---:|---:|"
    for workload in results["workloads"]:
        found = {one["name"]: one for one in workload["contenders"]}
        name = workload["workload"]
        for ours, theirs in CHAINS.items():
            if ours not in found:
                continue
            if "headrace" in found:
                yield f"| `{name}`: a chain, × the `DataLoader` that does the same | {_row(found, ours, ('headrace',))} |"
            yield (
                f"| `{name}`: {ours}, × Grain at the best of its settings | "
                f"{_row(found, ours, theirs)} |"
            )
        if "mix" in found:
            yield f"| `{name}`: a mix of 35 datasets, × one | {_row(found, 'mix', ('chain',))} |"
        if "packing" in found:
            cells = " | ".join(
                _times(found, f"packing{suffix}", ["packing"]) for suffix in ("", "@2")
            )
            yield f"| `{name}`: × without workers | {cells} |"


def _row(found: Rates, ours: str, theirs: tuple[str, ...]) -> str:
    return " | ".join(
        _times(found, f"{ours}{suffix}", [f"{one}{suffix}" for one in theirs])
        for suffix in ("", "@2")
    )


def _cells(found: Rates, suffix: str) -> list[str]:
    if (ours := found.get(f"headrace{suffix}")) is None:
        return ["", "", *["" for _ in RIVALS]]
    rate = f"{ours['rate']:,.0f} ({ours['rate_high']:,.0f})"
    times = [
        _times(found, f"headrace{suffix}", [f"{one}{suffix}" for one in rivals])
        for rivals in RIVALS.values()
    ]
    return [rate, f"{ours['to_limit']:.2f}", *times]


def _times(found: Rates, ours: str, others: list[str]) -> str:
    """Return the number of times as fast as the fastest of the others, with two digits; "" if one
    of the sides is missing.
    """
    rates = [found[other]["rate"] for other in others if other in found]
    if ours not in found or not rates:
        return ""
    ratio = found[ours]["rate"] / max(rates)
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


# docs/league.md

VERDICTS = ("ok", "restart", "refused", "order", "doubled", "lost", "uneven", "hang", "error")
"""From the best to the worst; “grey” is none."""


def _short(number: float) -> str:
    """Three digits, and none after the point of larger numbers.

    >>> _short(1326.7), _short(18.39)
    ('1,327', '18.4')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _took_part(results: dict[str, Any], what: str) -> list[str]:
    return [name for name in LIBRARIES if results.get(name, {}).get(what)]


def _head(results: dict[str, Any], played: list[str], key: str) -> list[str]:
    """Date, machine, how busy it was, and versions, as the command noted them."""
    noted = [results[name][key] for name in played]
    same = {
        fact: value
        for fact, value in noted[0].items()
        if all(one.get(fact) == value for one in noted)
    }
    dates, loads = (sorted({one[fact] for one in noted}) for fact in ("date", "load average"))
    loads.sort(key=float)
    told = {
        fact: f"{value} {fact}"
        if fact == "cores"
        else value
        if fact == "CPU"
        else f"{fact} {value}"
        for fact, value in same.items()
        if not fact.startswith(("date", "load average"))
    }
    machine = [told.pop(fact) for fact in [*told] if fact in ("CPU", "cores", "memory", "system")]
    versions = sorted(
        {
            f"{package} {value}"
            for name in played
            for package, value in results[name]["versions"].items()
        }
    )
    return [
        f"* **When**: {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}.",
        f"* **Machine**: {', '.join(machine)}; load average {' to '.join(dict.fromkeys([loads[0], loads[-1]]))}.",
        *([f"* **Settings**: {', '.join(told.values())}."] if told else []),
        textwrap.fill(f"* **Versions**: {', '.join(versions)}.", 120, subsequent_indent="  "),
        "",
    ]


def resume_tables(results: dict[str, Any]) -> str:
    """Machine and versions, events by loaders, and each cell that is not right."""
    played = _took_part(results, "cells")
    lines = _head(results, played, "facts")
    lines += [
        f"| event | {' | '.join(LIBRARIES[name].title for name in played)} |",
        f"|---|{'---|' * len(played)}",
    ]
    for event in EVENTS:
        row = [_summary(results[name]["cells"], event.name) for name in played]
        lines.append(f"| {event.about} | {' | '.join(row)} |")
    for one in filter(lambda library: library.stateless, LIBRARIES.values()):
        sentence = f"The loader {one.title} is not in this table, because {one.stateless}."
        lines += ["", textwrap.fill(sentence, 120)]
    told = (
        "The next table has a row for each loader, event and verdict above that is not “ok”, "
        "“restart” or “–”. It says in how many pipelines the test program found it, and what it "
        "found in one of them:"
    )
    lines += [
        "",
        textwrap.fill(told, 120),
        "",
        "| loader | event | verdict | pipelines | for example |",
        "|---|---|---|---:|---|",
    ]
    for (name, event, word), found in _wrong(results, played).items():
        pipeline, detail = found[0]
        short = " ".join(detail.split())[:160].replace("|", "/")
        row = [LIBRARIES[name].title, f"`{event}`", word, str(len(found)), f"`{pipeline}`: {short}"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _wrong(
    results: dict[str, Any], played: list[str]
) -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    """Group the wrong results by loader, event and verdict: the pipelines, and what was found in
    each.
    """
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for name in played:
        for event in EVENTS:
            for cell, (word, detail) in sorted(results[name]["cells"].items()):
                pipeline, _, happened = cell.partition(":")
                if happened == event.name and word not in ("ok", "restart", "grey"):
                    groups.setdefault((name, event.name, word), []).append((pipeline, detail))
    return groups


FIGURES = {
    "rate": (
        "",
        lambda cell: f"{cell['rate']:,.0f} ({_short(1e6 * cell['cpu'] / cell['rate'])} µs)",
    ),
    "first": ("first batch, s: ", lambda cell: f"{cell['first']:.1f}"),
    "memory": ("memory, MiB: ", lambda cell: f"{cell['memory'] / 2**20:,.0f}"),
}
"""Rows of the speed table: how each begins, and how a cell is written."""


def speed_tables(results: dict[str, Any]) -> str:
    """Machine and versions, figures by loaders, and a sentence for each cell without one."""
    played = _took_part(results, "speed")
    lines = _head(results, played, "speed_facts")
    lines += [
        f"| workload | {' | '.join(LIBRARIES[name].title for name in played)} |",
        f"|---|{'---:|' * len(played)}",
    ]
    for figure, (begins, written) in FIGURES.items():
        for workload in WORKLOADS:
            cells = [results[name]["speed"].get(workload.name, {}) for name in played]
            row = [
                written(cell) if figure in cell and not cell.get("wrong") else "–" for cell in cells
            ]
            unit = f", {workload.unit}" if figure == "rate" else ""
            lines.append(f"| {begins}`{workload.name}`{unit} | {' | '.join(row)} |")
    lines += ["", *[f"* `{workload.name}`: {workload.about}" for workload in WORKLOADS]]
    lines += ["", "Cells without a figure:", "", "| loader | workload | why |", "|---|---|---|"]
    for name in played:
        for workload, cell in results[name]["speed"].items():
            if cell.get("wrong") or "rate" not in cell:
                why = cell.get("unclaimed") or cell.get("missing") or f"wrong: {cell.get('wrong')}"
                short = " ".join(why.split())[:200].replace("|", "/")
                lines.append(f"| {LIBRARIES[name].title} | `{workload}` | {short} |")
    return "\n".join(lines) + "\n"


def rivals_table(runs: list[dict[str, Any]]) -> str:
    """A row for each workload: our rate and that of the best other loader in the first run; the
    lowest factor of all runs.
    """
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
                told = f"{LIBRARIES[best].title}: {others[best]:,.0f}" if best else "–"
                row = (
                    f"| `{workload.name}`: {workload.about} | {ours:,.0f} {workload.unit} | {told} "
                    "|"
                )
        lines.append(f"{row} {_short(min(factors)) if min(factors) else '–'} |")
    return "\n".join(lines) + "\n"


def _rates(results: dict[str, Any], workload: str) -> dict[str, float]:
    """The rates of the loaders that have one."""
    cells = {name: found.get("speed", {}).get(workload, {}) for name, found in results.items()}
    return {
        name: cell["rate"]
        for name, cell in cells.items()
        if "rate" in cell and not cell.get("wrong")
    }


def _summary(cells: dict[str, list[str]], event: str) -> str:
    """Numbers of pipelines, the best verdict first; those that are not claimed do not count."""
    words = Counter(word for cell, (word, _) in cells.items() if cell.endswith(f":{event}"))
    return ", ".join(f"{words[word]} {word}" for word in VERDICTS if words[word]) or "–"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
