"""Measure speed.

    python bench/speed.py compare       headrace, Grain, PyTorch and plain loops, in one process
    python bench/speed.py loaders       all libraries, each in an environment of its own
    python bench/speed.py MEASUREMENT   one of those in `measurements/`

`python bench/speed.py COMMAND --help` says what a command measures, and its options.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAMS = {
    "compare": "compare.run",
    "loaders": "loaders.run",
    "cell": "loaders.cell",  # by which `loaders` measures one library, in its own environment
}
"""Modules with the functions `arguments`, which adds to a parser, and `main`."""

MEASUREMENTS = {
    path.stem: f"measurements.{path.stem}"
    for path in sorted(Path(__file__).parent.glob("measurements/*.py"))
}
"""Modules that `measurement.py` runs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command."""
    name, *given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name not in PROGRAMS | MEASUREMENTS:
        print(__doc__, f"Measurements: {', '.join(MEASUREMENTS)}", sep="\n")
        return 0 if name in ("--help", "-h") else 2
    module = importlib.import_module((PROGRAMS | MEASUREMENTS)[name])
    told = {"description": module.__doc__, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(f"speed.py {name}", **told)
    if name in PROGRAMS:
        module.arguments(parser)
        return module.main(parser.parse_args(given)) or 0
    import measurement

    measurement.arguments(parser, module)
    measurement.main(module, parser.parse_args(given))
    return 0


if __name__ == "__main__":
    sys.exit(main())
