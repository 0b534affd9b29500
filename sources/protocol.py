"""In: any object that can answer "give me these records". Out: one way to read it, and its identity.

A source needs `__len__` and `__getitem__`. What it has besides is used where it is there:

| optional member | meaning |
|---|---|
| `__getitems__(keys)` | many records in one call, in the order of `keys`: called instead of `__getitem__` |
| `array_keys = True` | `__getitems__` takes the `int64` array itself; without it, it gets a list of Python ints |
| `checks_keys = True` | it raises `RecordKeyError` for a key outside itself; else the keys are checked before it is called |
| `answers_exactly = True` | with both: `__getitems__` gives a list, tuple or array of one record per key. Nobody looks |
| `fingerprint` | a small dict of plain JSON values that says which source this is (property or method) |
| `reads_ahead` | how many reads at a time help: False for none, as in memory; a number; True (default) for any. With a |
| | number, `__getitems__` is asked for shares of a large batch or for several small batches, so many calls at a time; |
| | with True, for a batch at once |
| `has_own_threads` | True: one call is divided among all processors by the source itself, so that workers are no faster |
| `reads_singly` | records are read one by one: readers share a batch, record by record. Default: it has no `__getitems__` |
| `announce(keys)` | is told, on any thread, keys of many records that will be read soon; returns at once. None: no need of it |
| `file_count` | in how many files the records lie, for `headrace.diagnose` |
| `records_together` | how many records are decompressed to read one, for `headrace.diagnose` |
| `lengths` | how long the arrays of records are, `int64[records]` or a dict of these by leaf, so that packing can be planned |
| `lengths_by(name)` | `int64[records]`: how long a field of the records is, or the whole number in it |
| `record_bytes` | `int64[records]`: the sizes of the records in their files |
| `file_place(key)` | where a record lies in which file, a `FilePlace` or None, for `headrace.trace` |
| `file_runs()` | the same for all records, as `FileRun`s, for predicates of `omit=` |
| `made_of(key)` | the records of other sources that a record is made of, `UsedRecord`s, for `headrace.trace` |
| `growing` | True: it may have more generations later. A generation is a numbered list of files; keys never change |
| `generation` | the number of the one that this object reads, from 0 |
| `generation_records(g)` | how many records any generation has that is written down |
| `newest_generation()` | looks for new files, writes a new generation down if there are some, and gives the last number |
| `at_generation(g)` | the same source with the records of generation `g` |
| `grows_within` | True: it is made of a source that grows, and keeps the records that this had when it was made |
| `complete` | False while a conversion writes its files: who has read all records waits for more. Asked before the last look |
| `generation_complete(g)` | False if a conversion was still writing files when generation `g` was written down |
| `generation_folder` | the folder in which generations are written down; None: this process cannot write to it |
| `columns` | the tree of arrays of a columnar source (one leading axis), so that a batch is one `np.take` |

The loader calls the reading methods from several threads at the same time. `__getitem__` and `__getitems__` may be coroutines,
`async def`: then all reads of a process run in one event loop. Such a source needs `__len__` and one of the two.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeGuard, TypeVar, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from ..common.messages import short_repr
from ..errors import SourceError
from .keys import check_keys

RecordT_co = TypeVar("RecordT_co", covariant=True)

Reader: TypeAlias = Callable[[npt.NDArray[np.int64]], Sequence[Any]]
"""Reads the records of an `int64[n]` array of keys, in that order."""


@runtime_checkable
class DataSource(Protocol[RecordT_co]):
    """Random access to records by key: an integer in `[0, len(source))`.

    Both methods are called by the loader, on several threads at the same time and in worker processes.

    >>> isinstance(["a", "b"], DataSource)
    True
    """

    def __len__(self) -> int:
        """The number of records; it never changes."""
        ...

    def __getitem__(self, key: int, /) -> RecordT_co:
        """The record of one key; the same key always gives the same record."""
        ...


class ByKey(Protocol):
    """Has records by key, or arrays by name."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...


class ManyByKey(Protocol):
    """Has many records by their keys, as coroutines may."""

    def __len__(self) -> int: ...

    def __getitems__(self, keys: Any, /) -> Any: ...


SourceLike: TypeAlias = ByKey | ManyByKey
"""What `as_source` makes a source of; for type checkers, who cannot tell a path from records."""


class TextColumn(Protocol):
    """One of a source's `columns` that holds strings or bytes. Batches keep these as objects.

    Unlike an array of objects, of which nobody knows whether its values are stacked as they are.
    """

    is_text: ClassVar[Literal[True]]
    dtype: np.dtype[Any]
    shape: tuple[int]
    nbytes: int

    def __len__(self) -> int: ...

    def rows_of(self, keys: npt.NDArray[np.int64], /) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Return an array of values, and the place of each key's value in it."""
        ...


def is_text_column(column: Any) -> TypeGuard[TextColumn]:
    """True if a column is a `TextColumn`.

    >>> is_text_column(np.array(["a"], object))
    False
    """
    return hasattr(column, "is_text")


def is_asynchronous(source: Any) -> bool:
    """True if a source's reads are coroutines.

    >>> is_asynchronous([1, 2])
    False
    """
    kind = type(source)
    return any(inspect.iscoroutinefunction(getattr(kind, name, None)) for name in ("__getitem__", "__getitems__"))


