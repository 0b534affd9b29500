"""Protocol of sources, and functions that read records from any source.

A source has `__len__` and `__getitem__`. It may also have the following members. The loader uses
those that it finds:

| optional member | meaning |
|---|---|
| `__getitems__(keys)` | return the records of many keys, in the order of `keys`; called instead of `__getitem__` |
| `array_keys = True` | `__getitems__` receives an `int64` array. Default False: it receives a list of Python ints |
| `checks_keys = True` | the source raises `RecordKeyError` for invalid keys. Default False: the loader checks all keys |
| `answers_exactly = True` | `__getitems__` returns a list, tuple or array with one record per key, which the loader does |
| | not check. Only together with `array_keys` and `checks_keys` |
| `fingerprint` | small dict of JSON values that identifies the source in checkpoints; a property or a method |
| `reads_ahead` | number of concurrent reads that make the source faster. False: none, as for records in memory. True |
| | (default): any number, and `__getitems__` receives whole batches. A number: `__getitems__` receives parts of a |
| | large batch, or several small batches, in at most so many concurrent calls |
| `has_own_threads` | True: the source divides one `__getitems__` call among all processors, so more workers do not help |
| `reads_singly` | True: the threads of the loader share a batch, and each reads single records. Default: True if the |
| | source has no `__getitems__` |
| `announce(keys)` | called, on any thread, with keys of records that will be read soon; must return at once. None: not used |
| `file_count` | number of files that contain the records; for `headrace.diagnose` |
| `records_together` | number of records that are decompressed to read one; for `headrace.diagnose` |
| `lengths` | lengths of the arrays in each record, `int64[records]`, or a dict of these by leaf; needed to plan packing |
| `lengths_by(name)` | return `int64[records]`: the length of a field of each record, or the integer in the field |
| `record_bytes` | `int64[records]`: size of each record in its file, in bytes |
| `file_place(key)` | return the file and row of a record, as a `FilePlace`, or None; for `headrace.trace` |
| `file_runs()` | yield the places of all records, as `FileRun`s; for predicates that are passed as `omit=` |
| `made_of(key)` | return the records of other sources that a record consists of, as `UsedRecord`s; for `headrace.trace` |
| `growing` | True: files may be added later. Each generation is a numbered list of files; keys of records never change |
| `generation` | number of the generation (list of files) that this object reads, from 0 |
| `generation_records(g)` | return the number of records in a recorded generation |
| `newest_generation()` | look for new files, record them as a new generation, and return the last generation's number |
| `at_generation(g)` | return the same source with the records of generation `g` |
| `grows_within` | True: the source wraps a growing source, and keeps the records that this had when it was wrapped |
| `complete` | False while a conversion still writes files: a reader that has read all records waits for more. The loader |
| | reads it before it looks for new files for the last time |
| `generation_complete(g)` | return False if a conversion was still writing files when generation `g` was recorded |
| `generation_folder` | folder in which generations are recorded; None if this process cannot write to it |
| `columns` | tree of arrays whose first axis counts records; the loader makes a batch of each array by one `np.take` |

The loader calls the reading methods from several threads at the same time. `__getitem__` and
`__getitems__` may be coroutines (`async def`). Then all reads of a process run in one event loop,
and the source needs `__len__` and one of these two methods.
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

        The loader checks that keys are in `[0, len(self))`; with `checks_keys`, this method must raise RecordKeyError.
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
"""Type of objects that `as_source` accepts. Type checkers cannot tell a path from a sequence of records."""


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

    def rows_of(self, keys: npt.NDArray[np.int64], /) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Return an array that contains the values of `keys`, and the position in it of each key's value."""
        ...


def is_text_column(column: Any) -> TypeGuard[TextColumn]:
    """Return True if a column is a `TextColumn`.

    >>> is_text_column(np.array(["a"], object))
    False
    """
    return hasattr(column, "is_text")


def is_asynchronous(source: Any) -> bool:
    """Return True if `__getitem__` or `__getitems__` of a source is a coroutine function (`async def`).

    >>> is_asynchronous([1, 2])
    False
    """
    kind = type(source)
    return any(inspect.iscoroutinefunction(getattr(kind, name, None)) for name in ("__getitem__", "__getitems__"))


