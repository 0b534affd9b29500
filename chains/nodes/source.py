"""The bottom of a chain: a source.

In: indices. Out: its records, epoch after epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...samplers.index_maps import Indices
from ...sources import DataSource, fingerprint_of, reader_of
from ...sources.protocol import is_in_event_loop, reads_singly
from ...sources.provenance import UsedRecord, used_records
from .line import Line
from .node import Get, Node, some_lengths


@dataclass(frozen=True, eq=False)
class Source(Node):
    """The records of a source, epoch after epoch."""

    source: DataSource[Any]

    @cached_property
    def length(self) -> int:
        return len(self.source)

    @cached_property
    def _read(self) -> Callable[[Indices], Sequence[Any]]:
        return reader_of(self.source)

    def records(self, indices: Indices) -> Sequence[Any]:
        return self._read(indices % self.length)

    def getter(self) -> Get:
        read, length = self.source.__getitem__, self.length
        return lambda index: read(index % length)

    def lengths_at(self, indices: Indices) -> Any:
        lengths = getattr(self.source, "lengths", None)
        return None if lengths is None else some_lengths(lengths, indices % self.length)

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        return used_records(self.source, index % self.length)

    @property
    def parameters(self) -> Any:
        return fingerprint_of(self.source)

    @property
    def reads_ahead(self) -> Any:
        return getattr(self.source, "reads_ahead", True)

    @property
    def reads_singly(self) -> bool:
        """An asynchronous source has many reads under way by itself, in a call that waits for them."""
        return reads_singly(self.source) and not is_in_event_loop(self.source)

    @property
    def line(self) -> Line:
        return Line(self.source, self.length, self.length, self.length)

    @property
    def apart(self) -> tuple[Node, Line]:
        return self, self.line
