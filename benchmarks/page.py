"""Write the tables of docs/performance.md that `compare.py` measures, and the description of the machine.

    python benchmarks/compare.py --workers 0,2
    python benchmarks/page.py [output/results.json]

The tables are written between the marks of the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- by benchmarks/page.py -->", "<!-- end of benchmarks/page.py -->"
RIVALS = {"Grain": ("grain", "grain_inline"), "PyTorch": ("torch", "torch_stack")}
"""Each other library, at the better of its settings."""
CHAINS = {"chain": ("grain_chain", "grain_chain_inline"), "packing": ("grain_packing", "grain_packing_inline")}

Rates = Mapping[str, Mapping[str, Any]]


def lines(results: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the tables."""
    facts = results["facts"]
    yield "* **Conditions of the measurement**: " + "; ".join(f"{name} {value}" for name, value in facts.items()) + "."
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
            yield f"| `{name}`: {ours}, × Grain at the best of its settings | {_row(found, ours, theirs)} |"
        if "mix" in found:
            yield f"| `{name}`: a mix of 35 datasets, × one | {_row(found, 'mix', ('chain',))} |"
        if "packing" in found:
            cells = " | ".join(_times(found, f"packing{suffix}", ["packing"]) for suffix in ("", "@2"))
            yield f"| `{name}`: × without workers | {cells} |"


def _row(found: Rates, ours: str, theirs: tuple[str, ...]) -> str:
    return " | ".join(_times(found, f"{ours}{suffix}", [f"{one}{suffix}" for one in theirs]) for suffix in ("", "@2"))


def _cells(found: Rates, suffix: str) -> list[str]:
    ours = found.get(f"headrace{suffix}")
    if ours is None:
        return ["", "", *["" for _ in RIVALS]]
    rate = f"{ours['rate']:,.0f} ({ours['rate_high']:,.0f})"
    times = [_times(found, f"headrace{suffix}", [f"{one}{suffix}" for one in rivals]) for rivals in RIVALS.values()]
    return [rate, f"{ours['to_limit']:.2f}", *times]


def _times(found: Rates, ours: str, others: list[str]) -> str:
    """How many times as fast as the fastest of the others, with two digits; "" if one of the sides is missing."""
    rates = [found[other]["rate"] for other in others if other in found]
    if ours not in found or not rates:
        return ""
    ratio = found[ours]["rate"] / max(rates)
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def main() -> int:
    """Write the tables into the page."""
    results = json.loads(Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "output" / "results.json").read_text())
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} lacks {BEGIN} or {END}")
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines(results)) + f"\n\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
