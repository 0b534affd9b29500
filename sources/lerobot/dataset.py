"""Read the folder `meta` of a LeRobot dataset: features, episodes, tasks and statistics.

In: the folder of a dataset of format v3.0. Out: where the frames of each episode are.
Format: https://huggingface.co/docs/lerobot/lerobot-dataset-v3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr, shorten
from ...errors import SourceError, SourceNotFoundError
from ...files.opened import open_file
from ...files.storage_options import StorageOptions
from ..arrow.parquet import ParquetDataSource

Int64s = npt.NDArray[np.int64]


class Feature(NamedTuple):
    """One field of the frames."""

    dtype: str
    """Name of a NumPy dtype, "string", "image" or "video"."""
    shape: tuple[int, ...]

    def value_of(self, stored: Any) -> Any:
        """Return a stored value as an array of the feature's dtype and shape.

        It is a NumPy scalar if the shape is (1,).

        A value of a feature that is no number, such as a text, is returned unchanged.
        """
        try:
            dtype = np.dtype(self.dtype)
        except TypeError:  # a text or an image
            return stored
        array = np.asarray(stored, dtype)
        return array.reshape(self.shape) if self.shape != (1,) else array.reshape(-1)[0]


class Episodes(NamedTuple):
    """The episodes of a dataset, in the order of their numbers: arrays `[episodes]`."""

    lengths: Int64s
    """Number of frames."""
    files: Int64s
    """Chunk and number of the Parquet file: `[episodes, 2]`."""
    videos: Mapping[str, tuple[Int64s, npt.NDArray[np.float64]]]
    """For each camera, chunk and number of the video file, and the episode's beginning.

    The beginning is a time in the file in seconds.
    """

    def __len__(self) -> int:
        return len(self.lengths)


class LeRobotFolder:
    """Folder of a LeRobot dataset.

    Args:
        path: path or URL of the folder.
        storage: how files in a store are reached.

    Raises:
        SourceNotFoundError: the folder has no `meta/info.json`.
        SourceError: the dataset has another version of the format, or a file of `meta` is damaged.

    Attributes:
        path: path of the folder, without a slash at its end.
        fps: number of frames per second.
        features: features of the frames, by name.
        tasks: text of each task.
    """

    def __init__(self, path: str, storage: StorageOptions) -> None:
        self.path, self._storage = path.rstrip("/"), storage
        info = self._json("info.json")
        version = str(info.get("codebase_version"))
        if not version.startswith("v3."):
            raise SourceError(
                f"{shorten(self.path)} is a LeRobot dataset of version {short_repr(version)}; "
                "version v3.0 can be read. Use LeRobot's scripts to convert the dataset: "
                "convert_dataset_v21_to_v30 takes version v2.1."
            )
        try:
            self.fps = float(info["fps"])
            self.features = {
                name: Feature(str(feature["dtype"]), tuple(map(int, feature["shape"])))
                for name, feature in info["features"].items()
            }
            self._data_path, self._video_path = str(info["data_path"]), info.get("video_path")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._damaged(name="info.json", why=error) from error
        self.tasks = self._tasks()

    def of_dtype(self, dtype: str) -> tuple[str, ...]:
        """Return the names of all features of a dtype."""
        return tuple(name for name, feature in self.features.items() if feature.dtype == dtype)

    def data_file(self, chunk: int, number: int) -> str:
        """Return the path of a Parquet file with frames."""
        return f"{self.path}/{self._data_path.format(chunk_index=chunk, file_index=number)}"

    def video_file(self, camera: str, chunk: int, number: int) -> str:
        """Return the path of a video file of a camera."""
        names = {"video_key": camera, "chunk_index": chunk, "file_index": number}
        return f"{self.path}/{str(self._video_path).format(**names)}"

    def episodes(self) -> Episodes:
        """Read the episodes.

        Raises:
            SourceError: the table of episodes is damaged, or an episode is missing.
        """
        cameras = self.of_dtype("video")
        places = [
            f"videos/{camera}/{what}"
            for camera in cameras
            for what in ("chunk_index", "file_index", "from_timestamp")
        ]
        columns = ["episode_index", "length", "data/chunk_index", "data/file_index", *places]
        table = self._table("episodes", columns)
        try:
            order = np.argsort(table["episode_index"])
            if (table["episode_index"][order] != np.arange(len(order))).any():
                raise self._damaged(name="episodes", why="its episodes are not numbered 0, 1, 2, …")
            of = {name: column[order] for name, column in table.items()}
            files = np.stack([of["data/chunk_index"], of["data/file_index"]], axis=1)
            videos = {
                camera: (
                    np.stack(
                        [of[f"videos/{camera}/chunk_index"], of[f"videos/{camera}/file_index"]],
                        axis=1,
                    ).astype(np.int64),
                    of[f"videos/{camera}/from_timestamp"].astype(np.float64),
                )
                for camera in cameras
            }
            return Episodes(of["length"].astype(np.int64), files.astype(np.int64), videos)
        except (TypeError, ValueError) as error:
            raise self._damaged(name="episodes", why=error) from error

    def _tasks(self) -> tuple[str, ...]:
        table = self._table("tasks.parquet", None)
        names = [name for name in table if name != "task_index"]
        if "task_index" not in table or len(names) != 1:
            raise self._damaged(
                name="tasks.parquet", why=f"it has the columns {first_few(list(table))}"
            )
        return tuple(str(table[names[0]][place]) for place in np.argsort(table["task_index"]))

    def _table(self, name: str, columns: Sequence[str] | None) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of a table of `meta`."""
        try:
            with ParquetDataSource(
                f"{self.path}/meta/{name}",
                columns,
                storage_options=self._storage,
                partitioning=None,
            ) as source:
                rows = source.__getitems__(np.arange(len(source)))
        except ValueError as error:
            raise self._damaged(
                name=name, why=f"it lacks one of the columns {first_few(columns or (), 8)}"
            ) from error
        return {column: np.array([row[column] for row in rows]) for column in rows[0]}

    def statistics(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """Read the statistics of all frames, by feature and name ("mean", "std", …).

        The result is {} if the dataset has none.
        """
        try:
            found = self._json("stats.json")
        except SourceNotFoundError:
            return {}
        return {
            name: {each: np.asarray(value) for each, value in values.items()}
            for name, values in found.items()
        }

    def _json(self, name: str) -> dict[str, Any]:
        path = f"{self.path}/meta/{name}"
        try:
            with closing(open_file(path, self._storage)) as file:
                data = file.read(0, file.size)
        except SourceNotFoundError as error:
            raise SourceNotFoundError(
                f"{shorten(self.path)} is not the folder of a LeRobot dataset: it has no "
                f"meta/{name}. Pass such a folder, or, for a dataset of Hugging Face, the URL "
                "hf://datasets/user/name."
            ) from error
        try:
            found = json.loads(data)
        except ValueError as error:
            raise self._damaged(name=name, why=error) from error
        if not isinstance(found, dict):
            raise self._damaged(name=name, why="it is not a JSON object")
        return found

    def _damaged(self, *, name: str, why: object) -> SourceError:
        return SourceError(
            f"{shorten(f'{self.path}/meta/{name}')} is damaged: {shorten(why)}. Download the "
            "folder again, or write the dataset again with LeRobot."
        )
