"""Rows packed of documents whose lengths are known: which documents make a row is known before any is read.

In: documents. Out: rows, as the operation `Pack` makes them of one epoch in order; each at its index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np

from ...errors import PackError
from ...operations import Pack
from ...operations.identity import fingerprint
from ...operations.packing.pieces import end_to_end
from ...operations.packing.plan import PackPlan
from ...samplers.index_maps import Indices
from ...sources.provenance import TokenSpan, UsedRecord
from ..arguments import finite
from .node import Node, OnOne, telling_datasets


@dataclass(frozen=True, eq=False)
class Packed(OnOne):
    """Rows of the first epoch's documents; each epoch has the same rows.

    Attributes:
        operation: how they are packed.
        plan: of the lengths.
    """

    operation: Pack
    plan: PackPlan

    @classmethod
    def of(cls, node: Node, operation: Pack, lengths: Any) -> Packed:
        """The node over another one; `lengths` are those of its elements, None where its source tells them.

        Raises:
            PackError: nobody tells them, or not one for each element.
            ValueError: the documents never end.
        """
        documents = finite("pack", node.length)
        known = node.lengths_at(np.arange(documents, dtype=np.int64)) if lengths is None else lengths
        if known is None:
            raise PackError(
                "pack of a MapDataset is planned from the lengths of its elements, which only sources with `lengths` tell, as "
                "long as nothing but their order is changed. Pass lengths=, or pack the stream: to_iter_dataset().pack(…)."
            )
        plan = operation.plan(known)
        if plan.documents != documents:
            raise PackError(
                f"pack: lengths= tells {plan.documents} lengths, and the dataset has {documents} elements; pass one for each."
            )
        return cls(node, operation, plan)

    @property
    def length(self) -> int:
        return self.plan.rows

    @property
    def operations(self) -> int:
        return self.input.operations + 1

    @property
    def may_be_none(self) -> bool:
        return False

    @property
    def parameters(self) -> Any:
        return [fingerprint(self.operation), self.operation.window, self.length]

    def records(self, indices: Indices) -> Sequence[Any]:
        """All documents are read in one call."""
        if not len(indices):
            return []
        pieces = end_to_end([self.plan.row(index) for index in (indices % self.length).tolist()])
        documents = self.input.records(pieces.documents)
        with telling_datasets(self.input, pieces.documents):
            return self.operation.planned(documents, pieces)

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        """The pieces of documents in a row."""
        pieces = self.plan.row(index % self.length)
        spans = enumerate(zip(pieces.documents.tolist(), pieces.spans), start=1)
        return [
            used.placed(segment=segment, tokens=tuple(starmap(TokenSpan, tokens)))
            for segment, (document, tokens) in spans
            for used in self.input.made_of(document)
        ]

    def dataset_at(self, index: int) -> None:
        """None: a row may have documents of several."""
