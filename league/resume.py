"""The resume league: `python league/resume.py --loaders headrace grain`; needs nothing but Python.

In: names of loaders, pipelines and events. Out: a verdict for each cell, printed, and kept as JSON with `--results`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases import EVENTS, PIPELINES, Event, Pipeline
from environments import LOADERS, Loader, python_of
from facts import facts
from oracle import Page, Verdict, judge
from play import SECONDS

HERE = Path(__file__).parent


def main() -> int:
    """Plays the cells and prints them."""
    options = _arguments()
    results: dict[str, Any] = {}
    for name in options.loaders:
        loader = LOADERS[name]
        noted = facts() | {"limit of a leg": f"{SECONDS:g} s"}
        found = {"versions": {}, "cells": {}, "missing": "", "facts": noted, "seconds": 0.0}
        began = time.monotonic()
        python = python_of(loader)
        if loader.stateless or python is None:
            found["missing"] = loader.stateless or f"not installed: python3 league/environments.py {name}"
            print(f"{name}: {found['missing']}")
        else:
            for cell, verdict in play(loader, python, options.pipelines, options.events, found["versions"]):
                found["cells"][cell] = [verdict.word, verdict.detail]
                _show(name, cell, verdict)
        found["seconds"] = round(time.monotonic() - began, 1)
        results[name] = found
        if options.results:
            _keep(options.results, results)
    return 0


def play(
    loader: Loader, python: str, pipelines: list[Pipeline], events: list[Event], versions: dict[str, str]
) -> Iterator[tuple[str, Verdict]]:
    """The cells of a loader, each with its verdict, in one process of its environment."""
    cells = {f"{one.name}:{event.name}": (one, event) for one in pipelines for event in events}
    command = [python, str(HERE / "play.py"), loader.adapter, *cells]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for text in process.stdout or ():
            line = json.loads(text)
            versions.update(line.get("versions", {}))
            if "cell" in line:
                yield line["cell"], _verdict(line, *cells.pop(line["cell"]))
    for cell in cells:
        yield cell, Verdict("error", "the process that plays the cells ended")


def _verdict(line: dict[str, Any], pipeline: Pipeline, event: Event) -> Verdict:
    if "unclaimed" in line:
        return Verdict("grey", line["unclaimed"])
    ledger, reference = ([[Page(**page) for page in leg] for leg in line[what]] for what in ("ledger", "reference"))
    return judge(pipeline.with_records(event.more), event, ledger, reference)


def _show(name: str, cell: str, verdict: Verdict) -> None:
    print(f"{name:12} {cell:32} {verdict.word:9} {verdict.detail[:150]}", flush=True)
    if verdict.word not in ("ok", "grey", "restart"):
        pipeline, _, event = cell.partition(":")
        print(f"             again: python league/resume.py --loaders {name} --pipelines {pipeline} --events {event}")


def _keep(path: Path, results: dict[str, Any]) -> None:
    """Adds to what the file has of other loaders and cells."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    for name, found in results.items():
        cells = kept.get(name, {}).get("cells", {}) | found["cells"]
        kept[name] = found | {"cells": cells}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loaders", nargs="+", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--size", choices=["small", "full"], default="small", help="which pipelines, if none is named")
    parser.add_argument("--pipelines", nargs="+", choices=[one.name for one in PIPELINES])
    parser.add_argument(
        "--events", nargs="+", choices=[one.name for one in EVENTS], default=[one.name for one in EVENTS]
    )
    parser.add_argument("--results", type=Path, help="a JSON file to add the verdicts to")
    options = parser.parse_args()
    wanted = options.pipelines or [one.name for one in PIPELINES if one.small or options.size == "full"]
    options.pipelines = [one for one in PIPELINES if one.name in wanted]
    options.events = [one for one in EVENTS if one.name in options.events]
    return options


if __name__ == "__main__":
    sys.exit(main())
