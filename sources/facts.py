"""Facts about a source: how it is read, and what is known about its records without reading them.

In: any source. Out: its `SourceFacts`. Only the function `facts_of` checks whether a source has
facts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..common.costs import Cost
from ..common.messages import a_kind_of
from .provenance import FilePlace, FileRun, UsedRecord

Int64s = npt.NDArray[np.int64]


class Generations(Protocol):
    """Protocol of sources with generations.

    These are numbered versions of the source's list of files (or other stores of records).

    A later generation has the records of all earlier ones, under the same keys, and more.
    """

    @property
    def growing(self) -> bool:
        """True if later generations (versions with more records) may follow."""

    @property
    def generation(self) -> int:
        """Number of the generation that this object reads, from 0."""

    @property
    def complete(self) -> bool:
        """False while a program is writing records.

        Then a run that has read all records waits for more.
        """

    @property
    def generation_folder(self) -> str | None:
        """Folder in which generations are recorded.

        It is None if it does not exist, or this process cannot write to it.
        """

    def generation_records(self, generation: int, /) -> int:
        """Return the number of records of a stored generation."""

    def generation_complete(self, generation: int, /) -> bool:
        """Return True unless a program was still writing records when a generation was stored."""

    def newest_generation(self) -> int:
        """Look for new records; if there are any, store them as a new generation.

        Return the number of the last generation.
        """

    def at_generation(self, generation: int, /) -> Any:
        """Return the same source with the records of another generation."""


def _unknown(*_: Any) -> Any:
    return None


def _same(keys: Int64s) -> Any:
    return keys


class SourceFacts(NamedTuple):
    """Facts about a source.

    A source has them as its attribute or property `facts`; all of them have defaults.

    A fact that takes time to find is a function, which is called when it is needed. The loader
    calls functions from several threads at the same time.

    Attributes:
        array_keys: True: `__getitems__` receives an `int64` array. False: it receives a list of
            ints.
        checks_keys: True: the source raises `RecordKeyError` for a key that it does not have.
            False: the loader checks all keys.
        answers_exactly: True: `__getitems__` returns a list, tuple or array with one record for
            each key. The loader does not check this. Only together with `array_keys` and
            `checks_keys`.
        reads_ahead: number of concurrent reads that make the source faster. False: none, as for
            records in memory. True: any number, and `__getitems__` receives whole batches. A
            number: `__getitems__` receives parts of a large batch, or several small batches.
        reads_singly: True: threads share a batch, and each reads single records. None: True if the
            source has no `__getitems__`.
        has_own_threads: True: the source divides one `__getitems__` call among all processors.
        read_in_loop: coroutine function that takes keys, `int64[n]`, and returns their records. It
            runs in the event loop. None: the source is not asynchronous.
        announce: function that is called with the keys, `int64[n]`, of records that will be read
            soon. It must return at once. None: there is no such function.
        in_order: True: the source has no random access. One worker reads its records in order.
        endless: True: a source without random access never ends. False: this is unknown.
        columns: returns the records as a tree of arrays whose first axis counts records; or None.
        items: sequence of all records, if they are in memory; else None.
        lookup: function that returns a record in memory by its key, without a check; or None.
        lengths: returns the length of the array in each record, `int64[records]`, or a dict of such
            arrays by leaf; or None.
        lengths_by: takes the name of a field, and returns its length in each record, or the integer
            in it, `int64[records]`. None: the source does not know lengths by name.
        record_bytes: returns the size of each record in its file, `int64[records]`; or None.
        packed_costs: takes a function of lengths, and returns the cost of each record,
            `float64[records]`, if records are packed rows; or None.
        classes: names of the labels, or None.
        omitted_keys: keys, `int64[n]`, of records that no longer exist. Loaders do not read them.
            None: all exist.
        made_of: takes a key, and returns the records of other sources of which its record is made.
            None: a record is made of itself.
        file_place: takes a key, and returns the record's file and its index in that file, as a
            `FilePlace`; or None.
        file_runs: yields the places of all records, as `FileRun` objects. None: the source does not
            know them.
        file_count: returns the number of files.
        records_together: returns the number of records that are decompressed to read one.
        records_of: takes keys, `int64[n]`, and returns them as users know them: for a mix, a dict
            of the keys in each part; for planned batches, the keys of their records.
        describe_key: takes a key, and returns a text that names it in messages.
        planned: True: each record is a batch or row that was planned from lengths, and is made of
            several records.
        records_each: returns the mean number of records of which a planned batch or row is made.
        record_count: number of records of which all planned batches or rows are made. None: the
            length of the source.
        generations: object that lists the generations (versions) of the source, mostly the source
            itself, even if it never grows; None if it has no generations.
        grows_within: True: the source is derived from a growing source, and keeps the records that
            it had at first.

    >>> SourceFacts(reads_ahead=4).reads_ahead
    4
    """

    array_keys: bool = False
    checks_keys: bool = False
    answers_exactly: bool = False
    reads_ahead: bool | int = True
    reads_singly: bool | None = None
    has_own_threads: bool = False
    read_in_loop: Callable[[Int64s], Awaitable[Sequence[Any]]] | None = None
    announce: Callable[[Int64s], None] | None = None
    in_order: bool = False
    endless: bool = False
    columns: Callable[[], Any] = _unknown
    items: Sequence[Any] | None = None
    lookup: Callable[[int], Any] | None = None
    lengths: Callable[[], Any] = _unknown
    lengths_by: Callable[[str], Any] | None = None
    record_bytes: Callable[[], Any] = _unknown
    packed_costs: Callable[[Cost | None], Any] = _unknown
    classes: Sequence[str] | None = None
    omitted_keys: Int64s | None = None
    made_of: Callable[[int], Sequence[UsedRecord]] | None = None
    file_place: Callable[[int], FilePlace | None] = _unknown
    file_runs: Callable[[], Iterator[FileRun]] | None = None
    file_count: Callable[[], int] = int
    records_together: Callable[[], int] = lambda: 1
    records_of: Callable[[Int64s], Any] = _same
    describe_key: Callable[[int], str] = str
    planned: bool = False
    records_each: Callable[[], int] = lambda: 1
    record_count: int | None = None
    generations: Generations | None = None
    grows_within: bool = False

    @property
    def growing(self) -> bool:
        """True if the source itself may get more records."""
        return self.generations is not None and self.generations.growing

    @property
    def grows(self) -> bool:
        """True if the source grows, or is made of a source that grows."""
        return self.growing or self.grows_within


def reads_many(source: Any) -> bool:
    """Return True if the type of a source has a `__getitems__` that works.

    A TFDS source passes the keys to an inner source. Under `tfds.testing.mock_data` that is a mock
    without `__getitems__`; then the result is False.

    >>> reads_many([1, 2])
    False
    """
    kind = type(source)
    if not hasattr(kind, "__getitems__"):
        return False
    of_tfds = kind.__module__.startswith("tensorflow_datasets.") and hasattr(source, "data_source")
    return not of_tfds or hasattr(type(source.data_source), "__getitems__")


def facts_of(source: Any) -> SourceFacts:
    """Return the facts about a source: its own `facts`, or the defaults.

    `reads_singly` is never None in the result.

    Raises:
        TypeError: the source's own `facts` is not a `SourceFacts`.

    >>> facts_of([1, 2]).reads_singly
    True
    """
    try:
        facts = source.facts
    except AttributeError:
        if hasattr(type(source), "facts"):  # a property, which failed
            raise
        facts = SourceFacts()
    if not isinstance(facts, SourceFacts):
        raise TypeError(
            f"{type(source).__qualname__}.facts is {a_kind_of(facts)}. Headrace reads this "
            "attribute of a source: make it a headrace.SourceFacts or a property that returns one, "
            "or give it another name."
        )
    return (
        facts._replace(reads_singly=not reads_many(source)) if facts.reads_singly is None else facts
    )


def used_records(source: Any, key: int) -> Sequence[UsedRecord]:
    """Return the records from which the record of `key` is made.

    It is the result of `made_of`, or the one record itself.

    >>> used_records(range(10), 3)[0].key
    3
    """
    made_of = facts_of(source).made_of
    return [UsedRecord(source, key)] if made_of is None else made_of(key)
