"""Writes the datasets in the folder `lerobot` with LeRobot's library. Not run by the tests.

    PYTHON_WITH_LEROBOT tests/support/write_lerobot.py

The function `frame` makes the frames, so tests know what must be read.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "sources" / "lerobot"
FPS = 10
LENGTHS = [7, 12, 5, 9]
FEATURES = {
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["a", "b", "c"]},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    "grid": {"dtype": "float32", "shape": (2, 2), "names": ["row", "column"]},
    "note": {"dtype": "string", "shape": (1,), "names": None},
    "top": {"dtype": "video", "shape": (64, 64, 3), "names": ["height", "width", "channels"]},
    "wrist": {"dtype": "image", "shape": (8, 8, 3), "names": ["height", "width", "channels"]},
}


def picture(episode: int, number: int) -> np.ndarray[Any, Any]:
    """Return an image: the grey of its left half tells the frame, the grey of its right half tells
    the episode.
    """
    shown = np.full((64, 64, 3), 40 + 50 * episode, np.uint8)
    shown[:, :32] = 20 + 16 * number
    return shown


def frame(episode: int, number: int) -> dict[str, Any]:
    """The features of a frame, as LeRobot gets them."""
    return {
        "observation.state": np.array([episode, number, episode * number], np.float32),
        "action": np.array([100 * episode, number], np.float32),
        "next.done": np.array([number == LENGTHS[episode] - 1]),
        "grid": np.full((2, 2), number / 2, np.float32),
        "note": f"{episode}-{number}",
        "top": picture(episode, number),
        "wrist": np.full((8, 8, 3), 10 * episode + number, np.uint8),
        "task": ("pick", "place")[episode % 2],
    }


def main() -> None:
    """Writes a dataset in one file of each kind, and one in several."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, megabytes in {"one_file": 100, "several_files": 1e-4}.items():
        dataset = LeRobotDataset.create("toy", FPS, FEATURES, root=FOLDER / name)
        dataset.meta.info.update(
            data_files_size_in_mb=megabytes, video_files_size_in_mb=megabytes, chunks_size=2
        )
        for episode, length in enumerate(LENGTHS):
            for number in range(length):
                dataset.add_frame(frame(episode, number))
            dataset.save_episode()
        dataset.finalize()
        shutil.rmtree(FOLDER / name / "images", ignore_errors=True)


if __name__ == "__main__":
    main()
