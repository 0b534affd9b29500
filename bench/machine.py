"""Files of results, and the facts about the machine that they have. Needs nothing but Python."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any


def facts() -> dict[str, str]:
    """Date, machine, and how busy it is, in the order of a line."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cores": str(len(os.sched_getaffinity(0))),
        "CPU": _line("/proc/cpuinfo", "model name"),
        "memory": f"{int(_line('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "system": platform.platform(),
        "load average": f"{os.getloadavg()[0]:.1f}",
    }


def kept(path: Path) -> dict[str, Any]:
    """The results that a file has; none if there is no file."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(path: Path, results: dict[str, dict[str, Any]]) -> None:
    """Add results of loaders to those that a file has of other loaders, cells and workloads."""
    all_ = kept(path)
    for name, found in results.items():
        old = all_.setdefault(name, {"cells": {}})
        parts = {"cells", "speed", "versions"} & found.keys()
        old |= found | {part: old.get(part, {}) | found[part] for part in parts}
    written = path.with_suffix(".part")
    written.write_text(json.dumps(all_, indent=1, sort_keys=True) + "\n")
    written.replace(path)  # so that a command that is stopped leaves a whole file


def _line(file: str, name: str) -> str:
    """The value of a name in a file of the kernel's."""
    lines = Path(file).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "0")
