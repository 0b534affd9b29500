"""`millrace plan PROGRAM.py[:name] --step-seconds S`: measures what a batch takes, and says how many workers hide it.

In: parsed arguments. Out: a plan on standard output, and an exit status.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from typing import Any

from ..bench import seconds, steps
from ..programs import Program, told_of


def add_plan(tools: Any) -> None:
    """Add the command `plan`."""
    parser = tools.add_parser(
        "plan", help="PROGRAM.py[:name] --step-seconds S: how many workers and nodes hide its work"
    )
    parser.add_argument("program", help="PROGRAM.py, or PROGRAM.py:name of a loader or of a function that makes one")
    parser.add_argument(
        "--step-seconds", type=seconds, required=True, metavar="S", help="what a step on the accelerator takes"
    )
    parser.add_argument("--cores", type=_count, metavar="N", help="of this machine, for workers; default: all but one")
    parser.add_argument(
        "--cores-per-node", type=_count, default=16, metavar="N", help="of a node of a cluster (default 16)"
    )
    parser.add_argument(
        "--bandwidth", type=seconds, default=10.0, metavar="GBIT", help="of the network, in Gbit/s (default 10)"
    )
    parser.add_argument("--steps", type=steps, default=20, metavar="N", help="batches to measure (default 20)")
    parser.add_argument("--seconds", type=seconds, default=60.0, help="to measure for at most (default 60)")
    parser.set_defaults(run=_plan)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text} is too few; pass 1 or more.")
    return count


def _plan(options: argparse.Namespace) -> int:
    from ..diagnosis.diagnose import work_alone
    from ..diagnosis.diagnosis import told, told_bytes
    from .plan import Machines, Needs, Plan

    program = Program.parsed(options.program)
    with redirect_stdout(sys.stderr), program.loader(options.after_dashes) as loader, told_of(program.path):
        loop = work_alone(loader, options.steps, options.seconds)
    machines = Machines(
        options.cores or _default_cores(loop.cores), options.cores_per_node, options.bandwidth / 8 * 1e9
    )
    plan = Plan.of(Needs(loop.work, loop.processor, loop.nbytes, options.step_seconds), machines)
    first, *others = str(plan).splitlines()
    batch = f"{loop.records:,.0f} records ({told_bytes(loop.nbytes)}) takes {told(loop.work)} of a worker"
    print(first, f"Measured: a batch of {batch}, {told(loop.processor)} of a core.", *others, sep="\n")
    return 0


def _default_cores(cores: int) -> int:
    """One is for the user's thread."""
    return max(cores - 1, 1)
