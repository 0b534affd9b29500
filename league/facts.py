"""Facts that both leagues store beside their figures: date, machine, and how busy it is.

They are found in an environment without any loader.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path


def facts() -> dict[str, str]:
    """Names and values, in the order of a line."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cores": str(len(os.sched_getaffinity(0))),
        "CPU": _line("/proc/cpuinfo", "model name"),
        "memory": f"{int(_line('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "system": platform.system(),
        "load average": f"{os.getloadavg()[0]:.1f}",
    }


def _line(file: str, name: str) -> str:
    """The value of a name in a file of the kernel's."""
    lines = Path(file).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "0")
