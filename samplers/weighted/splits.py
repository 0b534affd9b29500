"""Split records into parts: at random, with equal shares of each class, or by groups kept together.

In: the number of records, the shares of the parts, a seed; labels of records. Out: the record keys
of each part, ascending.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import first_few, short_repr
from ...common.validation import whole_number
from ..protocol import Int64s
from .balanced import classes_of
from .draws import key_of, words

Floats = NDArray[np.float64]

# Of the seed.
_STREAM_OF_RECORDS, _STREAM_OF_CLASSES, _STREAM_OF_GROUPS, _STREAM_OF_REMAINDERS = (5, 6, 7, 8)


def shares_of(parts: Sequence[Any], names: Sequence[str], count: int) -> Floats:
    """Convert a user's shares to numbers of records of each part, not rounded.

    Args:
        parts: a fraction for each part, all of which sum to 1; or a number of records for each
            part, all of which sum to `count`.
        names: names of the parts, for messages.
        count: number of all records.

    Returns:
        `float64[parts]`.

    Raises:
        TypeError: if a share is not a number.
        ValueError: if there are no parts, a share is not above 0, or the shares sum neither to 1
            nor to `count`.

    >>> shares_of([0.9, 0.1], ["train", "test"], 50).tolist()
    [45.0, 5.0]
    """
    for name, part in zip(names, parts):
        if isinstance(part, bool) or not isinstance(part, (int, float, np.number)):
            raise TypeError(
                f"the share of {short_repr(name)} must be a number, but it is {short_repr(part)}. "
                "Pass a fraction of all records, such as 0.1, or a number of records."
            )
        if not (math.isfinite(part) and part > 0):
            raise ValueError(
                f"the share of {short_repr(name)} must be a finite number above 0, but it is "
                f"{short_repr(part)}. Pass a fraction of all records, such as 0.1, or a number of "
                "records."
            )
    total = math.fsum(parts)
    if abs(total - 1) > 1e-6 and total != count:
        raise ValueError(
            f"the shares {first_few(list(parts), 8)} sum to {total:.12g}. Pass fractions that sum "
            f"to 1, or numbers of records that sum to {count}. For records that you do not need, "
            "add a part that you do not use."
        )
    return np.array([float(part) for part in parts]) * (count / total)


def split_keys(
    count: int,
    shares: Floats,
    names: Sequence[str],
    seed: int,
    stratify: Any = None,
    groups: Any = None,
    fill: bool = False,
) -> list[Int64s]:
    """Return the record keys of each part, ascending; each record is in exactly one part.

    Args:
        count: number of records.
        shares: number of records of each part, not rounded; they sum to `count`.
        names: names of the parts, for messages.
        seed: an int in `[0, 2^32)`.
        stratify: the class of each record; each part gets its share of each class, rounded to one
            record; with `groups`, only roughly. None (default): no classes.
        groups: the group of each record; records of one group are kept in one part. Without
            `stratify`, a part has its share to within one group. None (default): no groups.
        fill: True: a part that would be empty gets a record of a part with several records; with
            `groups`, it gets the smallest group of a part with several groups.

    Raises:
        ValueError: if a part would be empty, `seed` is outside its range, or there is not one label
            for each record.
        TypeError: if labels are neither ints nor strings, or `seed` is not an int.
    """
    seed = whole_number("seed", seed, 0, (1 << 32) - 1, "an int in [0, 2^32), seed=0 for example")
    classes = None if stratify is None else _labels("stratify", stratify, count)
    together = None if groups is None else _labels("groups", groups, count)
    if together is not None:
        of_group = (
            _whole_groups(together, shares, seed)
            if classes is None
            else _groups_of_classes(together, classes, shares, seed)
        )
        if fill:
            _fill(of_group, np.bincount(together), len(shares))
        part_of = of_group[together]
    else:
        part_of = _by_class(np.zeros(count, np.int64) if classes is None else classes, shares, seed)
        if fill:
            _fill(part_of, np.ones(count, np.int64), len(shares))
    keys = np.argsort(part_of, kind="stable")
    sizes = np.bincount(part_of, minlength=len(shares))
    for name, size, share in zip(names, sizes.tolist(), shares.tolist()):
        if size == 0:
            whole = ", and a group is not divided" if groups is not None else ""
            raise ValueError(
                f"part {short_repr(name)} would be empty: its share is {share:.3g} of {count} "
                f"records{whole}. Give it a larger share, or add its share to another part."
            )
    return np.split(keys, np.cumsum(sizes)[:-1])


def random_order(seed: int, count: int) -> Int64s:
    """Return all numbers below `count`, `int64[count]`, in a random order.

    `seed` and `count` alone decide the order.
    """
    return _shuffled(seed, count, _STREAM_OF_RECORDS)


def _shuffled(seed: int, count: int, stream: int) -> Int64s:
    return np.argsort(words(key_of(seed, stream), np.arange(count)), kind="stable")


def _labels(name: str, labels: Any, count: int) -> Int64s:
    numbers = classes_of(labels, name)[1]
    if len(numbers) != count:
        raise ValueError(
            f"{name}= has {len(numbers)} labels, but there are {count} records. Pass one label for "
            "each record."
        )
    return numbers


def _by_class(classes: Int64s, shares: Floats, seed: int) -> Int64s:
    """Assign each record to a part so that each part gets its share of each class.

    Args:
        classes: `int64[records]`, the index of the class of each record.
        shares: the share of each part, in any unit.
        seed: seed of the random choices.

    Returns:
        `int64[records]`, the index of the part of each record.
    """
    # Remainders go to the parts that lack most so far. The lacks begin at random, so that a record
    # of a small class is as likely in a part as any other.
    sizes = np.bincount(classes)
    fractions = shares / shares.sum()
    counts = np.empty((len(sizes), len(shares)), dtype=np.int64)
    lacking = np.zeros(len(shares))
    if len(sizes) > 1:
        lacking = _lacking_after(
            int(words(key_of(seed, _STREAM_OF_REMAINDERS), np.zeros(1, np.int64))[0]) % 1000,
            fractions,
        )
    for number in _shuffled(seed, len(sizes), _STREAM_OF_CLASSES).tolist():
        share = sizes[number] * fractions
        whole = np.floor(share + 1e-9).astype(np.int64)
        lacking += share - whole
        most = np.argsort(-lacking - 1e9 * (share - whole > 1e-9), kind="stable")[
            : int(sizes[number] - whole.sum())
        ]
        whole[most] += 1
        lacking[most] -= 1
        counts[number] = whole
    order = random_order(seed, len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    part_of = np.empty(len(classes), dtype=np.int64)
    part_of[order] = np.repeat(np.tile(np.arange(len(shares)), len(sizes)), counts.ravel())
    return part_of


def _lacking_after(records: int, fractions: Floats) -> Floats:
    """Return by how many records each part is below its share after some records were assigned.

    The records are assigned one by one, each to the part that is then furthest below its share.

    Args:
        records: number of records to assign.
        fractions: share of each part; they sum to 1.
    """
    lacking = np.zeros(len(fractions))
    for _ in range(records):
        lacking += fractions
        lacking[lacking.argmax()] -= 1
    return lacking


def _whole_groups(groups: Int64s, shares: Floats, seed: int) -> Int64s:
    """Assign each group, in random order, to a part.

    The groups are put in a line, and the line is cut into parts by their shares. A group belongs to
    the part in which the group's middle lies.

    Args:
        groups: `int64[records]`, the index of the group of each record.
        shares: number of records of each part, not rounded.
        seed: seed of the random order.

    Returns:
        `int64[groups]`, the index of the part of each group.
    """
    sizes = np.bincount(groups)
    order = _shuffled(seed, len(sizes), _STREAM_OF_GROUPS)
    ends = np.cumsum(sizes[order])
    part_of = np.empty(len(sizes), dtype=np.int64)
    part_of[order] = np.searchsorted(np.cumsum(shares)[:-1], ends - sizes[order] / 2, side="right")
    return part_of


def _fill(part_of: Int64s, sizes: Int64s, parts: int) -> None:
    """Move a group into each empty part: the smallest group of all parts with several groups.

    If no part has several groups, the empty part stays empty.

    Args:
        part_of: index of the part of each group; changed in place.
        sizes: number of records of each group.
        parts: number of parts.
    """
    for empty in np.flatnonzero(np.bincount(part_of, minlength=parts) == 0).tolist():
        spare = np.flatnonzero(np.bincount(part_of, minlength=parts)[part_of] > 1)
        if len(spare):
            part_of[spare[sizes[spare].argmin()]] = empty


def _groups_of_classes(groups: Int64s, classes: Int64s, shares: Floats, seed: int) -> Int64s:
    """Assign each group to a part of the split, large groups first.

    A group goes to the part that lacks most of the group's classes, relative to the part's share.

    Args:
        groups: `int64[records]`, the index of the group of each record.
        classes: `int64[records]`, the index of the class of each record.
        shares: the share of each part, in any unit.
        seed: seed that decides between groups of equal size.

    Returns:
        `int64[groups]`, the index of the part of each group.
    """
    # A group goes to the part that lacks most of the group's classes, relative to its share.
    sizes, of_class = np.bincount(groups), np.bincount(classes)
    fractions = shares / shares.sum()
    missing = np.ones((len(shares), len(of_class)))  # of the share of each part
    pairs, members = np.unique(groups * len(of_class) + classes, return_counts=True)
    firsts = np.searchsorted(pairs, np.arange(len(sizes) + 1) * len(of_class))
    order = _shuffled(seed, len(sizes), _STREAM_OF_GROUPS)
    part_of = np.empty(len(sizes), dtype=np.int64)
    for group in order[np.argsort(-sizes[order], kind="stable")].tolist():
        some = slice(firsts[group], firsts[group + 1])
        inside = pairs[some] % len(of_class)
        portion = members[some] / of_class[inside]
        part = int((missing[:, inside] @ portion).argmax())
        missing[part, inside] -= portion / fractions[part]
        part_of[group] = part
    return part_of
