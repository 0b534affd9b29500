"""Streams of records of Parquet and TFRecord files, and interleaves of streams.

In: paths, or streams. Out: records. One worker reads all records in order.
"""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ....common.messages import shorten
from ....common.validation import whole_number
from ....errors import MissingExtraError, SourceError
from ..prefetching import WithOptionsIterDataset
from .iter_dataset import IterDataset, as_stream
from .iterators import DatasetIterator, HasIndex, Resumed
from .states import OfDatasets
from .thresholds import TakesOptions

_CYCLE = 16
_NOTHING = object()
_HEAD, _CHECKSUM = struct.Struct("<QI"), 4


class ParquetIterDataset(IterDataset[dict[str, Any]]):
    """The rows of Parquet files, as dicts.

    Several files are interleaved, at most 16 open at a time.

    Args:
        path: path of a file, or a list of paths.
        **read_kwargs: arguments of `pyarrow.parquet.ParquetFile`.

    Raises:
        MissingExtraError: when the dataset is iterated, if pyarrow is not installed.
        ValueError: when it is iterated, if there are no files.
    """

    def __init__(self, path: str | Sequence[str], **read_kwargs: Any) -> None:
        super().__init__()
        self.paths = [path] if isinstance(path, str) else list(path)
        self.read_kwargs = read_kwargs

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keep only the files that the slice `sl` of the list of files selects.

        `sequential_slice` has no effect.
        """
        self.paths = self.paths[sl]

    def __iter__(self) -> Any:
        if not self.paths:
            raise ValueError(
                "ParquetIterDataset has no files. Pass the path of a file, or a list of one path "
                "or more."
            )
        if len(self.paths) > 1:
            return iter(self.by_file())
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtraError(
                'ParquetIterDataset needs pyarrow: pip install "headrace[parquet]"'
            ) from error
        file = parquet.ParquetFile(self.paths[0], **self.read_kwargs)
        return Resumed(partial(_rows, file), {"row_group": 0, "index_within_row_group": 0})

    def by_file(self) -> InterleaveIterDataset:
        """Return the interleave of one dataset per file."""
        files = [ParquetIterDataset(path, **self.read_kwargs) for path in self.paths]
        return InterleaveIterDataset(files, cycle_length=_CYCLE)


def _rows(file: Any, state: dict[str, int]) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    first = state["index_within_row_group"]
    for group in range(state["row_group"], file.num_row_groups):
        table = file.read_row_group(group)
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        for row in range(first, len(table)):
            after = {"row_group": group, "index_within_row_group": row + 1}
            yield {name: column[row] for name, column in columns.items()}, after
        first = 0


class TFRecordReader(Iterator[bytes]):
    """An iterator over the records of a TFRecord file, as bytes. Checksums are not verified.

    To open the file in another way, write a subclass whose `__init__` sets `_reader` to a binary
    file.

    Args:
        path: path of the file.
    """

    _reader: Any

    def __init__(self, path: str) -> None:
        self._reader = open(path, "rb")  # noqa: SIM115 - it is read from and closed later

    def __next__(self) -> bytes:
        """Return the next record.

        Raises:
            StopIteration: after the last record.
            SourceError: if the file ends inside the record.
        """
        offset, head = self.tell(), self._reader.read(_HEAD.size)
        if not head:
            raise StopIteration
        length = _HEAD.unpack(head)[0] if len(head) == _HEAD.size else 0
        record: bytes = self._reader.read(length + _CHECKSUM)
        if len(head) < _HEAD.size or len(record) < length + _CHECKSUM:
            name = shorten(getattr(self._reader, "name", "the file"))
            raise SourceError(
                f"{name} is not a complete TFRecord file: the record at byte {offset} is cut off. "
                "Write the file again."
            )
        return record[:length]

    def seek(self, offset: int) -> None:
        """Move to the record that begins at byte `offset`."""
        self._reader.seek(offset)

    def tell(self) -> int:
        """Return the byte offset of the next record."""
        return int(self._reader.tell())

    def __del__(self) -> None:
        if reader := vars(self).get("_reader"):
            reader.close()


class TFRecordDatasetIterator(DatasetIterator[bytes]):
    """An iterator over the records of a TFRecord file, as bytes; its state is a byte offset.

    A subclass may set another `_reader`, a `TFRecordReader`.

    Args:
        path: path of the file.
    """

    _reader: Any

    def __init__(self, path: str) -> None:
        super().__init__()
        self._reader = TFRecordReader(path)

    def __next__(self) -> bytes:
        return next(self._reader)  # type: ignore[no-any-return]

    def get_state(self) -> dict[str, Any]:
        return {"reader_offset": self._reader.tell()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._reader.seek(state["reader_offset"])


class TFRecordIterDataset(IterDataset[bytes]):
    """The records of a TFRecord file, as bytes. Checksums are not verified.

    Args:
        path: path of the file.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def __iter__(self) -> Any:
        return TFRecordDatasetIterator(self._path)


