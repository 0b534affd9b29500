"""Check that all nodes of a Ray cluster would make the same stream.

The nodes make the same stream if their code is equal, and the pipelines that they unpickle are
equal.

In: the first answers of workers. Out: a `ClusterMismatchError` or a warning.
"""

from __future__ import annotations

import hashlib
import json
import logging
import pickle
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....common.messages import short_repr
from ....errors import ClusterMismatchError
from ...plan.identity import Identity
from ...plan.pipeline import Pipeline

LOGGER = logging.getLogger("headrace")

PACKAGE = __name__.partition(".")[0]


class Release(NamedTuple):
    """Versions and digest of the code that a process runs.

    Attributes:
        version: version of headrace.
        source: digest of headrace's own files; "" if there are none.
        numpy: version of NumPy, whose generators random operations use.
    """

    version: str
    source: str
    numpy: str


@cache
def release_here() -> Release:
    """Return the versions and the digest of the code that this process runs.

    They are computed once.
    """
    return Release(
        metadata.version(PACKAGE), source_digest(Path(__file__).parents[3]), np.__version__
    )


def source_digest(folder: Path) -> str:
    """Return a digest of the package in a folder: its Python files, and those of its subpackages.

    Return "" if there are no Python files. Files that differ only in their line endings give the
    same digest.
    """
    found = hashlib.sha256()
    files = list(_sources(folder, ""))
    for name, path in files:
        text = path.read_bytes().replace(b"\r\n", b"\n")
        found.update(f"{name} {len(text)}\n".encode() + text)
    return found.hexdigest()[:16] if files else ""


def _sources(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py":
            yield f"{name}{path.name}", path
        elif (path / "__init__.py").is_file():
            yield from _sources(path, f"{name}{path.name}/")


def mismatch(here: Release, there: Release) -> str | None:
    """Return a text that says how headrace differs in another process and in this process.

    Return None if both are equal.

    Args:
        here: code of this process.
        there: code of the other process.
    """
    if here.version != there.version:
        return f"it runs {there.version} of headrace, and this process {here.version}"
    if here.source and there.source and here.source != there.source:
        return (
            f"it runs other files of headrace {here.version} ({there.source}) "
            f"than this process ({here.source})"
        )
    return None


def numpy_mismatch(here: Release, there: Release) -> str | None:
    """Return a text that says how NumPy's version in another process differs from this process's.

    Return None if both have the same feature release. In another feature release, such as 2.1
    instead of 2.0, NumPy's generators may return other numbers.

    Args:
        here: code of this process.
        there: code of the other process.
    """
    if _feature_release(here.numpy) == _feature_release(there.numpy):
        return None
    return f"it runs NumPy {there.numpy}, and this process {here.numpy}"


def _feature_release(version: str) -> list[str]:
    return version.split(".")[:2]


def identity_of(pipeline: Pipeline) -> str:
    """Return a JSON text that identifies a pipeline's source and operations.

    Return "" if it cannot be computed.
    """
    try:
        now = Identity.of([leaf.source for leaf in pipeline.leaves], pipeline.operations)
        return json.dumps([now.sources, now.operations], sort_keys=True)
    except Exception:  # of a user's own source, which may need what only the user's process has
        return ""


class Begun(NamedTuple):
    """First answer of a worker: it is ready for tasks, or it could not unpickle the pipeline.

    Attributes:
        node: id of the node that the worker is on.
        clock: seconds by which `time.time` is ahead of `time.perf_counter` in the worker.
        error: pickled exception if it could not unpickle the pipeline, else None.
        release: fields of its `Release` (versions and digest of its code).
        identity: text that identifies the unpickled pipeline; "" if it could not be computed.
    """

    node: str
    clock: float
    error: bytes | None
    release: tuple[str, ...]
    identity: str


class Checked:
    """A pipeline and its pickle, to be compared with the pipelines that workers have unpickled.

    Args:
        pipeline: pipeline of this process.
        data: pickle of the options and the pipeline.
        buffers: memory of the pickle's large arrays.
    """

    def __init__(self, pipeline: Pipeline, data: bytes, buffers: Sequence[Any]) -> None:
        self._pipeline = pipeline
        self._pickled = data, buffers
        self._warned: set[str] = set()

    def check(self, begun: Begun, node: str) -> None:
        """Check that a worker makes the same stream as this process would.

        A warning is logged, once for each node, if the worker's version of NumPy may draw other
        random numbers.

        Args:
            begun: first answer of the worker.
            node: name of the worker's node for messages.

        Raises:
            ClusterMismatchError: the worker has another version of headrace, or another pipeline.
        """
        there = Release(*begun.release)
        if why := mismatch(release_here(), there):
            raise ClusterMismatchError(
                f"node {node} of the Ray cluster could produce another stream: {why}. Install "
                f"headrace {release_here().version} there, and restart Ray, or keep workers off "
                "that node with ray_options=."
            )
        if (
            begun.error is None
            and begun.identity not in ("", self._identity)
            and begun.identity != self._unpickled
        ):
            raise ClusterMismatchError(
                f"node {node} of the Ray cluster unpickles another pipeline than this process: "
                f"{self._differing(begun)} differs. Install the same modules there. If the values "
                "of an operation differ on purpose, give its class a method identity_parameters() "
                "that returns the values that must be equal; for a source, a property fingerprint."
            )
        if (why := numpy_mismatch(release_here(), there)) and node not in self._warned:
            self._warned.add(node)
            LOGGER.warning(
                f"node {node} of the Ray cluster may draw other random numbers: {why}. Install the "
                "same version of NumPy there."
            )

    def _differing(self, begun: Begun) -> str:
        """Return the name of the first part that differs in a worker's pipeline and this process's.

        The result is "the source", "the number of operations", or the name of an operation.

        Args:
            begun: first answer of the worker.
        """
        (source, operations), (source_there, there) = (
            json.loads(self._unpickled or self._identity),
            json.loads(begun.identity),
        )
        if source != source_there:
            return "the source"
        changed = (
            number for number, pair in enumerate(zip(operations, there)) if pair[0] != pair[1]
        )
        number = next(changed, None)
        return (
            "the number of operations"
            if number is None
            else f"operation {number}, {short_repr(self._pipeline.operations[number])},"
        )

    @cached_property
    def _identity(self) -> str:
        return identity_of(self._pipeline)

    @cached_property
    def _unpickled(self) -> str:
        """Text that identifies this process's pipeline after it was pickled and unpickled.

        The text may differ from the one for the pipeline itself, because pickling may change an
        operation intentionally: the operation may lose its cache, for example.
        """
        data, buffers = self._pickled
        return identity_of(pickle.loads(data, buffers=buffers)[1])