def reads_many(source: Any) -> bool:
    """True if a source has `__getitems__`; as Python does with such names, it is looked up on the type.

    Those of TFDS hand the keys to a source of their own, which is a mock in `tfds.testing.mock_data`.

    >>> reads_many([1, 2])
    False
    """
    kind = type(source)
    if not hasattr(kind, "__getitems__"):
        return False
    of_tfds = kind.__module__.startswith("tensorflow_datasets.") and hasattr(source, "data_source")
    return not of_tfds or hasattr(type(source.data_source), "__getitems__")


def reads_singly(source: Any) -> bool:
    """True if readers share a batch of a source's records, record by record.

    >>> reads_singly([1, 2])
    True
    """
    return bool(getattr(source, "reads_singly", not reads_many(source)))


def has_own_threads(source: Any) -> bool:
    """True if a source divides one call among all processors.

    >>> has_own_threads([1, 2])
    False
    """
    return bool(getattr(source, "has_own_threads", False))


def is_in_event_loop(source: Any) -> bool:
    """True if a source's records are read by coroutines, with its `read_in_loop`.

    >>> is_in_event_loop([1, 2])
    False
    """
    return bool(getattr(source, "in_event_loop", False))


def grows_within(source: Any) -> bool:
    """True if a source grows, or is made of one that does.

    >>> grows_within([1, 2])
    False
    """
    return bool(getattr(source, "growing", False) or getattr(source, "grows_within", False))


def is_hugging_face(data: Any) -> bool:
    """True of a `datasets.Dataset`; a subclass of it may read otherwise. Imports nothing."""
    kind = type(data)
    return kind.__module__ == "datasets.arrow_dataset" and kind.__name__ == "Dataset"


def reader_of(source: DataSource[Any], checked: bool = False) -> Reader:
    """Return the fastest way to read many records of `source`: `keys: int64[n] -> n records`.

    The source's `__getitems__` if it has one, else one `__getitem__` per key. The records come as a list, a tuple or an
    array, so that an iterator over them tells exactly how many are left.

    Args:
        source: has the records.
        checked: True if the caller passes keys through `key_check(source)` before it reads them.

    Raises:
        RecordKeyError: (when reading) a key lies outside `[0, len(source))`.
        SourceError: (when reading) `__getitems__` returned no sequence of records, or another number than it was asked
            for.

    >>> reader_of("a b c".split())(np.array([2, 0]))
    ['c', 'a']
    """
    many: Callable[[Any], Any] | None = getattr(source, "__getitems__", None) if reads_many(source) else None
    if many is not None and getattr(source, "answers_exactly", False):
        return cast(Reader, many)
    as_array = bool(getattr(source, "array_keys", False))

    def read(keys: npt.NDArray[np.int64]) -> Sequence[Any]:
        if many is None:
            return [source[key] for key in keys.tolist()]
        return all_of(many(keys if as_array else keys.tolist()), source, len(keys))

    check = None if checked else key_check(source)
    return read if check is None else lambda keys: read(check(keys))


def key_check(source: DataSource[Any]) -> Callable[[Any], npt.NDArray[np.int64]] | None:
    """Returns the function that checks keys for a source, as `check_keys` does; None if the source does that itself.

    A source that hands keys to a list would take -1 for its last record.

    >>> key_check([1, 2, 3])(np.array([2, 0]))
    array([2, 0])
    """
    length, name = len(source), type(source).__qualname__
    return None if getattr(source, "checks_keys", False) else lambda keys: check_keys(keys, length, name)


def all_of(records: Any, source: DataSource[Any], count: int) -> Sequence[Any]:
    """The records that `__getitems__` of a source returned for `count` keys, as a list, tuple or array, or a SourceError."""
    kind, method = type(records), type(source).__qualname__
    if kind is not list and kind is not tuple and (kind is not np.ndarray or not records.ndim):
        walkable = kind is not np.ndarray and (hasattr(kind, "__iter__") or hasattr(kind, "__getitem__"))
        if isinstance(records, Mapping) or not walkable:  # the items of a dict of columns are no records
            raise SourceError(
                f"{method}.__getitems__ returned an object of type {kind.__name__} for {count} keys; "
                "it must return a sequence of records, one per key, in their order"
            )
        records = list(records)
    if len(records) != count:
        raise SourceError(
            f"{method}.__getitems__ returned {len(records)} records for {count} keys; it must return one record per key, in "
            "their order"
        )
    return cast(Sequence[Any], records)


def fingerprint_of(source: DataSource[Any]) -> dict[str, Any]:
    """Returns plain JSON values that tell whether two sources hold the same records.

    The source's own `fingerprint` (a property, or a method without arguments), else its kind and its length, and what a
    Hugging Face dataset knows of its content.

    Raises:
        TypeError: the source's own `fingerprint` is no dict.

    >>> fingerprint_of([1, 2, 3])
    {'kind': 'list', 'records': 3}
    """
    own = getattr(source, "fingerprint", None)
    if own is None:
        kind = type(source)
        content = getattr(source, "_fingerprint", None)
        told = {"content": content[:32]} if isinstance(content, str) else {}
        return {"kind": kind.__qualname__, "records": len(source), **told}
    value = own() if callable(own) else own
    if not isinstance(value, dict):
        raise TypeError(
            f"{type(source).__qualname__}.fingerprint must be a dict of JSON values, not {short_repr(value)}"
        )
    return value