class InterleaveIterDataset(OfDatasets, TakesOptions, IterDataset[Any]):
    """A stream that takes one element from each open stream in turn.

    At most `cycle_length` streams are open. When a stream has ended, the next unopened stream takes
    its place at its next turn.

    A state has, for each stream that may be open at a time, the number and the state of the open
    stream as JSON text, or "null" if no stream is open there. The entry `later` has start
    states of streams that are not open yet, by their number.

    Args:
        datasets: a list of streams or datasets with random access, or a `MapDataset` of these,
            whose elements are made only when they are opened.
        cycle_length: maximal number of open streams, at least 1.
        num_make_iter_threads: no effect; accepted for Grain's signature.
        make_iter_buffer_size: no effect.
        iter_buffer_size: no effect.

    Raises:
        TypeError: if `cycle_length` is not an int.
        ValueError: if it is not positive.
    """

    def __init__(
        self,
        datasets: Any,
        *,
        cycle_length: int,
        num_make_iter_threads: int = 1,
        make_iter_buffer_size: int = 1,
        iter_buffer_size: int = 1,
    ) -> None:
        super().__init__()
        self.datasets = datasets
        self.cycle_length = whole_number("cycle_length", cycle_length, 1, None, "a positive int")

    def with_dataset_options(self, options: Any) -> InterleaveIterDataset:
        """Return a copy whose interleaved streams have these `DatasetOptions`."""
        changed = copy.copy(self)
        changed.dataset_options = options
        return changed

    def __iter__(self) -> Any:
        places = [None] * min(self.cycle_length, len(self.datasets))
        begin = {"open": places, "turn": 0, "next_dataset": 0}
        kind = _OfOne if len(self.datasets) == 1 else _Interleaved
        return kind(self._elements, begin, self.datasets)

    def _elements(
        self, state: dict[str, Any]
    ) -> Iterator[tuple[Any, Callable[[], dict[str, Any]]]]:
        state = as_places(state)
        turn, following, idle, later = (
            state["turn"],
            state["next_dataset"],
            0,
            dict(state.get("later", {})),
        )
        opened: list[tuple[int, Any] | None] = [
            None if place is None else self._at(*place) for place in state["open"]
        ]

        def reached() -> dict[str, Any]:
            places = [None if each is None else [each[0], each[1].get_state()] for each in opened]
            return {"open": places, "turn": turn, "next_dataset": following, **_later(later)}

        try:
            while opened and idle <= len(opened):
                if opened[turn] is None and following < len(self.datasets):
                    opened[turn], following = (
                        self._at(following, later.pop(str(following), None)),
                        following + 1,
                    )
                place, here = turn, opened[turn]
                element = _NOTHING if here is None else next(here[1], _NOTHING)
                idle, turn = idle + 1 if here is None else 0, (turn + 1) % len(opened)
                if element is _NOTHING:
                    opened[place] = None
                else:
                    yield element, reached
        finally:
            for each in opened:
                if each is not None:
                    each[1].close()

    def _at(self, number: int, state: Any = None) -> tuple[int, Any]:
        stream = as_stream(self.datasets[number])
        if self.dataset_options is not None:
            stream = WithOptionsIterDataset(stream, self.dataset_options)
        iterator = iter(stream)
        if state is not None:
            iterator.set_state(state)
        return number, iterator