def reads_many(source: Any) -> bool:
    """Return True if the type of a source has a `__getitems__` that works.

    A TFDS source passes the keys to a source of its own. Under `tfds.testing.mock_data` that is a mock
    without `__getitems__`; then the result is False.

    >>> reads_many([1, 2])
    False
    """
    kind = type(source)
    if not hasattr(kind, "__getitems__"):
        return False
    of_tfds = kind.__module__.startswith("tensorflow_datasets.") and hasattr(source, "data_source")
    return not of_tfds or hasattr(type(source.data_source), "__getitems__")


def reads_singly(source: Any) -> bool:
    """Return True if several readers share a batch of this source, each reading one record at a time.

    >>> reads_singly([1, 2])
    True
    """
    return bool(getattr(source, "reads_singly", not reads_many(source)))


def has_own_threads(source: Any) -> bool:
    """Return True if a source divides one `__getitems__` call among all processors itself.

    >>> has_own_threads([1, 2])
    False
    """
    return bool(getattr(source, "has_own_threads", False))


def is_in_event_loop(source: Any) -> bool:
    """Return True if the records are read by coroutines, through the source's `read_in_loop`.

    >>> is_in_event_loop([1, 2])
    False
    """
    return bool(getattr(source, "in_event_loop", False))


def grows_within(source: Any) -> bool:
    """Return True if a source grows, or wraps a source that grows.

    >>> grows_within([1, 2])
    False
    """
    return bool(getattr(source, "growing", False) or getattr(source, "grows_within", False))


def is_hugging_face(data: Any) -> bool:
    """Return True if `data` is a `datasets.Dataset`, but not if it is of a subclass. Imports nothing."""
    kind = type(data)
    return kind.__module__ == "datasets.arrow_dataset" and kind.__name__ == "Dataset"


def reader_of(source: DataSource[Any], checked: bool = False) -> Reader:
    """Return the fastest function that reads many records of a source: `int64[n]` keys -> `n` records.

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
    many: Callable[[Any], Any] | None = getattr(source, "__getitems__", None) if reads_many(source) else None
    if many is not None and getattr(source, "answers_exactly", False):
        return cast(Reader, many)
    as_array = bool(getattr(source, "array_keys", False))

    def read(keys: npt.NDArray[np.int64]) -> Sequence[Any]:
        if many is None:
            return [source[key] for key in keys.tolist()]
        return checked_records(many(keys if as_array else keys.tolist()), source, len(keys))

    check = None if checked else key_check(source)
    return read if check is None else lambda keys: read(check(keys))


def key_check(source: DataSource[Any]) -> Callable[[Any], npt.NDArray[np.int64]] | None:
    """Return a function that checks keys for a source and returns them as `int64[n]`; None if the source checks keys itself.

    The function raises RecordKeyError for a key outside `[0, len(source))`, and TypeError if keys are not integers.

    >>> key_check([1, 2, 3])(np.array([2, 0]))
    array([2, 0])
    """
    length, name = len(source), type(source).__qualname__
    return None if getattr(source, "checks_keys", False) else lambda keys: check_keys(keys, length, name)


def checked_records(records: Any, source: DataSource[Any], count: int) -> Sequence[Any]:
    """Return the result of `__getitems__` as a list, tuple or array, after a check of its length.

    Args:
        records: result of `__getitems__`.
        source: the source, for the message.
        count: number of keys that were passed.

    Raises:
        SourceError: `records` does not consist of `count` records.
    """
    kind, method = type(records), type(source).__qualname__
    if kind is not list and kind is not tuple and (kind is not np.ndarray or not records.ndim):
        walkable = kind is not np.ndarray and (hasattr(kind, "__iter__") or hasattr(kind, "__getitem__"))
        if isinstance(records, Mapping) or not walkable:  # the items of a dict of columns are no records
            raise SourceError(
                f"{method}.__getitems__ returned an object of type {kind.__name__} for {count} keys. It must "
                "return a sequence of records, one for each key, in the order of the keys."
            )
        records = list(records)
    if len(records) != count:
        raise SourceError(
            f"{method}.__getitems__ returned {len(records)} records for {count} keys. It must return one "
            "record for each key, in the order of the keys."
        )
    return cast(Sequence[Any], records)


def fingerprint_of(source: DataSource[Any]) -> dict[str, Any]:
    """Return JSON values that identify the records of a source.

    They are the source's own `fingerprint` (a property, or a method without arguments). Without one,
    they are the type and the number of records; for a Hugging Face dataset also a digest of its content.

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
            f"{type(source).__qualname__}.fingerprint is {short_repr(value)}. It must be a dict of JSON values."
        )
    return value
