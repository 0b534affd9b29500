"""The node of a source, from which a chain begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...samplers.chain.index_maps import Indices
from ...sources import DataSource, fingerprint_of, reader_of
from ...sources.facts import SourceFacts, facts_of, used_records
from ...sources.lengths import lengths_of
from ...sources.provenance import UsedRecord
from .line import Line
from .node import Get, Node, some_lengths


@dataclass(frozen=True, eq=False)
class Source(Node):
    """A node whose elements are the records of a source, epoch after epoch.

    Attributes:
        source: the source.
    """

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

    def lengths_at(self, indices: Indices, name: str | os.PathLike[str] | None = None) -> Any:
        lengths = facts_of(self.source).lengths() if name is None else lengths_of(self.source, name)
        return None if lengths is None else some_lengths(lengths, indices % self.length)

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        return used_records(self.source, index % self.length)

    @property
    def parameters(self) -> Any:
        return fingerprint_of(self.source)

    @property
    def facts(self) -> SourceFacts:
        """Facts about the records, from the source's own facts.

        There is one difference: a source that reads asynchronously makes many concurrent reads, so
        `reads_singly` (it reads one record per call) is False for it.
        """
        below = facts_of(self.source)
        return SourceFacts(
            reads_ahead=below.reads_ahead,
            reads_singly=bool(below.reads_singly) and below.read_in_loop is None,
            grows_within=below.grows,
            made_of=self.made_of,
        )

    @property
    def line(self) -> Line:
        return Line(self.source, self.length, self.length, self.length)

    @property
    def base_and_order(self) -> tuple[Node, Line]:
        return self, self.line
