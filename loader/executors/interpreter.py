"""How a fresh interpreter is started that will be the zygote or a worker.

In: what it is to be. Out: a command line. Nothing here imports NumPy or the rest of the package.
"""

from __future__ import annotations

import sys

_PROGRAM = "import gc; gc.disable(); from millrace.loader.executors.zygote import main; main()"
"""Without the garbage collector, importing takes a tenth less; `main` turns it on again."""


def command(*arguments: object) -> list[str]:
    """The command line. The working directory is not on its module path."""
    return [sys.executable, "-P", "-c", _PROGRAM, *map(str, arguments)]
