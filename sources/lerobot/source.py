"""Source of the frames of a LeRobot dataset, with the frames around each of them.

Pictures are decoded by operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...common.messages import a_kind_of, first_few, short_repr, shorten
from ...common.validation import array_of
from ...errors import SourceError
from ...files.paths import PathLike, text_of
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ..arrow.parquet import ParquetDataSource
from ..derived.offset_windows import FrameOffsets, Pad, checked_offsets, checked_pad, offsets_digest
from ..derived.on_source import Int64s, OnSource
from ..derived.windows import stack_values
from ..facts import SourceFacts, used_records
from ..file_source import hex_digest
from ..keys import Keys, check_key, check_keys
from ..protocol import Reader, fingerprint_of, reader_of
from ..provenance import UsedRecord
from .dataset import Feature, LeRobotFolder

_TOLERANCE_SECONDS = 1e-4


class LeRobotSource(OnSource):
    """Frames of a LeRobot dataset of version v3.0, as LeRobot's library stores it.

    Thread-safe, picklable, safe to fork.

    A record is a dict of the dataset's features, and "task", the text of the task. Numbers are
    arrays of the feature's dtype and shape, or NumPy scalars if the shape is (1,). Pictures are not
    decoded yet:

    * A feature of dtype "video" is `{"path": file, "times": seconds}`. Pass `DecodeVideo(key=name)`
      for it.
    * A feature of dtype "image" is `{"bytes": …, "path": …}`. Pass `DecodeImage(key=name)` for it.

    Features in `delta_timestamps` have the values of several frames, `[k, …]`, and a field
    `<name>_is_pad`, `bool[k]`: True where the frame would be before or after the episode.

    Args:
        path: folder of the dataset, or its URL, such as "hf://datasets/lerobot/pusht".
        delta_timestamps: for each of some features, a list of times in seconds from the frame's own
            time, such as `{"action": [0, 0.1, 0.2]}`. They are multiples of `1 / fps`.
        episodes: numbers of the episodes to read, from 0, in this order. Default: all.
        pad: what stands in the place of frames outside of the episode. "edge" (default): the first
            or last frame. "zero": zeros; None for texts; pictures are those of the first or last
            frame. False: nothing, because such frames are left out.
        storage_options: how files in a store are reached and cached; see
            `docs/how-to/remote-files.md`. `DecodeVideo` reads videos with the default options.

    Raises:
        SourceNotFoundError: the folder, or a file of it, does not exist.
        SourceError: the dataset has another version, or is damaged. When a record is read: its file
            cannot be read.
        ValueError: a feature or episode does not exist; an episode comes twice; a list is empty; a
            time is not a multiple of `1 / fps`; `pad` is unknown; or `pad=False` leaves no frame.
        TypeError: an argument has a wrong type.
        MissingExtraError: pyarrow is not installed.

    Attributes:
        fps: frames per second.
        features: dtype and shape of each feature, as `(dtype, shape)`.
        tasks: texts of the tasks.
        episodes: numbers of the episodes that are read, `int64[n]`.
        video_keys: names of the features that `DecodeVideo` decodes.
        image_keys: names of the features that `DecodeImage` decodes.

    Example (needs files):
        `LeRobotSource("pusht", delta_timestamps={"action": [0, 0.1]})[0]["action"]` has the shape
        (2, 2).
    """

    def __init__(
        self,
        path: PathLike,
        *,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        episodes: Sequence[int] | None = None,
        pad: Pad = "edge",
        storage_options: StorageOptionsLike = None,
    ) -> None:
        storage = storage_options_of(storage_options)
        self._folder = folder = LeRobotFolder(text_of(path), storage)
        every = folder.episodes()
        self.episodes = _chosen(episodes, len(every))
        wanted = {} if delta_timestamps is None else _offsets_of(delta_timestamps, folder)
        self._offsets = FrameOffsets(wanted, every.lengths[self.episodes], checked_pad(pad))
        self._videos = {
            camera: (files[self.episodes], begins[self.episodes])
            for camera, (files, begins) in every.videos.items()
        }
        files, which = np.unique(every.files[self.episodes], axis=0, return_inverse=True)
        paths = [folder.data_file(*file) for file in files.tolist()]
        self._starts, frames = _rows_of(
            every.files, every.lengths, files, self.episodes, which.reshape(-1)
        )
        stored = [name for name in folder.features if name not in self.video_keys]
        near = [name for name in stored if name in wanted]
        self.source = self._frames = ParquetDataSource(
            paths, stored, storage_options=storage, partitioning=None
        )
        if len(self.source) != frames:
            raise SourceError(
                f"the files {first_few(paths)} have {len(self.source)} frames, but meta/episodes "
                f"of {shorten(folder.path)} says {frames}: they are not of one version. Download "
                "the whole folder again."
            )
        # Rows around a frame are read without its pictures.
        self._near = (
            ParquetDataSource(paths, near, storage_options=storage, partitioning=None)
            if near
            else None
        )

    @property
    def fps(self) -> float:
        """Number of frames per second."""
        return self._folder.fps

    @property
    def features(self) -> dict[str, Feature]:
        """Dtype and shape of each feature."""
        return dict(self._folder.features)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Texts of the tasks, by number."""
        return self._folder.tasks

    @cached_property
    def video_keys(self) -> tuple[str, ...]:
        """Names of the features that are videos."""
        return self._folder.of_dtype("video")

    @cached_property
    def image_keys(self) -> tuple[str, ...]:
        """Names of the features that are images in the Parquet files."""
        return self._folder.of_dtype("image")

    def statistics(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """Read `meta/stats.json`.

        It has for each feature "mean", "std", "min", "max" and others, over all episodes.

        Returns:
            Arrays by feature and name; {} if the dataset has no statistics.
        """
        return self._folder.statistics()

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        return self._records(np.array([check_key(key, len(self), "LeRobotSource")]))[0]

    def __getitems__(self, keys: Keys) -> list[dict[str, Any]]:
        """Return the records of `keys`, in order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a file cannot be read.
        """
        checked = check_keys(keys, len(self), "LeRobotSource")
        return self._records(checked) if len(checked) else []

    def _records(self, keys: Int64s) -> list[dict[str, Any]]:
        episodes, frames = self._offsets.places(keys)
        rows = self._starts[episodes] + frames
        records = [self._record(row) for row in self._read(rows)]
        for record, episode, frame in zip(
            records, self.episodes[episodes].tolist(), frames.tolist()
        ):
            if (record.get("episode_index", episode), record.get("frame_index", frame)) != (
                episode,
                frame,
            ):
                raise SourceError(
                    f"frame {frame} of episode {episode} is not where meta/episodes of "
                    f"{shorten(self._folder.path)} says: the files are not of one version. "
                    "Download the whole folder again."
                )
        self._add_around(records, episodes, frames)
        self._add_videos(records, episodes, frames)
        return records

    def _record(self, row: dict[str, Any]) -> dict[str, Any]:
        features, tasks = self._folder.features, self._folder.tasks
        record = {name: features[name].value_of(value) for name, value in row.items()}
        if "task_index" in row:
            record["task"] = tasks[row["task_index"]]
        return record

    def _add_around(self, records: list[dict[str, Any]], episodes: Int64s, frames: Int64s) -> None:
        """Replace fields of `delta_timestamps` by the values of all their frames.

        Add which of them are padding.
        """
        around = {
            name: self._offsets.around(name, episodes, frames) for name in self._offsets.offsets
        }
        for name, (_, is_pad) in around.items():
            for record, padding in zip(records, is_pad):
                record[f"{name}_is_pad"] = padding
        stored = {name: near for name, (near, _) in around.items() if name not in self.video_keys}
        if self._near is None:
            return
        starts = self._starts[episodes][:, None]
        distinct, which = np.unique(
            np.concatenate([(starts + near).ravel() for near in stored.values()]),
            return_inverse=True,
        )
        rows = self._read_near(distinct)
        for name, near in stored.items():
            places, which = which[: near.size].reshape(near.shape), which[near.size :]
            values = [self._folder.features[name].value_of(row[name]) for row in rows]
            for record, chosen in zip(records, places):
                stacked = stack_values([values[place] for place in chosen])
                is_pad = record[f"{name}_is_pad"]
                record[name] = (
                    stacked if name in self.image_keys else self._offsets.padded(stacked, is_pad)
                )

    def _add_videos(self, records: list[dict[str, Any]], episodes: Int64s, frames: Int64s) -> None:
        for camera, (files, begins) in self._videos.items():
            places: Sequence[Int64s] = list(files[episodes])
            near = (
                self._offsets.around(camera, episodes, frames)[0]
                if camera in self._offsets.offsets
                else frames[:, None]
            )
            # The middle of the time for which a frame is shown: no rounding leads to its neighbour.
            times = begins[episodes][:, None] + (near + 0.5) / self.fps
            for record, file, seconds in zip(records, places, times):
                is_one = camera not in self._offsets.offsets
                record[camera] = {
                    "path": self._folder.video_file(camera, *file),
                    "times": float(seconds[0]) if is_one else seconds,
                }

    @cached_property
    def _read_near(self) -> Reader:
        assert self._near is not None
        return reader_of(self._near)

    def _records_of(self, keys: Int64s) -> Int64s:
        episodes, frames = self._offsets.places(keys)
        return self._starts[episodes] + frames

    @property
    def facts(self) -> SourceFacts:
        return super().facts._replace(made_of=self.made_of)

    def made_of(self, key: int) -> list[UsedRecord]:
        """Return the row of the frame `key` in the Parquet files."""
        return list(used_records(self.source, int(self._records_of(np.array([key]))[0])))

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the Parquet files, and a digest of all else.

        All else is the offsets, the episodes and the places of videos.
        """
        videos = [
            (camera, files.tolist(), begins.tolist())
            for camera, (files, begins) in self._videos.items()
        ]
        windows = repr((offsets_digest(self._offsets), self.episodes.tolist(), videos))
        return {
            **fingerprint_of(self.source),
            "kind": "LeRobotSource",
            "windows": hex_digest(windows, 12),
        }

    def close(self) -> None:
        """Close the Parquet files. A later read opens them again."""
        self._frames.close()
        if self._near is not None:
            self._near.close()

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("_read", "_read_near")
        }

    def __repr__(self) -> str:
        return (
            f"LeRobotSource({len(self)} frames of {len(self.episodes)} episodes in "
            f"{shorten(self._folder.path)})"
        )


def _chosen(episodes: Any, count: int) -> Int64s:
    """Return the numbers of the chosen episodes, `int64[n]`.

    Raises:
        TypeError: they are not a list of integers.
        ValueError: there are none, one comes twice, or one does not exist.
    """
    if episodes is None:
        return np.arange(count)
    chosen = array_of(list(episodes) if isinstance(episodes, range) else episodes)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise TypeError(
            f"episodes={short_repr(episodes)} is not a list of integers. Pass the numbers of "
            "episodes, such as [0, 1]."
        )
    if (
        not chosen.size
        or len(np.unique(chosen)) < len(chosen)
        or chosen.min() < 0
        or chosen.max() >= count
    ):
        raise ValueError(
            f"episodes={short_repr(episodes)} must be different numbers from 0 to {count - 1}, at "
            "least one. Pass such a list."
        )
    return chosen.astype(np.int64)


def _offsets_of(delta_timestamps: Any, folder: LeRobotFolder) -> dict[str, Int64s]:
    """Return the offsets, in frames, that some times in seconds are.

    Raises:
        TypeError: they are not a dict of lists of numbers.
        ValueError: there is no such feature, or a time is not a multiple of the time of a frame.
    """
    if not isinstance(delta_timestamps, Mapping):
        raise TypeError(
            f"delta_timestamps={short_repr(delta_timestamps)} is {a_kind_of(delta_timestamps)}. "
            "Pass a dict from features to "
            'lists of seconds, such as {"action": [0, 0.1]}.'
        )
    frames = {}
    for name, times in delta_timestamps.items():
        if name not in folder.features:
            raise ValueError(
                f"delta_timestamps names {short_repr(name)}, which is not a feature. Pass one of "
                f"{first_few(list(folder.features), 8)}."
            )
        seconds = array_of(times)
        if seconds.ndim != 1 or (seconds.size and seconds.dtype.kind not in "iuf"):
            raise TypeError(
                f"delta_timestamps[{short_repr(name)}]={short_repr(times)} is not a list of "
                "numbers. Pass seconds, such as [-0.1, 0]."
            )
        whole = np.rint(seconds * folder.fps)
        wrong = ~(np.abs(whole / folder.fps - seconds) <= _TOLERANCE_SECONDS)  # also if it is NaN
        if wrong.any():
            raise ValueError(
                f"delta_timestamps[{short_repr(name)}] has {seconds[wrong][0]} s, which is not a "
                f"multiple of the time of a frame, 1/{folder.fps:g} s. Pass n / {folder.fps:g}, "
                "where n is a whole number."
            )
        frames[name] = whole.astype(np.int64)
    return checked_offsets("delta_timestamps", frames)


def _rows_of(
    of_episode: Int64s, lengths: Int64s, files: Int64s, chosen: Int64s, which: npt.NDArray[np.intp]
) -> tuple[Int64s, int]:
    """Return the row at which each chosen episode begins, `int64[n]`, and the number of all rows.

    Args:
        of_episode: file of each episode of the dataset, `int64[episodes, 2]`.
        lengths: number of frames of each, `int64[episodes]`.
        files: the files that are read, one after another, `int64[files, 2]`.
        chosen: numbers of the chosen episodes, `int64[n]`.
        which: index in `files` of each chosen episode, `[n]`.
    """
    first, starts = 0, np.zeros(len(chosen), np.int64)
    for number, file in enumerate(files):
        inside = np.flatnonzero((of_episode == file).all(axis=1))
        ends = np.cumsum(lengths[inside])
        here = which == number
        places = np.searchsorted(inside, chosen[here])
        starts[here] = first + ends[places] - lengths[chosen[here]]
        first += int(ends[-1])
    return starts, first
