"""Check the arguments of dataset methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..common.messages import a_kind_of, short_repr
from ..common.validation import array_of, warn, whole_number
from ..errors import SeedError
from ..samplers.protocol import ENDLESS
from .nodes.node import Node, Seeds, default_seed

F = TypeVar("F", bound=Callable[..., Any])

BELOW_2_32, BELOW_2_64 = (1 << 32) - 1, (1 << 64) - 1


def seed_of(method: str, seed: int | None, seeds: Seeds, high: int = BELOW_2_32) -> int:
    """Return `seed`; or, if it is None, a seed derived from the last `seed()` of the dataset.

    Args:
        method: name of the method, for the error message.
        seed: the seed that the user passed to the method, or None.
        seeds: the seeds that earlier `seed()` calls have set.
        high: largest allowed value of `seed`.

    Raises:
        SeedError: if `seed` is None and no seed was set before.
        TypeError: if `seed` is not an int.
        ValueError: if `seed` is outside `[0, high]`.
    """
    if seed is not None:
        return checked_seed(seed, high)
    found = default_seed(seeds)
    if found is None:
        raise SeedError(
            f"{method} needs a seed. Pass {method}(…, seed=0), or call dataset.seed(0) before it."
        )
    return found


def checked_seed(seed: Any, high: int = BELOW_2_64) -> int:
    """Return a seed after checking it.

    Args:
        seed: an int from 0 to `high`.
        high: largest allowed seed.

    Raises:
        TypeError: if the seed is not an int.
        ValueError: if the seed is outside `[0, high]`.
    """
    return whole_number("seed", seed, 0, high, "an int, seed=0 for example")


_OF_ENDLESS = {
    "repeat": "Call repeat only once",
    "concatenate": "Call repeat() of the concatenated dataset",
    "budget_batch": (
        "Call budget_batch before repeat, or make the batches in a stream: "
        "to_iter_dataset().budget_batch(…)"
    ),
    "pack": "Call pack before repeat, or pack the stream: to_iter_dataset().pack(…)",
}


def finite(method: str, length: int, what: str = "") -> int:
    """Return the length of a dataset, after checking that the dataset has an end.

    Args:
        method: name of the dataset method, for the error message.
        length: length of the dataset; `ENDLESS` if it has no end.
        what: beginning of the error message. Default: the name of the method.

    Raises:
        ValueError: if the dataset is endless.
    """
    if length >= ENDLESS:
        remedy = _OF_ENDLESS.get(method, f"Call {method} before repeat")
        raise ValueError(
            f"{what or method}: the dataset never ends, because of repeat() without num_epochs= or "
            "a mix with "
            f'when_exhausted="repeat"; or it has 2**63 - 1 elements or more. {remedy}, or pass a '
            'mix when_exhausted="first" or "all", or use a slice of the dataset, such as '
            "dataset[:1000]."
        )
    return length


def warn_of_exchange(node: Node, what: str) -> None:
    """Warn if a dataset is a slice of a shuffled dataset, so that each epoch has other elements.

    In later epochs, such a slice contains elements that another slice (for example for validation)
    contained in its first epoch. A slice with a step above 1 causes no warning.

    Args:
        node: node of the dataset.
        what: first words of the warning: what the user did.
    """
    if node.exchanges:
        warn(
            f"{what}: this is a slice of a shuffled dataset, which has another order in each "
            "epoch. In later epochs it has other elements, even those that another slice (for "
            "validation, say) had in the first. Slice before shuffle: dataset[:n].shuffle(seed=…); "
            "or pass shuffle(…, reseed_each_epoch=False); or use headrace.split."
        )


def not_empty(length: int) -> None:
    """Raise IndexError if a dataset is empty, i.e. if `length` is 0.

    All other datasets have an element at any index: an index past the end belongs to a later epoch.
    """
    if not length:
        raise IndexError(
            "the dataset is empty, so it has no element at any index. Check len(dataset) first."
        )


def indices_of(indices: Any, length: int) -> NDArray[np.int64]:
    """Convert indices to `int64[n]`.

    Args:
        indices: a list or one-dimensional array of integers. An empty list or array of any kind
            gives `int64[0]`.
        length: number of elements of the dataset.

    Raises:
        TypeError: if the indices are not integers, or not one-dimensional.
        IndexError: if an index does not fit 64 bits, or the dataset is empty.
    """
    array = array_of(indices)
    if array.size == 0:
        return np.empty(0, np.int64)
    not_empty(length)
    if array.dtype.kind in "iu" and array.ndim == 1 and int(array.max()) <= ENDLESS:
        return array.astype(np.int64)
    listed = (
        array.ravel().tolist()
        if isinstance(indices, np.ndarray) or array.ndim == 0
        else list(indices)
    )
    if array.ndim != 1 or not all(
        type(index) is not bool and isinstance(index, (int, np.integer)) for index in listed
    ):
        raise TypeError(
            f"indices {short_repr(indices)} are not a list of whole numbers. Pass a list of ints, "
            "such as [3, 1, 4]. For a mask of True and False, pass np.flatnonzero(mask)."
        )
    return np.array([checked_index(int(index)) for index in listed], dtype=np.int64)


def checked_index(index: int) -> int:
    """Return the index unchanged, after checking that it fits 64 bits.

    Raises:
        IndexError: if the index does not fit.
    """
    if -ENDLESS - 1 <= index <= ENDLESS:
        return index
    raise IndexError(
        f"index {short_repr(index)} is too large or too small: indices are from -2**63 to 2**63 - "
        "1. Pass an index of this range. The elements of the first epoch have the indices from 0 "
        "to len(dataset) - 1."
    )


_OF_WRONG_KIND = {
    False: "Pass what MapDataset.source(data) returns. Join streams before to_iter_dataset(), or "
    "with IterDataset.mix, "
    "zip or interleave",
    True: "Pass what MapDataset.source(data) or to_iter_dataset() returns",
}


class RandomAccess:
    """Base of datasets that have an element at any index, and can be converted to streams."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Plain values that identify the dataset in states."""
        raise NotImplementedError

    def to_iter_dataset(self) -> Any:
        """Return a stream (`IterDataset`) of the elements of this dataset's first epoch."""
        raise NotImplementedError


