"""The tree that a user describes; and joins (mix, zip and others), which merge streams of rows.

In: the user's checked arguments. Out: a tree, which `compile` turns into leaves (sources with their
samplers), stages (operations that run in one task each) and joins.

Each join has a rule, which decides from which input the next row comes. It decides from its state
alone, not from rows. The state is a few integers, which checkpoints store; the first counts the
rows so far. A rule cannot know where an input ends, because there may be filters before it. So a
join asks the rule what to do when an input ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from ...operations import Operation
from ...samplers.protocol import Int64s
from .cursor import JoinState, Subtree, are_numbers
from .leaf import Leaf


class JoinPolicy:
    """Base of rules that decide which input of a join (mix, zip and others) gives the next row.

    Rules are frozen dataclasses. A rule's state is a tuple of integers, of which the first counts
    the rows so far; but see `RunThrough` for a source without random access.

    Attributes:
        kind: name of the rule in fingerprints.
        decisive: names of the fields that are part of the fingerprint; None: all fields.
        start: state at the beginning.
        restarts: True if an input that has ended is read again from its beginning, until the rule
            ends.
        limits: True if the join may end before any of its inputs does.
        endless: True if the join never ends, although its inputs end.
        strict: True if all inputs must end at the same row.
        keeps: True if rows are kept in memory, because a later join reads them again.
    """

    kind: ClassVar[str]
    decisive: ClassVar[tuple[str, ...] | None] = None
    start: ClassVar[JoinState] = (0,)
    restarts: ClassVar[bool] = False
    limits: ClassVar[bool] = False
    endless = False
    strict = False
    keeps = False

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Plain JSON values that identify this rule, by which a join merges its inputs.

        Two rules with equal values merge in the same way.
        """
        fields = vars(self) if self.decisive is None else self.decisive
        return {"kind": self.kind, **{name: vars(self)[name] for name in fields}}

    def choices(self, state: JoinState, count: int) -> Int64s:
        """Return from which input of the join each of the next `count` rows comes.

        The result is `int64[count]`, with an index for each row; it is shorter at the end of the
        join. Subclasses must define this method.
        """
        raise NotImplementedError

    def after(self, state: JoinState, count: int) -> JoinState:
        """Return the state of this rule after `count` more rows of the joined stream."""
        return (state[0] + count, *state[1:])

    def taken(self, rows: int) -> Sequence[int]:
        """Return how many of the first `rows` rows of the joined stream come from each input.

        The result is empty if that is unknown.
        """
        return ()

    def wanted(self, state: JoinState, most: int | None) -> int | None:
        """Return how many rows of each input are enough for `most` more rows of the joined stream.

        None, as `most` or as the result, means any number. This default returns None.
        """
        return None

    def ended(self, state: JoinState, number: int) -> JoinState | None:
        """Return the state with which the joined stream continues after the end of an input.

        Return None if the stream ends, too. This default returns None.

        Args:
            state: state at the end of the input: the next row should have come from this input.
            number: index of the input.

        Raises:
            JoinError: this input must not end here.
        """
        return None

    def ended_inputs(self, state: JoinState) -> Sequence[int]:
        """Return the indices of the join's inputs that have ended, and are not read again."""
        return ()

    def shared(self, states: Sequence[JoinState], shards: int) -> JoinState:
        """Return the state of this rule with which each shard begins on a new number of shards.

        By default, the rows so far are divided among the shards, and no input counts as ended: each
        shard finds the ends itself.

        Args:
            states: the states at which the shards of the earlier run stopped.
            shards: number of new shards.

        Raises:
            JoinError: this rule cannot continue on another number of shards.
        """
        return (sum(state[0] for state in states) // shards, *self.start[1:])

    def is_state(self, state: JoinState) -> bool:
        """Return True if a value from a checkpoint can be a state of this rule."""
        return len(state) == len(self.start) and are_numbers(state)


@dataclass(frozen=True)
class Join:
    """Several sections of a pipeline whose rows are merged into one stream by a rule.

    Attributes:
        number: index of the join in the pipeline.
        inputs: the sections that are joined. Empty if the join only stores the state of a source
            without random access.
        rule: decides from which input the next row comes.
        names: names of the inputs.
    """

    number: int
    inputs: tuple[Subtree, ...]
    rule: JoinPolicy
    names: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Plain JSON values that identify this join: its rule, and its inputs' names and sizes."""
        return {
            **self.rule.fingerprint,
            "names": list(self.names),
            "sizes": [list(part.size) for part in self.inputs],
        }


@dataclass(frozen=True)
class Read:
    """Node of a tree: the records of a `leaf` (a source with its sampler)."""

    leaf: Leaf


@dataclass(frozen=True)
class Apply:
    """Node of a tree: operations on the rows of another node.

    Attributes:
        input: node whose rows the operations get.
        operations: the operations, in order.
    """

    input: Node
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Joined:
    """Node of a tree: rows of other nodes, merged by a rule.

    Attributes:
        inputs: nodes whose rows are merged.
        rule: decides from which input the next row comes.
        names: names of the inputs for states and messages; empty if the inputs have only indices.
    """

    inputs: tuple[Node, ...]
    rule: JoinPolicy
    names: tuple[str, ...] = ()


Node: TypeAlias = Read | Apply | Joined
