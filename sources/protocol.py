"""Protocol of sources, and functions that read records from any source.

A source has `__len__` and `__getitem__`. It may also have:

| optional member | meaning |
|---|---|
| `__getitems__(keys)` | return the records of many keys, in their order; else `__getitem__` |
| `fingerprint` | small dict of JSON values for checkpoints; a property or a method |
| `facts` | how it is read, and what is known about its records: a `SourceFacts` (`facts.py`) |

The loader calls the reading methods from several threads at the same time. `__getitem__` and
`__getitems__` may be coroutines (`async def`). Then all reads of a process run in one event loop,
and the source needs `__len__` and one of these two methods.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeAlias,
    TypeGuard,
    TypeVar,
    cast,
    runtime_checkable,
)

import numpy as np
import numpy.typing as npt

from ..common.messages import short_repr
from ..errors import SourceError
from .facts import facts_of, reads_many
from .keys import check_keys

RecordT_co = TypeVar("RecordT_co", covariant=True)

Reader: TypeAlias = Callable[[npt.NDArray[np.int64]], Sequence[Any]]
"""Function that takes keys, `int64[n]`, and returns their `n` records in the same order."""


@runtime_checkable
class DataSource(Protocol[RecordT_co]):
    """Source with random access to records. A key is an integer in `[0, len(source))`.

    The loader calls both methods from several threads at the same time, and in worker processes.

    >>> isinstance(["a", "b"], DataSource)
    True
    """

    def __len__(self) -> int:
        """Return the number of records. It must never change."""
        ...

    def __getitem__(self, key: int, /) -> RecordT_co:
        """Return the record of a key. The same key must always return the same record.

        The loader checks that keys are in `[0, len(self))`. If the source's facts have
        `checks_keys`, this method must raise RecordKeyError for other keys.
        """
        ...


class ByKey(Protocol):
    """Protocol of objects with `__len__` and `__getitem__`: records by key, or arrays by name."""

    def __len__(self) -> int:
        """Return the number of records or of names."""
        ...

    def __getitem__(self, key: Any, /) -> Any:
        """Return the record of a key, or the array of a name."""
        ...


class ManyByKey(Protocol):
    """Protocol of objects with `__len__` and `__getitems__`, which may be a coroutine."""

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    def __getitems__(self, keys: Any, /) -> Any:
        """Return the records of a list of keys, in order."""
        ...


SourceLike: TypeAlias = ByKey | ManyByKey
"""Type of objects that `as_source` accepts.

Type checkers cannot tell a path from a sequence of records.
"""


class TextColumn(Protocol):
    """Protocol of a column of strings or bytes among a source's `columns`.

    Batches keep the values of such a column as Python objects. The values of an ordinary array of
    objects may be stacked instead.
    """

    is_text: ClassVar[Literal[True]]
    dtype: np.dtype[Any]
    shape: tuple[int]
    nbytes: int

    def __len__(self) -> int: ...

    def rows_of(
        self, keys: npt.NDArray[np.int64], /
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Return an array with the values of `keys`, and the position of each key's value."""
        ...


def is_text_column(column: Any) -> TypeGuard[TextColumn]:
    """Return True if a column is a `TextColumn`.

    >>> is_text_column(np.array(["a"], object))
    False
    """
    return hasattr(column, "is_text")


def is_asynchronous(source: Any) -> bool:
    """Return True if `__getitem__` or `__getitems__` of a source is `async def`.

    >>> is_asynchronous([1, 2])
    False
    """
    return any(is_coroutine(source, method) for method in ("__getitem__", "__getitems__"))


def is_coroutine(source: Any, method: str) -> bool:
    """Return True if the class of `source` has a method of this name that is `async def`."""
    return inspect.iscoroutinefunction(getattr(type(source), method, None))


def is_hugging_face(data: Any) -> bool:
    """Return True if `data` is a `datasets.Dataset`, but not if it is of a subclass.

    Imports nothing.
    """
    kind = type(data)
    return kind.__module__ == "datasets.arrow_dataset" and kind.__name__ == "Dataset"


