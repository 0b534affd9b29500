"""Stage of a mix (positions with constant weights): a binary tree gives the part at each position.

Each node of the tree has some of the parts below it. A *visit* of a node is a position at which one
of these parts is drawn. In: visits of the root, i.e. positions counted from the start of the stage.
Out: the part, and its number of earlier visits.

Each node divides its visits between a left and a right side. Before its n-th visit, the left side
has been visited ⌊a·n + φ⌋ times, where a is the left side's fraction of the node's weight. φ is ½
plus the number of visits by which the left side was behind its share when the stage began. So the
counts of all nodes follow their shares over all stages. a and φ are integers in units of 2^-62, and
products are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from ..protocol import Int64s
from .tree import Tree, best_tree

BITS = 62
ONE = 1 << BITS
_HALF, _MASK, _LOW = 31, (1 << 31) - 1, (1 << 16) - 1


class Fork(NamedTuple):
    """A node of the tree by which a mix finds the part at a position.

    Some of the parts are below the node, on its left or right side. A visit of the node is a
    position at which one of these parts is drawn. Before the node's n-th visit, its left side was
    visited `n * ratio + phase` times, rounded down.

    Attributes:
        ratio: the left side's fraction of the node's weight, in units of 2^-62.
        phase: added to that product, in units of 2^-62.
        left: the left side, a node or the index of a part.
        right: the right side, a node or the index of a part.
    """

    ratio: int
    phase: int
    left: Branch
    right: Branch


Branch: TypeAlias = "Fork | int"
"""A fork, or the index of a part."""


Way: TypeAlias = "tuple[tuple[int, int, bool], ...]"
"""Path from the root to a part: ratio and phase of each node, and True if it goes left there."""


@dataclass(frozen=True)
class WeightStage:
    """A stage of a mix: a range of positions with constant weights.

    Attributes:
        start: first position of the stage.
        weights: weight of each part, in units of 2^-62; they sum to 1.
        counts: number of times that each part was drawn before `start`.
        shares: number of times that each part should have been drawn before `start` by its weights,
            as a fraction in units of 2^-62.
    """

    start: int
    weights: tuple[int, ...]
    counts: tuple[int, ...]
    shares: tuple[int, ...]

    @classmethod
    def first(cls, weights: tuple[int, ...]) -> WeightStage:
        """Return the stage that begins at position 0.

        Args:
            weights: the weight of each part, in units of 2^-62.
        """
        nothing = (0,) * len(weights)
        return cls(0, weights, nothing, nothing)

    def followed_by(self, start: int, weights: tuple[int, ...]) -> WeightStage:
        """Return the stage that follows this one: other weights from position `start` on."""
        length = start - self.start
        shares = tuple(share + weight * length for share, weight in zip(self.shares, self.weights))
        return WeightStage(start, weights, tuple(self.counts_at(start)), shares)

    @cached_property
    def root(self) -> Branch:
        """The tree by which the part at a position is found, of all parts of weight above 0."""
        drawn = {part: weight for part, weight in enumerate(self.weights) if weight}
        return self._branch(best_tree(drawn))[0]

    def _branch(self, tree: Tree) -> tuple[Branch, int, int]:
        """Convert a tree of part indices to a tree of `Fork` nodes.

        Returns:
            the root, or the index of the part if there is only one; the weight of the tree; and its
            lack when the stage begins: how often its parts should have been drawn so far, less how
            often they were drawn. Weight and lack are in units of 2^-62.
        """
        if isinstance(tree, int):
            return tree, self.weights[tree], self.shares[tree] - self.counts[tree] * ONE
        left, left_weight, left_lack = self._branch(tree[0])
        right, right_weight, right_lack = self._branch(tree[1])
        weight, lack = left_weight + right_weight, left_lack + right_lack
        ratio = (left_weight << BITS) // weight
        phase = ONE // 2 + left_lack - (ratio * lack >> BITS)
        return Fork(ratio, phase, left, right), weight, lack

    def place(self, visit: int) -> tuple[int, int]:
        """Return the index of the part at a position, and how often it was drawn before.

        Positions and draws are counted from the start of the stage (range of positions with
        constant weights).

        Args:
            visit: the position.
        """
        node = self.root
        while not isinstance(node, int):
            ratio, phase, left, right = node
            target = ratio * visit + phase
            before, after = target >> BITS, (target + ratio) >> BITS
            if not 0 <= phase < ONE:
                before, after = min(max(before, 0), visit), min(max(after, 0), visit + 1)
            if after > before:
                node, visit = left, before
            else:
                node, visit = right, visit - before
        return node, visit

    def counts_at(self, position: int) -> list[int]:
        """Return how many elements of each part are drawn before a global position."""
        counts = list(self.counts)
        for part, visits in _visits(self.root, position - self.start):
            counts[part] += visits
        return counts

    def by_part(self, start: int, stop: int) -> Iterator[tuple[int, int, Int64s]]:
        """Group a range of positions by part, and yield each part once.

        The range begins at `start` and ends before `stop`. It has at most 2^16 positions, all in
        this stage.

        Yields:
            the index of the part; the index of its first element; and `int64[n]`, the positions at
            which the part is drawn, counted from `start`.
        """
        for part, visits, places in _parted(
            self.root, range(start - self.start, stop - self.start), None
        ):
            yield part, self.counts[part] + visits.start, places

    @cached_property
    def _ways(self) -> dict[int, Way]:
        """Path from the root of the tree to each part that is drawn, by part index."""
        return dict(_ways_to_parts(self.root, ()))

    def count_at(self, part: int, position: int) -> int:
        """Return how many elements of one part are drawn before a global position.

        Args:
            part: index of the part.
            position: a position in this stage (range of positions with constant weights), or its
                end.
        """
        if not self.weights[part]:
            return self.counts[part]
        visits = position - self.start
        for ratio, phase, goes_left in self._ways[part]:
            left = min(max((ratio * visits + phase) >> BITS, 0), visits)
            visits = left if goes_left else visits - left
        return self.counts[part] + visits

    def position_of(self, part: int, index: int) -> int | None:
        """Return the position in this stage at which an element is drawn.

        Return None if the position cannot be computed directly and must be searched for.

        Args:
            part: index of a part with a weight above 0.
            index: index of the element in the part.
        """
        visits = index - self.counts[part]
        for ratio, phase, goes_left in reversed(self._ways[part]):
            if not 0 <= phase < ONE or ratio in (0, ONE):  # counts are clipped there
                return None
            # The visit of the node before which the counts of this side are the last that are not
            # yet larger than `visits`.
            visits = (
                -((phase - ((visits + 1) << BITS)) // ratio) - 1
                if goes_left
                else ((visits << BITS) + phase) // (ONE - ratio)
            )
        return self.start + visits


def _visits(branch: Branch, visits: int) -> Iterator[tuple[int, int]]:
    if isinstance(branch, int):
        yield branch, visits
        return
    left = min(max((branch.ratio * visits + branch.phase) >> BITS, 0), visits)
    yield from _visits(branch.left, left)
    yield from _visits(branch.right, visits - left)


def _parted(
    branch: Branch, visits: range, places: Int64s | None
) -> Iterator[tuple[int, range, Int64s]]:
    """Divide consecutive visits of a subtree among its parts.

    A visit of a subtree is a position at which one of its parts is drawn.

    Args:
        branch: the subtree, or the index of a part.
        visits: the numbers of the visits, counted from the start of the stage (range of positions
            with constant weights).
        places: `int64[n]`, a number for each visit; None for 0, 1, 2, …

    Yields:
        for each part: the index of the part; the numbers of its own visits, counted from the start
        of the stage; and their `places`.
    """
    if places is None:
        places = np.arange(len(visits))
    if isinstance(branch, int):
        yield branch, visits, places
        return
    left = _left_before(branch, visits)
    first, last = int(left[0]), int(left[-1])
    goes_left = left[1:] != left[:-1]
    if first < last:
        yield from _parted(branch.left, range(first, last), places.compress(goes_left))
    if last - first < len(visits):
        rest = range(visits.start - first, visits.stop - last)
        yield from _parted(branch.right, rest, places.compress(~goes_left))


def _left_before(node: Fork, visits: range) -> Int64s:
    """Return how often a node's left side was visited before each of `visits`, and after the last.

    A visit of a node is a position at which one of the parts below the node is drawn.

    Args:
        node: the node.
        visits: numbers of consecutive visits of the node, at most 2^16.

    Returns:
        `int64[len(visits) + 1]`.
    """
    # With at most 2^16 visits, 62 bits suffice.
    base = node.ratio * visits.start + node.phase
    whole, fraction = base >> BITS, base & (ONE - 1)
    number = np.arange(len(visits) + 1)
    low = number * (node.ratio & _LOW) + (fraction & _LOW)
    low >>= 16
    high = number * (node.ratio >> 16)
    high += low
    high += fraction >> 16
    high >>= BITS - 16
    high += whole
    return high if 0 <= node.phase < ONE else np.clip(high, 0, number + visits.start)


def _ways_to_parts(branch: Branch, way: Way) -> Iterator[tuple[int, Way]]:
    if isinstance(branch, int):
        yield branch, way
        return
    yield from _ways_to_parts(branch.left, (*way, (branch.ratio, branch.phase, True)))
    yield from _ways_to_parts(branch.right, (*way, (branch.ratio, branch.phase, False)))


class StageTables:
    """Trees of several stages of a mix as arrays, to compute the part of many positions at once.

    A stage is a range of positions with constant weights.

    Args:
        stages: the stages, sorted by their first positions.
    """

    def __init__(self, stages: tuple[WeightStage, ...]) -> None:
        rows: list[tuple[int, int, int, int]] = []  # a part is -1 - its number
        roots = [_append(stage.root, rows) for stage in stages]
        self._roots, self._starts = _int64(roots), _int64([stage.start for stage in stages])
        self._counts = _int64([stage.counts for stage in stages])
        table = rows or [(0, 0, 0, 0)]
        ratios, phases = [row[0] for row in table], [row[1] for row in table]
        self._ratio, self._high = _int64(ratios), _int64([ratio >> _HALF for ratio in ratios])
        self._low = _int64([ratio & _MASK for ratio in ratios])
        self._phase = _int64([phase % ONE for phase in phases])
        self._whole = _int64([phase // ONE for phase in phases])
        self._leans = bool(self._whole.any())
        self._sides = _int64([row[2:] for row in table]).ravel()  # right and left of each node

    def places(self, positions: Int64s) -> tuple[Int64s, Int64s]:
        """Return the index of the part at each position, and how often the part was drawn before.

        Both results are `int64[n]`. The second counts from position 0 on.
        """
        stage = np.searchsorted(self._starts, positions, side="right") - 1
        parts, visits = self._descended(self._roots[stage], positions - self._starts[stage])
        return parts, visits + self._counts[stage, parts]

    def _descended(self, nodes: Int64s, visits: Int64s) -> tuple[Int64s, Int64s]:
        """Follow each visit from its node down the tree to a part.

        A visit of a node is a position of the mix at which one of the parts below the node is
        drawn.

        Args:
            nodes: `int64[n]`, the index of the node at which each visit starts; -1 - p stands for
                the part with index p.
            visits: `int64[n]`, the number of the visit at this node, from 0.

        Returns:
            `int64[n]`, the index of the part of each visit; and `int64[n]`, how often the part was
            drawn before.
        """
        parts, numbers = -1 - nodes, visits.copy()
        going = np.flatnonzero(nodes >= 0)
        nodes, visits = nodes[going], visits[going]
        while going.size:
            nodes, visits = self._step(nodes, visits)
            arrived = nodes < 0
            if arrived.any():
                parts[going[arrived]], numbers[going[arrived]] = (
                    -1 - nodes[arrived],
                    visits[arrived],
                )
                further = np.flatnonzero(~arrived)
                going, nodes, visits = going[further], nodes[further], visits[further]
        return parts, numbers

    def _step(self, nodes: Int64s, visits: Int64s) -> tuple[Int64s, Int64s]:
        """Move visits one level down the binary tree that divides positions among parts of a mix.

        Each node of the tree has a left and a right child, and parts below them. A visit of a node
        is a position of the mix at which one of the parts below the node is drawn.

        Args:
            nodes: `int64[n]`, the index of the node of each visit.
            visits: `int64[n]`, the number of the visit at this node, from 0.

        Returns:
            `int64[n]`, for each visit, the child to which it belongs (-1 - p for the part with
            index p); and `int64[n]`, its number among the visits of this child.
        """
        # `ratio * visit + phase` is computed in two words: its whole part, and its fraction in
        # units of 2^-62.
        high, low = visits >> _HALF, visits & _MASK
        ratio_high, ratio_low = self._high[nodes], self._low[nodes]
        last = ratio_low * low + self._phase[nodes]
        middle = ratio_high * low + ratio_low * high + (last >> _HALF)
        before = ratio_high * high + (middle >> _HALF)
        fraction = ((middle & _MASK) << _HALF) | (last & _MASK)
        after = before + ((fraction + self._ratio[nodes]) >> BITS)
        if self._leans:
            whole = self._whole[nodes]
            before = np.clip(before + whole, 0, visits)
            after = np.clip(after + whole, 0, visits + 1)
        goes_left = after - before
        return self._sides[2 * nodes + goes_left], np.where(goes_left, before, visits - before)


def _append(branch: Branch, rows: list[tuple[int, int, int, int]]) -> int:
    """Append the nodes of a tree to `rows`, and return the index of the root.

    The result is -1 - p if the tree is only the part with index p.

    Args:
        branch: the tree, or the index of a part.
        rows: receives one entry per node: ratio and phase (see `Fork`), index of the right node,
            index of the left node.
    """
    if isinstance(branch, int):
        return -1 - branch
    left, right = _append(branch.left, rows), _append(branch.right, rows)
    rows.append((branch.ratio, branch.phase, right, left))
    return len(rows) - 1


def _int64(values: object) -> Int64s:
    return np.array(values, dtype=np.int64)
