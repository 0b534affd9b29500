"""Source of windows, i.e. consecutive frames of a time series or an episode.

A window is either a slice of one record's arrays, or a stack of several records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...common.identity.values import digest_of
from ...common.messages import short_repr
from ...common.validation import array_of, whole_number
from ...errors import LengthsError
from ..accepted import as_source
from ..facts import SourceFacts, facts_of, used_records
from ..keys import Keys, check_key, check_keys
from ..lengths import lengths_of
from ..protocol import fingerprint_of
from ..provenance import TokenSpan, UsedRecord
from .on_source import Int64s, OnSource

Array = npt.NDArray[Any]


class Windows(OnSource):
    """Windows of `length` consecutive frames, with random access.

    The first frames of two windows are `stride` apart.

    A window does not cross the end of an episode. Frames may be stored in two ways:

    * A record is an episode: an array whose first axis is time, or a dict of such arrays. A window
      has a slice of each array that is as long as its episode. Other values, such as a label, are
      unchanged.
    * A record is a frame, and `episodes` gives the episode of each. A window is the stack of its
      frames. If the source has columns (arrays in memory or in mapped files), a window is a slice
      of each column. Frames of other sources are read by one call per batch.

    An episode of n frames has `(n - length) // stride + 1` windows, or none if `n < length`.
    Windows are numbered in the order of episodes and frames. The result is a source for a
    `DataLoader`, a mix, or `MapDataset.source(Windows(…))`.

    Args:
        source: anything that `DataLoader` accepts as a source, or a `MapDataset`.
        length: number of frames in a window.
        stride: distance between the first frames of two windows. None (default): `length`, so that
            windows do not overlap.
        lengths: number of frames of each record, if records are episodes: an array, the name of a
            field, or a function of a record. None (default): the source's own `lengths`.
        episodes: pass this if records are frames: the number or name of each frame's episode, where
            the frames of one episode are consecutive; or one number, if all frames belong to one
            episode.

    Raises:
        TypeError: an argument has a wrong type, or `lengths` and `episodes` are combined.
        ValueError: no episode is long enough; there is not one episode for each frame; the frames
            of an episode are not consecutive; or `length` or `stride` is less than 1.
        LengthsError: the source does not know lengths; or, when a window is read, an episode has
            another length.

    >>> frames = {"x": np.arange(10) * 10}
    >>> windows = Windows(frames, length=3, stride=2, episodes=[0] * 6 + [1] * 4)
    >>> [window["x"].tolist() for window in windows]
    [[0, 10, 20], [20, 30, 40], [60, 70, 80]]
    >>> Windows([np.arange(5), np.arange(2), np.arange(4)], length=2)[2].tolist()
    [0, 1]
    """

    def __init__(
        self,
        source: Any,
        length: int,
        stride: int | None = None,
        *,
        lengths: Any = None,
        episodes: Any = None,
    ) -> None:
        self.source = as_source(source)
        self.length = whole_number("length", length, 1, None, "the number of frames of a window")
        self.stride = self.length
        if stride is not None:
            self.stride = whole_number("stride", stride, 1, None, "a number of frames, at least 1")
        self._of_frames = episodes is not None
        if lengths is not None and episodes is not None:
            raise TypeError(
                "lengths= and episodes= cannot be combined. Pass lengths= if each record is an "
                "episode, or episodes= if each record is a frame."
            )
        found = (
            lengths_of_runs(episodes, len(self.source))
            if self._of_frames
            else lengths_of(self.source, lengths)
        )
        self._lengths: Int64s = found
        counts = np.where(found < self.length, 0, (found - self.length) // self.stride + 1)
        self._ends = np.cumsum(counts)
        if not self._ends[-1]:
            raise ValueError(
                f"no episode is as long as a window: the longest of {len(found)} has {found.max()} "
                f"frames, but length={self.length}. Pass a smaller length=, or longer episodes."
            )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, key: SupportsIndex) -> Any:
        number = check_key(key, len(self), "Windows")
        episode = int(self._ends.searchsorted(number, "right"))
        start = (number - int(self._ends[episode - 1] if episode else 0)) * self.stride
        if not self._of_frames:
            return self._slice(self._read(np.array([episode]))[0], episode, start)
        first = int(self._starts[episode]) + start
        if self._columns is not None:
            return self._of_columns(first)
        return _stacked(self._read(np.arange(first, first + self.length)))

    def __getitems__(self, keys: Keys) -> Sequence[Any]:
        """Return the windows of `keys`, in order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            LengthsError: an episode has another length than was given.
        """
        checked = check_keys(keys, len(self), "Windows")
        return self._windows(checked) if len(checked) else []

    @cached_property
    def _starts(self) -> Int64s:
        """Key of the first frame of each episode, if records are frames."""
        return np.cumsum(self._lengths) - self._lengths

    def _places(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Return two arrays `int64[n]`: the episode of each window, and its first frame in it.

        Args:
            keys: `int64[n]`, indices of windows.
        """
        episodes = np.searchsorted(self._ends, keys, side="right")
        first = np.where(episodes > 0, self._ends[episodes - 1], 0)
        return episodes, (keys - first) * self.stride

    def first_frames(self, keys: Int64s) -> Int64s:
        """Return the key of the first frame of each window, `int64[n]`.

        Only if records are frames.
        """
        episodes, starts = self._places(keys)
        return self._starts[episodes] + starts

    def _windows(self, keys: Int64s) -> list[Any]:
        if not self._of_frames:
            return self._of_episodes(keys)
        firsts = self.first_frames(keys)
        if self._columns is not None:
            return list(map(self._of_columns, firsts.tolist()))
        frames, places = np.unique(firsts[:, None] + np.arange(self.length), return_inverse=True)
        records = self._read(frames)
        return [
            _stacked([records[place] for place in row])
            for row in places.reshape(len(keys), -1).tolist()
        ]

    @cached_property
    def _columns(self) -> Any:
        """Columns of the source, if records are frames in plain arrays; else None."""
        columns = facts_of(self.source).columns() if self._of_frames else None
        plain = columns is not None and all(
            isinstance(leaf, np.ndarray) for leaf in _leaves(columns)
        )
        return columns if plain else None

    def _of_columns(self, first: int) -> Any:
        frames = slice(first, first + self.length)
        return (
            self._columns[frames]
            if isinstance(self._columns, np.ndarray)
            else _map(lambda column: column[frames], self._columns)
        )

    def _of_episodes(self, keys: Int64s) -> list[Any]:
        """Return the windows of `keys` if records are episodes. Each record is read once.

        LengthsError for a wrong length.
        """
        episodes, starts = self._places(keys)
        distinct, which = np.unique(episodes, return_inverse=True)
        records = self._read(distinct)
        return [
            self._slice(records[place], int(distinct[place]), start)
            for place, start in zip(which.tolist(), starts.tolist())
        ]

    def _slice(self, record: Any, episode: int, start: int) -> Any:
        length = int(self._lengths[episode])
        sliced = []

        def of(leaf: Any) -> Any:
            if not (isinstance(leaf, np.ndarray) and leaf.ndim and len(leaf) == length):
                return leaf
            sliced.append(leaf)
            return leaf[start : start + self.length]

        window = _map(of, record)
        if not sliced:
            found = sorted(
                {
                    len(leaf)
                    for leaf in _leaves(record)
                    if isinstance(leaf, np.ndarray) and leaf.ndim
                }
            )
            if not found:
                raise LengthsError(
                    f"record {episode} has no NumPy array whose first axis counts frames, so it "
                    "cannot be cut into windows. Make the frames of each record an array."
                )
            raise LengthsError(
                f"record {episode} has arrays of {short_repr(found)} frames, but its length should "
                f"be {length}. Pass lengths= with the number of frames of each record."
            )
        return window

    @cached_property
    def columns(self) -> Any:
        """Columns of windows, if records are frames and the source has plain arrays as columns.

        Else it is None.
        """
        return (
            None
            if self._columns is None
            else _map(lambda column: _WindowColumn(column, self), self._columns)
        )

    @property
    def facts(self) -> SourceFacts:
        return super().facts._replace(columns=lambda: self.columns, made_of=self.made_of)

    def _records_of(self, keys: Int64s) -> Int64s:
        """Return the keys of all records of the source in the windows `keys`, each once."""
        if self._of_frames:
            return np.unique(self.first_frames(keys)[:, None] + np.arange(self.length))
        return np.unique(self._places(keys)[0])

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the source and the windows.

        It has length and stride of the windows, and a digest of the lengths of the episodes.
        """
        windows = f"{self.length} {self.stride} {digest_of(self._lengths)[:12]}"
        return {**fingerprint_of(self.source), "windows": windows}

    def made_of(self, key: int) -> list[UsedRecord]:
        """Return the records of the window `key`.

        They are its frames or, if records are episodes, a range of frames of its episode.
        """
        keys = np.array([key])
        if self._of_frames:
            return [
                used
                for frame in self._records_of(keys).tolist()
                for used in used_records(self.source, frame)
            ]
        (episode,), (start,) = (place.tolist() for place in self._places(keys))
        span = TokenSpan(start, start + self.length, int(self._lengths[episode]))
        return [used._replace(tokens=(span,)) for used in used_records(self.source, episode)]

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_read", "_columns", "columns")
        }

    def __repr__(self) -> str:
        return (
            f"Windows({len(self)} of {self.length} frames, stride={self.stride}, {self.source!r})"
        )


class _WindowColumn:
    """Column of windows over frames, with the part of an array's interface that `Batch` uses.

    Args:
        column: array of all frames.
        windows: the windows.
    """

    def __init__(self, column: Array, windows: Windows) -> None:
        self._column, self._windows = column, windows
        self.dtype = column.dtype
        self.shape = (len(windows), windows.length, *column.shape[1:])
        self.nbytes = column.nbytes // max(len(column), 1) * windows.length * len(windows)

    def __len__(self) -> int:
        return len(self._windows)

    def take(self, places: Int64s, axis: int, out: Array, mode: str) -> None:
        """Copy windows into `out`, like `ndarray.take`: `out[i]` is window `places[i]`.

        `axis` and `mode` are not used.
        """
        length = self._windows.length
        for row, first in zip(out, self._windows.first_frames(places).tolist()):
            row[...] = self._column[first : first + length]


def lengths_of_runs(episodes: Any, frames: int) -> Int64s:
    """Return the lengths of groups of consecutive equal values: `[7, 7, 9]` -> `[2, 1]`.

    Args:
        episodes: number or name of each frame's episode, or one for all frames.
        frames: number of frames.

    Raises:
        TypeError: the values are neither integers, bools nor strings.
        ValueError: there is not one value for each frame, or a value occurs in two groups.
    """
    array = array_of(episodes)
    if array.ndim == 0:
        array = np.broadcast_to(array, frames)
    if array.shape != (frames,):
        raise ValueError(
            f"episodes= has shape {array.shape}, but there are {frames} frames. Pass a list with "
            "the episode of each frame."
        )
    if array.dtype.kind not in "iubUS":
        raise TypeError(
            f"episodes={short_repr(episodes)} has dtype {array.dtype}. Pass integers or strings, "
            "such as np.asarray(episodes).astype(str)."
        )
    starts = np.flatnonzero(np.concatenate([[True], array[1:] != array[:-1]]))
    values, counts = np.unique(array[starts], return_counts=True)
    if counts.max() > 1:
        raise ValueError(
            f"the frames of episode {values[counts > 1][0]} are not next to each other. Sort the "
            "records by episode, or give each run of consecutive frames a number of its own in "
            "episodes=."
        )
    return np.diff(np.append(starts, frames))


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    import optree

    return optree.tree_map(function, tree, none_is_leaf=True, namespace="headrace")


def _leaves(tree: Any) -> list[Any]:
    import optree

    return optree.tree_leaves(tree, none_is_leaf=True, namespace="headrace")


def _stacked(records: Sequence[Any]) -> Any:
    """Stack records leaf by leaf.

    Leaves that are bytes, text or other objects become an array of objects.
    """
    import optree

    return optree.tree_map(_stack_leaves, *records, none_is_leaf=True, namespace="headrace")


def _stack_leaves(*leaves: Any) -> Array:
    return stack_values(leaves)


def stack_values(values: Sequence[Any]) -> Array:
    """Return an array `[k, …]` of k values.

    Values that are no arrays, numbers or scalars of NumPy become objects.
    """
    if isinstance(values[0], (np.ndarray, np.generic, int, float, complex)):
        return np.stack(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
