"""Check whether loaders resume exactly after several events. Needs nothing but Python.

    python3 bench/resume.py --loaders headrace grain

Prints a verdict for each cell, i.e. a loader, a pipeline and an event, and stores it as JSON with
`--results`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from libraries import LIBRARIES, python_of
from machine import facts, keep, kept
from resuming.cases import EVENTS, PIPELINES
from resuming.oracle import Verdict
from resuming.play import SECONDS, play_all

KEEPING = threading.Lock()


def main() -> int:
    """Play the cells and print them."""
    if sys.argv[1:2] == ["--play"]:  # in the loader's own environment
        play_all(sys.argv[2], sys.argv[3:])
        return 0
    options = _arguments()
    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(lambda name: _loader(name, options), options.loaders))
    return 0


def _loader(name: str, options: argparse.Namespace) -> None:
    """Play the cells of a loader, and keep each verdict as it comes, with facts of the machine."""
    library = LIBRARIES[name]
    python = python_of(library)
    installed = "" if python else f"not installed: python3 bench/environments.py {name}"
    noted = {"time limit of a part": f"{SECONDS:g} s"}
    noted |= {"loaders at the same time": str(options.at_once)}
    found: dict[str, Any] = {"versions": {}, "cells": {}, "facts": facts() | noted}
    found["missing"] = library.stateless or installed
    if found["missing"]:
        print(f"{name}: {found['missing']}", flush=True)
        return _keep(options, name, found)
    before = kept(options.results).get(name, found)["cells"] if options.go_on else {}
    had = {cell for cell, (word, _) in before.items() if word != "error"}
    cells = [f"{one.name}:{event.name}" for one in options.pipelines for event in options.events]
    wanted = [cell for cell in cells if cell not in had]
    for cell, verdict in play(library.adapter, python or "", wanted, found["versions"]):
        found["cells"][cell] = [verdict.word, verdict.detail]
        _keep(options, name, found)
        print(f"{name:12} {cell:32} {verdict.word:9} {verdict.detail[:150]}", flush=True)
        if verdict.word not in ("ok", "grey", "restart"):
            again = "--loaders {} --pipelines {} --events {}".format(name, *cell.split(":"))
            print(f"             again: python3 bench/resume.py {again}")
    return None


def _keep(options: argparse.Namespace, name: str, found: dict[str, Any]) -> None:
    """Write the results of a loader to the file, if there is one."""
    with KEEPING:
        if options.results:
            keep(options.results, {name: found})


def play(
    adapter: str, python: str, cells: list[str], versions: dict[str, str]
) -> Iterator[tuple[str, Verdict]]:
    """The cells of a loader, each with its verdict, in one process of its environment."""
    command, missing = [python, __file__, "--play", adapter, *cells], [*cells]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for text in process.stdout or ():
            line = json.loads(text)
            versions.update(line.get("versions", {}))
            if "cell" in line:
                missing.remove(line["cell"])
                yield line["cell"], Verdict(line["word"], line["detail"])
    for cell in missing:
        yield cell, Verdict("error", "the process that plays the cells ended")


def _arguments() -> argparse.Namespace:
    parser, events = argparse.ArgumentParser(description=__doc__), [one.name for one in EVENTS]
    parser.add_argument("--loaders", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    about = "which pipelines, if none is named"
    parser.add_argument("--size", choices=["small", "full"], default="small", help=about)
    parser.add_argument("--pipelines", nargs="+", choices=[one.name for one in PIPELINES])
    parser.add_argument("--events", nargs="+", choices=events, default=events)
    about = "loaders that are played side by side"
    parser.add_argument("--at-once", type=int, default=1, help=about)
    about = "a JSON file to add the verdicts to, as they come"
    parser.add_argument("--results", type=Path, help=about)
    about = "leave out cells that --results has, except errors"
    parser.add_argument("--go-on", action="store_true", help=about)
    options = parser.parse_args()
    if options.go_on and not options.results:
        parser.error("--go-on needs --results FILE")
    all_ = [one.name for one in PIPELINES if one.small or options.size == "full"]
    wanted = options.pipelines or all_
    options.pipelines = [one for one in PIPELINES if one.name in wanted]
    options.events = [one for one in EVENTS if one.name in options.events]
    return options


if __name__ == "__main__":
    sys.exit(main())
