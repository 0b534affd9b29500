"""Split, fold and sample the records of a source or dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..common.messages import a_kind_of, short_repr
from ..common.validation import whole_number
from ..samplers.weighted.splits import random_order, shares_of, split_keys
from ..sources import Subset, as_source
from ..sources.protocol import SourceLike
from .arguments import finite
from .map_dataset import MapDataset


class Fold(NamedTuple):
    """One fold of a cross-validation.

    Attributes:
        train: all records that are not in `test`.
        test: the records of the fold.
    """

    train: Any
    test: Any


@overload
def split(
    data: SourceLike,
    parts: Mapping[str, float],
    *,
    seed: int = 0,
    stratify: Any = None,
    groups: Any = None,
) -> dict[str, Any]: ...


@overload
def split(
    data: SourceLike,
    parts: Sequence[float],
    *,
    seed: int = 0,
    stratify: Any = None,
    groups: Any = None,
) -> list[Any]: ...


def split(data: Any, parts: Any, *, seed: int = 0, stratify: Any = None, groups: Any = None) -> Any:
    """Divide a source or a `MapDataset` into random parts; each record is in exactly one part.

    The same arguments give the same parts in every process. A part keeps the order of the source;
    shuffle it afterwards.

    Args:
        data: a source, or anything that `DataLoader` accepts as a source; or a `MapDataset`. Split
            it before `shuffle`, because a shuffled dataset has other elements at an index in each
            epoch.
        parts: the size of each part, in a dict by name or in a list: fractions that sum to 1, or
            numbers of records that sum to the number of all records.
        seed: an int in `[0, 2^32)`, default 0.
        stratify: class of each record, ints or strings: each part gets its share of every class,
            rounded to one record. Default: classes do not matter.
        groups: group of each record, such as the speaker or the patient. A group is never divided,
            so the size of a part may differ from its share by up to a group. With `stratify`, the
            parts get about their share of every class. Default: no groups.

    Returns:
        a dict or a list, like `parts`, with a `Subset` or a `MapDataset` for each part.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if the sizes do not sum to 1 or to the number of records, or one is not above 0;
            if there are no records or no parts; if a part would be empty; if `data` is endless; if
            `seed` is outside its range; or if `stratify` or `groups` does not have one value for
            each record.

    >>> from headrace import split
    >>> parts = split(range(10), {"train": 0.8, "test": 0.2}, seed=0)
    >>> sizes = {name: len(part) for name, part in parts.items()}
    >>> sizes, sorted([*parts["train"], *parts["test"]]) == list(range(10))
    ({'train': 8, 'test': 2}, True)
    >>> labels = ["rare"] * 2 + ["common"] * 8
    >>> train, test = split(labels, [0.5, 0.5], stratify=labels)
    >>> list(test)
    ['rare', 'common', 'common', 'common', 'common']
    """
    if not isinstance(parts, (Mapping, list, tuple)):
        raise TypeError(
            f"parts={short_repr(parts)} is {a_kind_of(parts)}. Pass a dict with a share for each "
            "name, or a list of shares."
        )
    if not parts:
        raise ValueError('parts= is empty. Pass shares, such as {"train": 0.9, "test": 0.1}.')
    names = (
        list(parts) if isinstance(parts, Mapping) else [str(number) for number in range(len(parts))]
    )
    whole = _divisible("split", data)
    shares = shares_of(
        list(parts.values()) if isinstance(parts, Mapping) else list(parts), names, len(whole)
    )
    made = [
        _some(whole, keys) for keys in split_keys(len(whole), shares, names, seed, stratify, groups)
    ]
    return dict(zip(names, made)) if isinstance(parts, Mapping) else made


def kfold(
    data: SourceLike, k: int, *, seed: int = 0, stratify: Any = None, groups: Any = None
) -> list[Fold]:
    """Divide records into k folds for cross-validation; each fold is the test set once.

    Args:
        data: a source, anything that `DataLoader` accepts as a source, or a `MapDataset`.
        k: number of folds, at least 2.
        seed: an int in `[0, 2^32)`, default 0.
        stratify: class of each record: each fold gets an equal share of every class, rounded to one
            record; with `groups`, only roughly. Default: classes do not matter.
        groups: group of each record; a group is never divided. Default: no groups.

    Returns:
        a list with a `Fold(train, test)` for each fold.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if there are fewer records or groups than folds; if `data` has no records or is
            endless; if `k` or `seed` is outside its range; or if `stratify` or `groups` does not
            have one value for each record.

    >>> from headrace import kfold
    >>> [(len(fold.train), len(fold.test)) for fold in kfold(range(10), 3)]
    [(6, 4), (7, 3), (7, 3)]
    """
    k = whole_number("k", k, 2, None, "the number of folds")
    whole = _divisible("kfold", data)
    count = len(whole)
    names = [f"fold {number}" for number in range(k)]
    if k > count:
        raise ValueError(
            f"k={k} is more than the {count} records, so some folds would be empty. Pass a smaller "
            "k of at least 2, or a source of more records."
        )
    folds = split_keys(count, np.full(k, count / k), names, seed, stratify, groups, fill=True)
    made = []
    for fold in folds:
        outside = np.ones(count, dtype=bool)
        outside[fold] = False
        made.append(Fold(_some(whole, np.flatnonzero(outside)), _some(whole, fold)))
    return made


def sample(data: SourceLike, n: int, seed: int = 0) -> Any:
    """Draw n random records, each at most once, in random order, e.g. for a trial run.

    Args:
        data: a source, anything that `DataLoader` accepts as a source, or a `MapDataset`.
        n: number of records, at least 1. All records if there are fewer.
        seed: an int in `[0, 2^32)`, default 0.

    Returns:
        a `Subset`, or a `MapDataset` if `data` is one.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if `n` or `seed` is outside its range, `data` has no records or is endless.

    >>> from headrace import sample
    >>> list(sample(range(1000), 3, seed=1))
    [623, 626, 464]
    """
    n = whole_number("n", n, 1, None, "the number of records that you want")
    seed = whole_number("seed", seed, 0, (1 << 32) - 1, "an int in [0, 2^32), seed=0 for example")
    whole = _divisible("sample", data)
    return _some(whole, random_order(seed, len(whole))[:n])


def _divisible(function: str, data: Any) -> Any:
    whole = data if isinstance(data, MapDataset) else as_source(data)
    if not finite(function, len(whole)):
        raise ValueError(f"{function}: the source is empty. Pass a source with records.")
    return whole


def _some(whole: Any, keys: NDArray[np.int64]) -> Any:
    return whole.select(keys) if isinstance(whole, MapDataset) else Subset(whole, keys)
