"""Facts about the machine and the software, for the head of a report."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import psutil

PACKAGES = ("numpy", "grain", "torch", "array_record", "pillow")


def facts() -> dict[str, str]:
    """Names and values, in the order in which to show them."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "CPU": _cpu_model(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "headrace": _commit(),
        **{package: _version(package) for package in PACKAGES},
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _commit() -> str:
    """The version, with the commit if this is a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return _version("headrace")
    return f"{_version('headrace')}, commit {commit}"
