"""Write the generated parts of docs/performance.md, docs/league.md and the README from results, and
draw their pictures.

    python bench/pages.py performance [RESULTS.json]         of `speed.py compare --workers 0,2`
    python bench/pages.py league RESULTS.json [MORE.json …]  of `resume.py` and `speed.py loaders`

Each page has marks, HTML comments, between which the tables are written. If there are several files
for docs/league.md, they are results of several runs of `speed.py loaders`, perhaps on other
machines. The figures are taken from the first file. Only "× the best other" is the lowest value of
all files. Needs Matplotlib.
"""

from __future__ import annotations

import itertools
import json
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from libraries import LIBRARIES
from loaders.workloads import WORKLOADS
from resuming.cases import EVENTS

BENCH = Path(__file__).parent
DOCS = BENCH.parent / "docs"
PERFORMANCE, LEAGUE = DOCS / "performance.md", DOCS / "league.md"
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
        names = names or [str(BENCH / "output" / "results.json")]
    results = [json.loads(Path(name).read_text()) for name in names]
    if page == "performance":
        write_performance(*results)
    elif page == "league" and results:
        write_league(results)
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
        for each in (LEAGUE, BENCH.parent / "README.md"):
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
        where = f"put it back where the table of “{part}” is to stand"
        sys.exit(f"the page lacks the mark {begin} or {end}: {where}")
    return f"{before}{begin}\n\n{table}\n{end}{after}"


# docs/performance.md

RIVALS = {"Grain": ("grain", "grain_inline"), "PyTorch": ("torch", "torch_stack")}
"""Each other library, at the better of its settings."""

Rates = Mapping[str, Mapping[str, Any]]

BEST = "× Grain at the best of its settings"
CHAINS = (
    ("chain", "a chain, × the `DataLoader` that does the same", ("headrace",)),
    ("chain", f"chain, {BEST}", ("grain_chain", "grain_chain_inline")),
    ("mix", "a mix of 35 datasets, × one", ("chain",)),
    ("packing", f"packing, {BEST}", ("grain_packing", "grain_packing_inline")),
)
"""Rows of the table of chains.

Each row has the name of a contender of headrace, a text, and the names of the contenders with which
it is compared.
"""


