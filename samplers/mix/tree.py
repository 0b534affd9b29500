"""A binary tree over the parts of a mix; the part at a position is found by descending the tree.

In: weights. Out: a tree for which the counts of parts stay close to their shares.

Each node divides the positions that reach it between two sides by rounding. The count of a part
differs from its share by at most `deviation`: half of the sum, over the nodes on the path from the
root (excluded) to the part (included), of the part's weight divided by the node's weight. So parts
of similar weight should be neighbours, and heavy parts should be near the root.
"""
# To find the best tree is slow. To join repeatedly the two subtrees that bear most nodes above
# themselves, as Huffman codes are made, comes near.

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import TypeAlias

Tree: TypeAlias = "int | tuple[Tree, Tree]"
"""The index of a part, or a pair of subtrees."""

LIMITS = (0.9, 0.95, 1.0, 1.05, 1.1, 1.2)
"""Upper limits of the deviation for which trees are tried; which is best depends on the weights."""


def best_tree(weights: Mapping[int, int]) -> Tree:
    """Return a tree over the parts of a mix: of six candidates, the one of smallest `deviation`.

    There is one candidate for each entry of `LIMITS`.

    Args:
        weights: the weight (above 0) of each part, by the index of the part; at least one.

    >>> best_tree({0: 70, 1: 20, 2: 10})
    (0, (1, 2))
    """
    trees = (_tree_for(weights, limit) for limit in LIMITS)
    return min(trees, key=lambda tree: deviation(tree, weights))


def _tree_for(weights: Mapping[int, int], limit: float) -> Tree:
    """Make a tree over the parts of a mix whose `deviation` is below a limit, if possible.

    The deviation is how much the number of draws of a part may differ from its share.

    Args:
        weights: the weight (above 0) of each part, by the index of the part.
        limit: the limit.
    """
    # Each node takes `1 / weight` of what a part bears above itself, `(2 * limit - 1) / weight`.
    total = sum(weights.values())
    shares = {part: weight / total for part, weight in weights.items()}
    heap: list[tuple[float, int, float, Tree]] = [
        ((1 - 2 * limit) / share, part, share, part) for part, share in shares.items()
    ]
    heapq.heapify(heap)
    for number in range(max(weights) + 1, max(weights) + len(weights)):
        one, other = heapq.heappop(heap), heapq.heappop(heap)
        share = one[2] + other[2]
        left, right = (one, other) if one[2] >= other[2] else (other, one)  # equal: as listed
        heapq.heappush(
            heap, (max(one[0], other[0]) + 1 / share, number, share, (left[3], right[3]))
        )
    return heap[0][3]


def deviation(tree: Tree, weights: Mapping[int, int]) -> float:
    """Return by how much the count of a part may differ from its share, at most, over all parts.

    The count is how often the part was drawn; its share is how often its weight calls for.

    Args:
        tree: a tree over the parts, from which the mix is drawn.
        weights: the weight of each part, by the index of the part.

    >>> deviation((0, 1), {0: 7, 1: 3})
    0.5
    """
    return max(
        (weight * above / 2 for weight, above in _above(_weighed(tree, weights), 0.0)), default=0.0
    )


Weighed: TypeAlias = "tuple[int, Weighed | None, Weighed | None]"
"""A subtree as its weight and its two sides, which are None for a part."""


def _weighed(tree: Tree, weights: Mapping[int, int]) -> Weighed:
    if isinstance(tree, int):
        return weights[tree], None, None
    left, right = _weighed(tree[0], weights), _weighed(tree[1], weights)
    return left[0] + right[0], left, right


def _above(tree: Weighed, above: float) -> Iterator[tuple[int, float]]:
    """Yield, for each part, its weight, and the sum of `1 / weight` over the nodes above it.

    The sum includes the part itself, but not the root of the whole tree.

    Args:
        tree: a subtree.
        above: the sum for the path from the root of the whole tree to the top of the subtree.
    """
    waiting = [(tree, above)]
    while waiting:
        (weight, left, right), above = waiting.pop()
        if left is None or right is None:
            yield weight, above
        else:
            waiting += ((left, above + 1 / left[0]), (right, above + 1 / right[0]))
