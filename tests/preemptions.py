"""Play trainings on two hosts that get SIGTERM at random moments, and count how they end.

    python tests/preemptions.py --signals 200 --by jax
    python tests/preemptions.py --signals 200 --by alone --workers 2

An error is printed if a record is lost or comes twice, a host hangs, or connected hosts end at
different steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from support.preempted_hosts import play


def main() -> None:
    """Play, and print the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--signals", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--by", choices=("jax", "folder", "alone"), default="jax")
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headrace-preemptions-") as folder:
        found = play(Path(folder), given.signals, given.seed, given.by, given.workers)
    for how, count in sorted(found.items()):
        print(f"{count:5}  {how}")
    print(
        f"{given.signals} signals in {time.monotonic() - began:.0f} s; nothing lost, nothing "
        "twice, no host hung"
    )


if __name__ == "__main__":
    main()