class _Interleaved(Resumed[Any]):
    """Iterator over an interleave; it can return and restore a state for each stream.

    Args:
        begin: function that yields pairs `(element, state after it)` from a state on.
        state: state at the beginning.
        datasets: the interleaved datasets.
    """

    def __init__(self, begin: Any, state: Any, datasets: Any) -> None:
        super().__init__(begin, state)
        self._datasets, self._places = datasets, len(state["open"])

    def get_state(self) -> dict[str, Any]:
        """Return the state: open streams, the place whose turn it is, and the next stream to open.

        The number and the state of each open stream are one JSON text, so that the structure of the
        state never changes.
        """
        state = as_places(super().get_state())
        return {
            **state,
            "open": list(map(json.dumps, state["open"])),
            "later": json.dumps(state.get("later", {})),
        }

    def get_shard_states(self) -> list[dict[str, Any]]:
        """Return a dict for each stream: "exhausted" (1 if it has ended, else 0) and "state"."""
        state = as_places(self.get_state())
        known = dict(filter(None, state["open"]))
        known |= {int(number): inner for number, inner in state.get("later", {}).items()}
        found = []
        for number in range(len(self._datasets)):
            has_ended = number < state["next_dataset"] and number not in known
            inner = (
                known[number]
                if number in known
                else iter(as_stream(self._datasets[number])).get_state()
            )
            found.append({"exhausted": int(has_ended), "state": inner})
        return found

    def set_shard_states(self, shard_states: Sequence[dict[str, Any]]) -> None:
        """Resume each stream from its own state.

        Streams that have not ended take turns from the first one on.

        Args:
            shard_states: one dict for each stream, as `get_shard_states()` returns them.
        """
        self.set_state(state_of_streams(shard_states, self._places))


def state_of_streams(shard_states: Sequence[dict[str, Any]], places: int) -> dict[str, Any]:
    """Build the state of an interleave from the states of its streams.

    Args:
        shard_states: one dict for each stream: "exhausted" (1 if it has ended) and "state".
        places: number of streams that may be open at a time.
    """
    left = [
        [number, each["state"]] for number, each in enumerate(shard_states) if not each["exhausted"]
    ]
    is_open, later = left[:places], left[places:]
    following = is_open[-1][0] + 1 if later else len(shard_states)
    return {
        "open": [*is_open, *[None] * (places - len(is_open))],
        "turn": 0,
        "next_dataset": following,
        **_later({str(number): inner for number, inner in later}),
    }


def _later(states: dict[str, Any]) -> dict[str, Any]:
    """Return `{"later": states}`, or an empty dict if `states`, of unopened streams, is empty."""
    return {"later": dict(states)} if states else {}


class _OfOne(HasIndex, _Interleaved):
    """Iterator over an interleave of a single stream.

    Elements have the same indices as in that stream.
    """

    def next_index(self) -> int:
        """Return the index of the next element."""
        (place,) = as_places(self.get_state())["open"]
        inner = iter(as_stream(self._datasets[0]))
        if place is not None:
            inner.set_state(place[1])
        return int(inner.next_index())

    def go_to_index(self, index: int) -> None:
        """Move to the element with this index.

        Raises what the `go_to_index` of the single stream raises.
        """
        inner = iter(as_stream(self._datasets[0]))
        inner.go_to_index(index)
        self.set_state({"open": [[0, inner.get_state()]], "turn": 0, "next_dataset": 1})


def as_places(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of an interleave with JSON texts decoded.

    A state in Grain's form is converted to headrace's form.
    """
    if "open" not in state:
        return _of_grains(state)
    places, later = state["open"], state.get("later", {})
    return {
        **state,
        "open": [json.loads(place) if isinstance(place, str) else place for place in places],
        "later": json.loads(later) if isinstance(later, str) else later,
    }


def _of_grains(state: dict[str, Any]) -> dict[str, Any]:
    """Convert Grain's state of an interleave to headrace's form."""
    each = zip(
        state["iterators_in_use_indices"], state["iterators_in_use_states"], state["exhausted"]
    )
    places = [None if over or inner is None else [number, inner] for number, inner, over in each]
    return {
        "open": places,
        "turn": state["next_index_in_cycle"],
        "next_dataset": state["next_index_in_datasets"],
        **_later({str(number): inner for number, inner in state.get("future_states", {}).items()}),
    }