def performance_tables(results: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the tables."""
    facts = "; ".join(f"{name} {value}" for name, value in results["facts"].items())
    yield f"* **Conditions of the measurement**: {facts}."
    yield ""
    rivals = " | ".join(f"× {name}" for name in RIVALS)
    columns = f"records/s, median (best) | × limit loop | {rivals}"
    yield f"| workload | {columns} | 2 workers: {columns} |"
    yield f"|---|{'---:|' * (2 * len(RIVALS) + 4)}"
    rates = {
        (one["workload"], one["about"]): {each["name"]: each for each in one["contenders"]}
        for one in results["workloads"]
    }
    for (name, about), found in rates.items():
        if "headrace" in found and "limit" in found:
            yield f"| `{name}`: {about} | {_cells(found, '')} | {_cells(found, '@2')} |"
    yield ""
    yield "| chains | no workers | 2 workers |"
    yield "|---|---:|---:|"
    for (name, _), found in rates.items():
        for ours, what, theirs in CHAINS:
            if ours in found and (theirs[0] in found or "grain" in theirs[0]):
                with_workers = _times(found, f"{ours}@2", [f"{one}@2" for one in theirs])
                yield f"| `{name}`: {what} | {_times(found, ours, theirs)} | {with_workers} |"
        if "packing" in found:
            alone, two = (_times(found, ours, ["packing"]) for ours in ("packing", "packing@2"))
            yield f"| `{name}`: × without workers | {alone} | {two} |"


def _cells(found: Rates, suffix: str) -> str:
    if (ours := found.get(f"headrace{suffix}")) is None:
        return " | ".join(["", "", *["" for _ in RIVALS]])
    times = [
        _times(found, f"headrace{suffix}", [f"{one}{suffix}" for one in rivals])
        for rivals in RIVALS.values()
    ]
    rate = f"{ours['rate']:,.0f} ({ours['rate_high']:,.0f})"
    return " | ".join([rate, f"{ours['to_limit']:.2f}", *times])


def _times(found: Rates, ours: str, others: Iterable[str]) -> str:
    """How many times as fast as the fastest of the others, with two digits; "" if a side lacks."""
    rates = [found[other]["rate"] for other in others if other in found]
    if ours not in found or not rates:
        return ""
    ratio = found[ours]["rate"] / max(rates)
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


# docs/league.md

VERDICTS = ("ok", "restart", "refused", "order", "doubled", "lost", "uneven", "hang", "error")
"""From the best to the worst; “grey” is none."""


def _short(number: float) -> str:
    """Three digits, and none after the point of larger numbers: 1,327 and 18.4."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _took_part(results: dict[str, Any], what: str) -> list[str]:
    return [name for name in LIBRARIES if results.get(name, {}).get(what)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _told(text: str, most: int) -> str:
    """A text as a cell of a table."""
    return " ".join(text.split())[:most].replace("|", "/")


def _head(results: dict[str, Any], played: list[str], key: str) -> list[str]:
    """Date, machine, how busy it was, and versions, as the command noted them."""
    noted = [results[name][key] for name in played]
    dates = sorted({one["date"] for one in noted})
    loads = sorted({one["load average"] for one in noted}, key=float)
    forms = {"cores": "{1} {0}", "CPU": "{1}"}
    told = {
        fact: forms.get(fact, "{0} {1}").format(fact, value)
        for fact, value in noted[0].items()
        if all(one.get(fact) == value for one in noted)
        if not fact.startswith(("date", "load average"))
    }
    machine = [told.pop(fact) for fact in [*told] if fact in ("CPU", "cores", "memory", "system")]
    pairs = [pair for name in played for pair in results[name]["versions"].items()]
    versions = ", ".join(sorted({f"{package} {value}" for package, value in pairs}))
    return [
        f"* **When**: {_span(dates)}.",
        f"* **Machine**: {', '.join(machine)}; load average {_span(loads)}.",
        *([f"* **Settings**: {', '.join(told.values())}."] if told else []),
        textwrap.fill(f"* **Versions**: {versions}.", 120, subsequent_indent="  "),
        "",
    ]


def _span(values: list[str]) -> str:
    return " to ".join(dict.fromkeys([values[0], values[-1]]))


FOUND = (
    "The next table has a row for each loader, event and verdict above that is not “ok”, "
    "“restart” or “–”. It says in how many pipelines the test program found it, and what it "
    "found in one of them:"
)


def resume_tables(results: dict[str, Any]) -> str:
    """Machine and versions, events by loaders, and each cell that is not right."""
    played = _took_part(results, "cells")
    lines = _head(results, played, "facts")
    lines += [_row(["event", *(LIBRARIES[name].title for name in played)])]
    lines += [f"|---|{'---|' * len(played)}"]
    for event in EVENTS:
        cells = [_summary(results[name]["cells"], event.name) for name in played]
        lines.append(_row([event.about, *cells]))
    for one in filter(lambda library: library.stateless, LIBRARIES.values()):
        sentence = f"The loader {one.title} is not in this table, because {one.stateless}."
        lines += ["", textwrap.fill(sentence, 120)]
    lines += ["", textwrap.fill(FOUND, 120), ""]
    lines += ["| loader | event | verdict | pipelines | for example |", "|---|---|---|---:|---|"]
    for (name, event, word), found in _wrong(results, played).items():
        pipeline, detail = found[0]
        cells = [f"`{event}`", word, str(len(found)), f"`{pipeline}`: {_told(detail, 160)}"]
        lines.append(_row([LIBRARIES[name].title, *cells]))
    return "\n".join(lines) + "\n"


def _wrong(
    results: dict[str, Any], played: list[str]
) -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    """Return the pipelines with a wrong verdict, each with what was found.

    They are in a dict by loader, event and verdict.
    """
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for name, event in itertools.product(played, EVENTS):
        for cell, (word, detail) in sorted(results[name]["cells"].items()):
            pipeline, _, happened = cell.partition(":")
            if happened == event.name and word not in ("ok", "restart", "grey"):
                groups.setdefault((name, event.name, word), []).append((pipeline, detail))
    return groups


def _rate(cell: dict[str, Any]) -> str:
    return f"{cell['rate']:,.0f} ({_short(1e6 * cell['cpu'] / cell['rate'])} µs)"


FIGURES = {
    "rate": ("", _rate),
    "first": ("first batch, s: ", lambda cell: f"{cell['first']:.1f}"),
    "memory": ("memory, MiB: ", lambda cell: f"{cell['memory'] / 2**20:,.0f}"),
}
"""Rows of the speed table: how each begins, and how a cell is written."""


def speed_tables(results: dict[str, Any]) -> str:
    """Machine and versions, figures by loaders, and a sentence for each cell without one."""
    played = _took_part(results, "speed")
    lines = _head(results, played, "speed_facts")
    lines += [_row(["workload", *(LIBRARIES[name].title for name in played)])]
    lines += [f"|---|{'---:|' * len(played)}"]
    for figure, (begins, written) in FIGURES.items():
        for workload in WORKLOADS:
            cells = [results[name]["speed"].get(workload.name, {}) for name in played]
            right = [
                written(one) if figure in one and not one.get("wrong") else "–" for one in cells
            ]
            unit = f", {workload.unit}" if figure == "rate" else ""
            lines.append(_row([f"{begins}`{workload.name}`{unit}", *right]))
    lines += ["", *[f"* `{workload.name}`: {workload.about}" for workload in WORKLOADS]]
    lines += ["", "Cells without a figure:", "", "| loader | workload | why |", "|---|---|---|"]
    for name in played:
        for workload, cell in results[name]["speed"].items():
            if cell.get("wrong") or "rate" not in cell:
                why = cell.get("unclaimed") or cell.get("missing") or f"wrong: {cell.get('wrong')}"
                lines.append(_row([LIBRARIES[name].title, f"`{workload}`", _told(why, 200)]))
    return "\n".join(lines) + "\n"


def rivals_table(runs: list[dict[str, Any]]) -> str:
    """Return the table with the rates of headrace and of the best other loader in the first run.

    The last column is headrace's rate divided by the other's, the lowest of all runs.
    """
    lines = ["| workload | headrace | the best other | × the best other |", "|---|---:|---:|---:|"]
    for workload in WORKLOADS:
        found = [_ours_and_best(results, workload.name) for results in runs]
        factors = [ours / rate if rate else 0.0 for ours, rate, _ in found]
        ours, rate, best = found[0]
        told = f"{LIBRARIES[best].title}: {rate:,.0f}" if best else "–"
        factor = _short(min(factors)) if min(factors) else "–"
        about = f"`{workload.name}`: {workload.about}"
        lines.append(_row([about, f"{ours:,.0f} {workload.unit}", told, factor]))
    return "\n".join(lines) + "\n"


def _ours_and_best(results: dict[str, Any], workload: str) -> tuple[float, float, str]:
    """Our rate, and the best of the others with its name; wrong figures do not count."""
    cells = {name: found.get("speed", {}).get(workload, {}) for name, found in results.items()}
    rates = {name: cell.get("rate", 0.0) for name, cell in cells.items() if not cell.get("wrong")}
    others = [
        (rate, name) for name, rate in rates.items() if not name.startswith("headrace") and rate
    ]
    return rates.get("headrace", 0.0), *max(others, default=(0.0, ""))


def _summary(cells: dict[str, list[str]], event: str) -> str:
    """Numbers of pipelines, the best verdict first; those that are not claimed do not count."""
    words = Counter(word for cell, (word, _) in cells.items() if cell.endswith(f":{event}"))
    return ", ".join(f"{words[word]} {word}" for word in VERDICTS if words[word]) or "–"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