def as_named(method: str, datasets: Any, kind: type) -> tuple[list[Any], list[str] | None]:
    """Check the datasets that are passed to a method that joins datasets.

    If `kind` is a class of streams, each `MapDataset` is converted to a stream.

    Args:
        method: name of the method, for error messages.
        datasets: a list, or a dict by name.
        kind: class that each dataset must have, `MapDataset` or a class of streams.

    Returns:
        a list of the datasets; and a list of their names, or None if `datasets` is not a dict.

    Raises:
        TypeError: if `datasets` is neither a list nor a dict, a dataset does not have the class
            `kind`, or a name is not a string.
        ValueError: if there are no datasets.
    """
    names = list(datasets) if isinstance(datasets, Mapping) else None
    for name in names or ():
        if not isinstance(name, str):
            raise TypeError(
                f"{method}: the name {short_repr(name)} of a dataset is {a_kind_of(name)}, not a "
                "string. Pass a dict whose keys are strings."
            )
    listed = list(datasets.values()) if isinstance(datasets, Mapping) else datasets
    if not isinstance(listed, (list, tuple)):
        raise TypeError(
            f"{method}({short_repr(datasets)}): the argument is not a list of datasets. Pass a "
            "list, or a dict of datasets by name."
        )
    streams = not issubclass(kind, RandomAccess)
    if streams:
        listed = [
            each.to_iter_dataset() if isinstance(each, RandomAccess) else each for each in listed
        ]
    for number, dataset in enumerate(listed):
        if not isinstance(dataset, kind):
            label = names[number] if names else number
            raise TypeError(
                f"{method}: dataset {label} is {a_kind_of(dataset)}, not "
                f"{'an IterDataset' if streams else 'a MapDataset'}. {_OF_WRONG_KIND[streams]}."
            )
    if not listed:
        raise ValueError(
            f"{method} needs at least one dataset. Pass a list of one dataset or more."
        )
    return list(listed), names


class _Join(staticmethod):  # type: ignore[type-arg]  # it takes none at run time
    """Static method that joins the datasets passed to it, such as `MapDataset.concatenate([a, b])`.

    It can be called only through the class. Access through a dataset, such as `a.concatenate`,
    raises AttributeError, because users would expect that `a` is joined, too.
    """

    def __get__(self, own: Any, kind: Any = None) -> Any:
        if own is None:
            return super().__get__(own, kind)
        method, class_name = self.__func__.__name__, own._asked_as
        raise AttributeError(
            f"{method} joins the datasets of a list, and is not a method of a single dataset. "
            f"Write {class_name}.{method}([dataset, …])."
        )


def joins(method: F) -> F:
    """Make a static method of a function that joins the datasets passed to it.

    The method can be called only through its class. Access through an object raises AttributeError.
    """
    return _Join(method)  # type: ignore[return-value]
