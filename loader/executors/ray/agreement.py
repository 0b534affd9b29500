"""Whatever must be the same on all nodes, as it decides the stream: the code of this package, and the pipeline after a pickle.

In: the first answers of workers. Out: `ClusterMismatchError`, or a warning.
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
from ...plan.fingerprint import Identity
from ...plan.pipeline import Pipeline

LOGGER = logging.getLogger("headrace")

PACKAGE = __name__.partition(".")[0]


class Release(NamedTuple):
    """The code that a process runs. Releases before this one tell nothing of theirs."""

    version: str = "an older version"
    source: str = ""  # a digest of the package's own files; "" where there are none
    numpy: str = ""  # random operations draw from its generators


@cache
def release_here() -> Release:
    """The release of this process, as it was when this was asked first."""
    return Release(metadata.version(PACKAGE), source_digest(Path(__file__).parents[3]), np.__version__)


def source_digest(folder: Path) -> str:
    """A digest of the Python files of a package and of the packages in it, whatever ends their lines; "" if there are none."""
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
    """The difference of two processes for which they might make different streams; None: there is none."""
    if here.version != there.version:
        return f"it runs {there.version} of headrace, and this process {here.version}"
    if here.source and there.source and here.source != there.source:
        return f"it runs other files of headrace {here.version} ({there.source}) than this process ({here.source})"
    return None


def numpy_mismatch(here: Release, there: Release) -> str | None:
    """A difference that is worth a warning: NumPy's generators may give other numbers after a release that is no bug fix."""
    if not there.numpy or _feature_release(here.numpy) == _feature_release(there.numpy):
        return None
    return f"it runs NumPy {there.numpy}, and this process {here.numpy}"


def _feature_release(version: str) -> list[str]:
    return version.split(".")[:2]


def identity_of(pipeline: Pipeline) -> str:
    """The identity of source and operations now, as text; "" if they do not tell it here."""
    try:
        now = Identity.of([leaf.source for leaf in pipeline.leaves], pipeline.operations)
        return json.dumps([now.source, now.operations], sort_keys=True)
    except Exception:  # of a user's own source, which may need what only the user's process has
        return ""


class Begun(NamedTuple):
    """The first answer of a worker: it can be given tasks, or why not."""

    node: str  # that it is on
    clock: float  # seconds that `time.time` shows more than `time.perf_counter`
    error: bytes | None  # why it could not unpack the pipeline
    release: tuple[str, ...] = ()  # the fields of its `Release`
    identity: str = ""  # of the pipeline, as it was unpacked


class Checked:
    """A pipeline, and what it became by pickle: what workers have to agree with."""

    def __init__(self, pipeline: Pipeline, data: bytes, buffers: Sequence[Any]) -> None:
        self._pipeline = pipeline
        self._pickled = data, buffers
        self._warned: set[str] = set()

    def check(self, begun: Begun, node: str) -> None:
        """See that a worker gives the stream that this process would give.

        Args:
            begun: what the worker tells.
            node: its node, as the user knows it.

        Raises:
            ClusterMismatchError: it has another version of this package, or another pipeline.
        """
        there = Release(*begun.release)
        if why := mismatch(release_here(), there):
            raise ClusterMismatchError(
                f"node {node} of the Ray cluster might give another stream: {why}. Install headrace {release_here().version} "
                "there, and start Ray anew, or keep workers off that node by ray_options=."
            )
        if begun.error is None and begun.identity not in ("", self._identity) and begun.identity != self._unpickled:
            raise ClusterMismatchError(
                f"node {node} of the Ray cluster unpickles another pipeline than this process: {self._differing(begun)} "
                "differs. Have the same modules there. If the values of an operation differ by intent, let a method "
                "identity_parameters() say what identifies it."
            )
        if (why := numpy_mismatch(release_here(), there)) and node not in self._warned:
            self._warned.add(node)
            LOGGER.warning(
                f"node {node} of the Ray cluster may draw other random numbers: {why}. Install the same there."
            )

    def _differing(self, begun: Begun) -> str:
        """The first of source and operations that is another one there."""
        (source, operations), (source_there, there) = (
            json.loads(self._unpickled or self._identity),
            json.loads(begun.identity),
        )
        if source != source_there:
            return "the source"
        changed = (number for number, pair in enumerate(zip(operations, there)) if pair[0] != pair[1])
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
        """As an operation may be another one after a pickle by intent, without a cache, say."""
        data, buffers = self._pickled
        return identity_of(pickle.loads(data, buffers=buffers)[1])
