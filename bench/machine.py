"""Files of results, and the facts about the machine and the software that they have. Needs nothing
but Python.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "grain", "torch", "array_record", "pillow")


def facts() -> dict[str, str]:
    """Date, machine, and how busy it is, in the order of a line."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cores": str(len(os.sched_getaffinity(0))),
        "CPU": _line("/proc/cpuinfo", "model name"),
        "memory": f"{int(_line('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "system": platform.system(),
        "load average": f"{os.getloadavg()[0]:.1f}",
    }


def facts_with_versions() -> dict[str, str]:
    """The same, with the versions of what is installed here."""
    found = facts()
    load = found.pop("load average")
    return {
        **found,
        "cores": f"{found['cores']} of {os.cpu_count()}",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "headrace": _commit(),
        **{package: _version(package) for package in PACKAGES},
        "load before": load,
    }


def kept(path: Path) -> dict[str, Any]:
    """The results that a file has; none if there is no file."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(path: Path, results: dict[str, dict[str, Any]]) -> None:
    """Add results of loaders to those that a file has of other loaders, cells and workloads."""
    all_ = kept(path)
    for name, found in results.items():
        old = all_.setdefault(name, {"cells": {}})
        parts = {
            part: old.get(part, {}) | found[part]
            for part in ("cells", "speed", "versions")
            if part in found
        }
        old |= found | parts
    written = path.with_suffix(".part")
    written.write_text(json.dumps(all_, indent=1, sort_keys=True) + "\n")
    written.replace(path)  # so that a command that is stopped leaves a whole file


def _line(file: str, name: str) -> str:
    """The value of a name in a file of the kernel's."""
    lines = Path(file).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "0")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The version, with the commit if this is a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return _version("headrace")
    return f"{_version('headrace')}, commit {commit}"
