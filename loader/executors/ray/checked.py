"""Holds what a worker tells of itself, when it begins, against what is here: all of them must give the same stream.

In: the first answers of workers. Out: `ClusterMismatchError`, or a warning.
"""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ....common.messages import short_repr
from ....errors import ClusterMismatchError
from ...plan.pipeline import Pipeline
from .messages import Begun
from .releases import Release, identity_of, mismatch, numpy_mismatch, release_here

LOGGER = logging.getLogger("headrace")


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
        return identity_of(pickle.loads(data, buffers=buffers)[0])
