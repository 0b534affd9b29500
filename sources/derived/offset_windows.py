"""Source of frames that have, in some fields, also earlier and later frames of the episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from ...common.identity.values import digest_of
from ...common.messages import a_kind_of, first_few, short_repr
from ...common.validation import array_of
from ...errors import SourceError
from ..accepted import as_source
from ..facts import SourceFacts, used_records
from ..file_source import hex_digest
from ..keys import Keys, check_key, check_keys
from ..protocol import fingerprint_of
from ..provenance import UsedRecord
from .on_source import Int64s, OnSource
from .windows import lengths_of_runs, stack_values

Pad: TypeAlias = Literal["edge", "zero", False]


class FrameOffsets:
    """The frames that a frame has in each field, and which frames have all of them.

    Args:
        offsets: for each field, the frames that are wanted, counted from the frame itself:
            `int64[k]`.
        lengths: number of frames of each episode, `int64[episodes]`.
        pad: "edge" or "zero": all frames are kept. False: only frames whose offsets all lie in
            their episode.
    """

    def __init__(self, offsets: Mapping[str, Int64s], lengths: Int64s, pad: Pad) -> None:
        self.offsets, self.lengths, self.pad = offsets, lengths, pad
        every = np.concatenate([[0], *offsets.values()])
        self._first = 0 if pad else int(-every.min())
        counts = np.maximum(lengths - (0 if pad else int(every.max() - every.min())), 0)
        self._ends = np.cumsum(counts)
        if not len(lengths) or not self._ends[-1]:
            raise ValueError(
                f"no episode is long enough for offsets from {every.min():+d} to {every.max():+d} "
                "frames: the longest has "
                f'{lengths.max(initial=0)} frames. Pass pad="edge" or pad="zero", or offsets '
                "(times) nearer to 0."
            )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def places(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Return the episode of each key, and the frame in it: two arrays `int64[n]`."""
        episodes = np.searchsorted(self._ends, keys, side="right")
        return episodes, keys - np.where(episodes > 0, self._ends[episodes - 1], 0) + self._first

    def around(
        self, field: str, episodes: Int64s, frames: Int64s
    ) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """Return the frames of a field, `int64[n, k]`, and which are padding, `bool[n, k]`.

        A frame that would be outside of the episode is padding. The first or last frame of the
        episode is returned for it.
        """
        wanted = frames[:, None] + self.offsets[field]
        last = self.lengths[episodes][:, None] - 1
        inside = np.clip(wanted, 0, last)
        return inside, inside != wanted

    def padded(self, values: npt.NDArray[Any], is_pad: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Return the values of a field, `[k, …]`, with zeros where `pad="zero"` wants them.

        Objects become None instead.
        """
        if self.pad != "zero" or not is_pad.any():
            return values
        values = values.copy()
        values[is_pad] = None if values.dtype == object else np.zeros((), values.dtype)
        return values


class OffsetWindows(OnSource):
    """Frames of episodes, each with the frames at some offsets: past observations, future actions.

    The record of a frame is a dict. A field of `offsets` becomes the stack of its values in the
    frames at these offsets, `[k, …]`, and gets a second field `<field>_is_pad`, `bool[k]`: True
    where the frame would be outside of the episode. Other fields are those of the frame itself.
    Windows are numbered in the order of the frames.

    Args:
        source: anything that `DataLoader` accepts as a source, or a `MapDataset`. Each record is a
            frame, as a dict.
        offsets: for each field, a list of integers: 0 is the frame itself, -1 the one before it, 1
            the one after it.
        episodes: the number or name of each frame's episode, where the frames of one episode are
            consecutive; or one number, if all frames belong to one episode.
        pad: what stands in the place of frames outside of the episode. "edge" (default): the first
            or last frame. "zero": zeros; empty texts in NumPy arrays of texts; None in place of
            other values. False: nothing, because windows with such frames are left out.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `offsets` has no field, or a field without offsets; there is not one episode for
            each frame; the frames of an episode are not consecutive; `pad` is unknown; or
            `pad=False` leaves no window.
        SourceError: when a window is read, a frame is not a dict with this field, or has a field
            `<field>_is_pad` of its own.

    >>> frames = {"state": np.arange(5) * 10, "action": np.arange(5)}
    >>> offsets = {"action": [0, 1, 2], "state": [-1, 0]}
    >>> windows = OffsetWindows(frames, offsets, episodes=[0, 0, 0, 1, 1])
    >>> record = {field: value.tolist() for field, value in windows[2].items()}
    >>> record["state"], record["action"]
    ([10, 20], [2, 2, 2])
    >>> record["action_is_pad"], record["state_is_pad"]
    ([False, True, True], [False, False])
    >>> len(OffsetWindows(frames, {"action": [0, 1]}, episodes=[0, 0, 0, 1, 1], pad=False))
    3
    """

    def __init__(
        self, source: Any, offsets: Mapping[str, Sequence[int]], *, episodes: Any, pad: Pad = "edge"
    ) -> None:
        self.source = as_source(source)
        lengths = lengths_of_runs(episodes, len(self.source))
        self._offsets = FrameOffsets(checked_offsets("offsets", offsets), lengths, checked_pad(pad))
        self._starts = np.cumsum(lengths) - lengths

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        return self._windows(np.array([check_key(key, len(self), "OffsetWindows")]))[0]

    def __getitems__(self, keys: Keys) -> Sequence[dict[str, Any]]:
        """Return the windows of `keys`, in order. Each frame is read once.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
        """
        checked = check_keys(keys, len(self), "OffsetWindows")
        return self._windows(checked) if len(checked) else []

    def _windows(self, keys: Int64s) -> list[dict[str, Any]]:
        episodes, places = self._offsets.places(keys)
        starts = self._starts[episodes]
        around = {
            field: self._offsets.around(field, episodes, places) for field in self._offsets.offsets
        }
        wanted = np.concatenate(
            [starts + places, *((starts[:, None] + near).ravel() for near, _ in around.values())]
        )
        distinct, which = np.unique(wanted, return_inverse=True)
        records = self._read(distinct)
        for key, record in zip(distinct.tolist(), records):
            _check_fields(record, key, around)
        own, rest = which[: len(keys)].tolist(), which[len(keys) :]
        windows = [dict(records[place]) for place in own]
        for field, (near, is_pad) in around.items():
            of_field, rest = rest[: near.size].reshape(near.shape), rest[near.size :]
            for window, row, padding in zip(windows, of_field, is_pad):
                values = stack_values([records[place][field] for place in row])
                window[field] = self._offsets.padded(values, padding)
                window[f"{field}_is_pad"] = padding
        return windows

    def _records_of(self, keys: Int64s) -> Int64s:
        episodes, places = self._offsets.places(keys)
        starts = self._starts[episodes]
        near = [
            starts[:, None] + self._offsets.around(field, episodes, places)[0]
            for field in self._offsets.offsets
        ]
        return np.unique(np.concatenate([starts + places, *(each.ravel() for each in near)]))

    @property
    def facts(self) -> SourceFacts:
        return super().facts._replace(made_of=self.made_of)

    def made_of(self, key: int) -> list[UsedRecord]:
        """Return the frames that are in the window `key`."""
        return [
            used
            for frame in self._records_of(np.array([key])).tolist()
            for used in used_records(self.source, frame)
        ]

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the source, and digests of the offsets and the episodes' lengths."""
        return {**fingerprint_of(self.source), "windows": offsets_digest(self._offsets)}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_read"}

    def __repr__(self) -> str:
        offsets = {field: wanted.tolist() for field, wanted in self._offsets.offsets.items()}
        return f"OffsetWindows({len(self)} windows, {short_repr(offsets)}, {self.source!r})"


def checked_offsets(argument: str, offsets: Any) -> dict[str, Int64s]:
    """Return the offsets of each field as `int64[k]`.

    Raises:
        TypeError: they are not a dict of lists of integers.
        ValueError: there is no field, or a field without offsets.
    """
    if not isinstance(offsets, Mapping):
        raise TypeError(
            f"{argument}={short_repr(offsets)} is {a_kind_of(offsets)}. Pass a dict from fields to "
            "lists of integers, such as "
            '{"action": [0, 1, 2]}.'
        )
    if not offsets:
        raise ValueError(f"{argument} is empty. Name at least one field.")
    found = {}
    for field, wanted in offsets.items():
        array = array_of(wanted)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise TypeError(
                f"{argument}[{short_repr(field)}]={short_repr(wanted)} is not a list of integers. "
                "Pass one, such as [-1, 0]."
            )
        if not array.size:
            raise ValueError(
                f"{argument}[{short_repr(field)}] is empty. Pass at least one offset, or leave the "
                "field out."
            )
        found[field] = array.astype(np.int64)
    return found


def checked_pad(pad: Any) -> Pad:
    """Return `pad`; ValueError if it is unknown."""
    if pad is not False and pad not in ("edge", "zero"):
        raise ValueError(f'pad={short_repr(pad)} is not supported. Pass "edge", "zero" or False.')
    return pad  # type: ignore[no-any-return]


def offsets_digest(offsets: FrameOffsets) -> str:
    """Return a text that is the same only for the same offsets, padding and lengths of episodes."""
    wanted = {field: array.tolist() for field, array in sorted(offsets.offsets.items())}
    return f"{hex_digest(repr((wanted, offsets.pad)), 12)} {digest_of(offsets.lengths)[:12]}"


def _check_fields(record: Any, key: int, fields: Mapping[str, Any]) -> None:
    missing = (
        list(fields)
        if not isinstance(record, Mapping)
        else [field for field in fields if field not in record]
    )
    if missing:
        if not isinstance(record, Mapping):
            raise SourceError(
                f"record {key}, a frame of an episode, is {a_kind_of(record)}. Pass a source whose "
                "records are dicts, such as "
                '{"action": array}.'
            )
        raise SourceError(
            f"record {key}, a frame of an episode, has no field {short_repr(missing[0])}, only "
            f"{first_few(list(record))}. Name one of its fields in offsets=."
        )
    if twice := [f"{field}_is_pad" for field in fields if f"{field}_is_pad" in record]:
        raise SourceError(
            f"record {key}, a frame of an episode, has a field {short_repr(twice[0])}, which says "
            "in windows which frames are padding. Rename the field."
        )