def reader_of(source: DataSource[Any], checked: bool = False) -> Reader:
    """Return the fastest function to read records of a source: `int64[n]` keys -> `n` records.

    It uses `__getitems__` if the source has it, otherwise one `__getitem__` per key. It returns the
    records as a list, a tuple or an array.

    Args:
        source: source of the records.
        checked: True: the caller checks all keys with `key_check(source)` before each read.

    Raises:
        RecordKeyError: when reading: a key lies outside `[0, len(source))`.
        SourceError: when reading: `__getitems__` did not return a sequence with one record per key.

    >>> reader_of("a b c".split())(np.array([2, 0]))
    ['c', 'a']
    """
    facts, many = (
        facts_of(source),
        cast(ManyByKey, source).__getitems__ if reads_many(source) else None,
    )
    if many is not None and facts.answers_exactly:
        return cast(Reader, many)
    as_array = facts.array_keys

    def read(keys: npt.NDArray[np.int64]) -> Sequence[Any]:
        if many is None:
            return [source[key] for key in keys.tolist()]
        return checked_records(many(keys if as_array else keys.tolist()), source, len(keys))

    check = None if checked else key_check(source)
    return read if check is None else lambda keys: read(check(keys))


def key_check(source: DataSource[Any]) -> Callable[[Any], npt.NDArray[np.int64]] | None:
    """Return a function that checks keys for a source and returns them as `int64[n]`.

    Return None if the source checks keys itself.

    The function raises RecordKeyError for a key outside `[0, len(source))`, and TypeError if keys
    are not integers.

    >>> key_check([1, 2, 3])(np.array([2, 0]))
    array([2, 0])
    """
    length, name = len(source), type(source).__qualname__
    return None if facts_of(source).checks_keys else lambda keys: check_keys(keys, length, name)


def checked_records(records: Any, source: DataSource[Any], count: int) -> Sequence[Any]:
    """Return the result of `__getitems__` as a list, tuple or array, after a check of its length.

    Args:
        records: result of `__getitems__`.
        source: the source, for the message.
        count: number of keys that were passed.

    Raises:
        SourceError: `records` does not consist of `count` records.
    """
    kind, source_class = type(records), type(source).__qualname__
    if kind is not list and kind is not tuple and (kind is not np.ndarray or not records.ndim):
        walkable = kind is not np.ndarray and (
            isinstance(records, Iterable) or hasattr(kind, "__getitem__")
        )
        # the items of a dict of columns are no records
        if isinstance(records, Mapping) or not walkable:
            raise SourceError(
                f"{source_class}.__getitems__ returned an object of type {kind.__name__} for "
                f"{count} keys. It must return a sequence of records, one for each key, in the "
                "order of the keys."
            )
        records = list(records)
    if len(records) != count:
        raise SourceError(
            f"{source_class}.__getitems__ returned {len(records)} records for {count} keys. It "
            "must return one record for each key, in the order of the keys."
        )
    return cast(Sequence[Any], records)


def fingerprint_of(source: DataSource[Any]) -> dict[str, Any]:
    """Return JSON values that identify the records of a source.

    They are the source's own `fingerprint` (a property, or a method without arguments). Without
    one, they are the type and the number of records; for a Hugging Face dataset also a digest of
    its content.

    Raises:
        TypeError: the source's own `fingerprint` is not a dict.

    >>> fingerprint_of([1, 2, 3])
    {'kind': 'list', 'records': 3}
    """
    own = getattr(source, "fingerprint", None)
    if own is None:
        kind = type(source)
        content = getattr(source, "_fingerprint", None)
        own_digest = {"content": content[:32]} if isinstance(content, str) else {}
        return {"kind": kind.__qualname__, "records": len(source), **own_digest}
    value = own() if callable(own) else own
    if not isinstance(value, dict):
        raise TypeError(
            f"{type(source).__qualname__}.fingerprint is {short_repr(value)}. It must be a dict of "
            "JSON values, or a method that returns one."
        )
    return value
