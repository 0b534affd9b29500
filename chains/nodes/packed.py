"""The node whose elements are the rows into which `pack` packs documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from ...common.costs import Cost
from ...errors import PackError
from ...operations import Pack
from ...operations.packing.pieces import end_to_end
from ...operations.packing.plan import PackPlan
from ...operations.protocol import fingerprint
from ...samplers.chain.index_maps import Indices
from ...sources.provenance import TokenSpan, UsedRecord
from ..arguments import finite
from .element_lengths import lengths_of_elements
from .node import Node, OfSeveral, naming_datasets


@dataclass(frozen=True, eq=False)
class Packed(OfSeveral):
    """A node whose elements are the rows into which the documents of an epoch are packed.

    The attribute `plan` says which documents are in each row. The plan is made from the lengths of
    the documents, before any document is read.
    """

    operation: Pack  # how they are packed
    plan: PackPlan  # of the lengths

    @classmethod
    def of(cls, node: Node, operation: Pack, lengths: Any) -> Packed:
        """Make the node that packs the elements of another node.

        Args:
            node: the node of the documents.
            operation: the operation that says how documents are packed.
            lengths: lengths of the documents, as for `MapDataset.pack`; None if the source knows
                them.

        Raises:
            PackError: if the lengths are unknown, if there is not one length for each document, or
                if an earlier operation may drop elements.
            LengthsError: if a length is invalid, or `lengths` names a field or file that does not
                fit.
            ValueError: if the dataset of the documents is endless.
        """
        documents = finite("pack", node.length)
        if node.left_out_by:
            raise PackError(
                f"pack cannot follow MapDataset.{node.left_out_by}, which may leave elements out. "
                "Pack the stream: to_iter_dataset().pack(…)."
            )
        known = lengths_of_elements(node, lengths, "pack")
        if known is None:
            raise PackError(
                "pack of a MapDataset needs the lengths of its elements. They are unknown, because "
                "the source does not give them, or an operation after it may change them. Pass "
                "lengths=, an array with one length for each element, or pack the stream: "
                "to_iter_dataset().pack(…)."
            )
        plan = operation.plan(known)
        if plan.documents != documents:
            raise PackError(
                f"pack: lengths= has {plan.documents} lengths, but the dataset has {documents} "
                "elements. Pass one length for each element."
            )
        return cls(node, operation, plan)

    @property
    def length(self) -> int:
        return self.plan.rows

    @property
    def parameters(self) -> Any:
        return [fingerprint(self.operation), self.operation.window, self.length]

    def packed_costs(self, cost: Cost | None) -> Any:
        """Return the cost of each row, which is the sum of its segments' costs.

        Args:
            cost: function that computes costs from an array of lengths; None: the cost is the
                length.
        """
        return self.plan.costs(cost)

    def records(self, indices: Indices) -> Sequence[Any]:
        """Return the rows at indices `int64[n]`. All documents are read in one call."""
        if not len(indices):
            return []
        pieces = end_to_end([self.plan.row(index) for index in (indices % self.length).tolist()])
        documents = self.input.records(pieces.documents)
        with naming_datasets(self.input, pieces.documents):
            return self.operation.planned(documents, pieces)

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        pieces = self.plan.row(index % self.length)
        spans = enumerate(zip(pieces.documents.tolist(), pieces.spans), start=1)
        return [
            used._replace(segment=segment, tokens=tuple(starmap(TokenSpan, tokens)))
            for segment, (document, tokens) in spans
            for used in self.input.made_of(document)
        ]
