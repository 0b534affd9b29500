"""Facts for a fault report: versions, the platform, and a description of a pipeline.

They contain no data, paths or environment variables. Of the program, they have only numbers and
options, and the names of built-in classes and of headrace's classes.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..common.fields import field_values
from ..common.system import is_portable, usable_processors
from ..loader.plan.pipeline import Pipeline
from .programs import Program
from .provenance.commands import loader_of
from .provenance.streams import Described

_LIBRARIES = (
    *(
        "numpy",
        "cloudpickle",
        "optree",
        "tqdm",
        "jax",
        "jaxlib",
        "orbax-checkpoint",
        "flax",
        "keras",
        "grain",
        "torch",
    ),
    *(
        "pyarrow",
        "array-record",
        "datasets",
        "tensorflow-datasets",
        "tensorflow",
        "obstore",
        "fsspec",
        "ray",
        "apache-beam",
    ),
)

_OF_ORDERS = ("records", "shuffle", "epochs", "seed", "algorithm")
_OF_EXECUTION = ("worker_kind", "worker_count", "worker_buffer_size", "timeout", "read_options")


def print_report(options: argparse.Namespace) -> int:
    """Run the command `headrace report`: print facts about the machine and the pipeline.

    Return the exit status, 0.

    Args:
        options: parsed arguments of the command line.

    Raises:
        ProgramError: the program fails, or has no loader.
    """
    lines = list(_about_the_machine())
    if options.program is not None:
        with loader_of(Program.parsed(options.program), options) as loader:
            lines += _about_pipeline(Described.of(loader).pipeline)
            lines += _about_execution(getattr(loader, "loader_description", None))
    print("\n".join(lines))
    return 0


def _about_the_machine() -> Iterator[str]:
    yield (
        f"headrace {version('headrace')}, Python {platform.python_version()} "
        f"({sys.implementation.name})"
    )
    yield (
        f"{platform.system()} {platform.release()}, {platform.machine()}, {usable_processors()} "
        "processors"
    )
    yield (
        "worker processes: "
        f"{'the portable transport' if is_portable() else 'the transport of Linux'}"
    )
    yield ", ".join(f"{name} {found}" for name in _LIBRARIES if (found := _version(name)))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _about_pipeline(pipeline: Pipeline) -> Iterator[str]:
    for number, leaf in enumerate(pipeline.leaves):
        told = leaf.sampler.fingerprint
        facts = ", ".join(f"{name}={told[name]}" for name in _OF_ORDERS if name in told)
        yield (
            f"records {number}: {_kind(leaf.source)} in the order of {_kind(leaf.sampler)}({facts})"
        )
    for number, stage in enumerate(pipeline.stages):
        yield f"stage {number}: {', '.join(map(_kind, stage.operations)) or 'no operation'}"
    for join in pipeline.joins:
        yield f"join: {_kind(join.rule)}"
    shard = pipeline.shard
    yield (
        f"batch sizes {list(pipeline.identity.sizes)}, shard {shard.shard_index} of "
        f"{shard.shard_count}"
    )


def _about_execution(description: Any) -> Iterator[str]:
    if description is not None:
        options = description.execution.for_operations(description.pipeline.operations)
        values = field_values(options)
        yield ", ".join(f"{name}={values[name]}" for name in _OF_EXECUTION)


def _kind(thing: Any) -> str:
    """Return the name of an object's class if the class is built in or headrace's.

    For other classes return "a class of the program".

    >>> _kind([]), _kind(Program("train.py")), _kind(argparse.Namespace())
    ('list', 'Program', 'a class of the program')
    """
    kind = type(thing)
    room = kind.__module__.partition(".")[0]
    if room == "builtins":
        return kind.__name__
    return kind.__name__ if room == __name__.partition(".")[0] else "a class of the program"
