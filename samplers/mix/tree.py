"""A binary tree over the parts of a mix, so that a position finds its part in as many steps as the tree is deep.

In: weights. Out: a tree whose roundings move the count of a part little from its share.

At each node the visits are shared out between two sides by rounding. The count of a part then differs from its share by at
most `deviation`: half of the sum, over the nodes on its way, of its weight divided by theirs. So parts of like weight
should stand side by side, and heavy ones near the root. To find the best tree is slow. To join again and again the two
subtrees that bear most nodes above themselves, as Huffman's codes are made, comes near.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import TypeAlias

Tree: TypeAlias = "int | tuple[Tree, Tree]"
"""A part, or two subtrees."""

LIMITS = (0.9, 0.95, 1.0, 1.05, 1.1, 1.2)
"""Deviations that trees are made for; which of them gives the best tree depends on the weights."""


def best_tree(weights: Mapping[int, int]) -> Tree:
    """The tree with the least deviation among some that are soon made.

    Args:
        weights: of each part, positive.

    >>> best_tree({0: 70, 1: 20, 2: 10})
    (0, (1, 2))
    """
    trees = (_tree_for(weights, limit) for limit in LIMITS)
    return min(trees, key=lambda tree: deviation(tree, weights))


def _tree_for(weights: Mapping[int, int], limit: float) -> Tree:
    """A tree in which each node takes `1 / weight` of what a part bears above itself, `(2 * limit - 1) / weight`."""
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
        heapq.heappush(heap, (max(one[0], other[0]) + 1 / share, number, share, (left[3], right[3])))
    return heap[0][3]


def weight_of(tree: Tree, weights: Mapping[int, int]) -> int:
    """The weight of all parts of a tree together."""
    if isinstance(tree, int):
        return weights[tree]
    return weight_of(tree[0], weights) + weight_of(tree[1], weights)


def deviation(tree: Tree, weights: Mapping[int, int]) -> float:
    """The largest difference between the count of a part and its share.

    >>> deviation((0, 1), {0: 7, 1: 3})
    0.5
    """
    return max((weights[part] * above / 2 for part, above in _above(tree, weights, 0.0)), default=0.0)


def _above(tree: Tree, weights: Mapping[int, int], above: float) -> Iterator[tuple[int, float]]:
    """Each part, and the sum of the inverse weights of the nodes on its way, the root left out."""
    if isinstance(tree, int):
        yield tree, above
        return
    for side in tree:
        yield from _above(side, weights, above + 1 / weight_of(side, weights))
