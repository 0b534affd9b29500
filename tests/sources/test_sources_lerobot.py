"""Datasets that LeRobot's library has written (`write_lerobot.py`): frames, windows of them, videos
and images.
"""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.source_conformance import SourceConformance
from support.write_lerobot import FOLDER, FPS, LENGTHS, frame, picture

from headrace import DecodeImage, DecodeVideo, LeRobotSource
from headrace.errors import SourceError, SourceNotFoundError, VideoError

COUNT = sum(LENGTHS)
PLACES = [(episode, number) for episode, length in enumerate(LENGTHS) for number in range(length)]
BEGINS = np.cumsum([0, *LENGTHS])
FOLDERS = ["one_file", "several_files"]


def expected(episode, number, image, path):
    """The record of a frame, if each episode has a video of its own."""
    given = frame(episode, number)
    return {
        "observation.state": given["observation.state"],
        "action": given["action"],
        "next.done": np.bool_(given["next.done"][0]),
        "grid": given["grid"],
        "note": given["note"],
        "wrist": image,
        "timestamp": np.float32(number / FPS),
        "frame_index": np.int64(number),
        "episode_index": np.int64(episode),
        "index": np.int64(BEGINS[episode] + number),
        "task_index": np.int64(episode % 2),
        "task": given["task"],
        "top": {"path": path, "times": (number + 0.5) / FPS},
    }


class TestLeRobot(SourceConformance):
    """Frames of several files."""

    on_files = True
    count = COUNT

    def write(self, folder, count):
        self.folder = shutil.copytree(FOLDER / "several_files", folder / "toy")

    def open(self, folder, count):
        return LeRobotSource(folder / "toy", episodes=None if count == COUNT else [0, 1, 2])

    def expected_record(self, key):
        episode, number = PLACES[key]
        place = f"chunk-00{episode // 2}/file-00{episode % 2}"
        images = pq.read_table(self.folder / f"data/{place}.parquet", columns=["wrist"])["wrist"]
        return expected(
            episode, number, images[number].as_py(), f"{self.folder}/videos/top/{place}.mp4"
        )


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("episodes", [None, [1], [3, 0], range(1, 3)])
def test_every_frame_has_the_values_and_pictures_that_were_written(name, episodes):
    """For all episodes, and for some of them in any order."""
    source = LeRobotSource(FOLDER / name, episodes=episodes)
    chosen = range(len(LENGTHS)) if episodes is None else episodes
    places = [(episode, number) for episode in chosen for number in range(LENGTHS[episode])]
    assert len(source) == len(places)
    for record, (episode, number) in zip(source.__getitems__(range(len(source))), places):
        shown = DecodeVideo(key="top").map(DecodeImage(key="wrist").map(record))
        assert np.abs(shown["top"].astype(int) - picture(episode, number)).max() < 8
        assert (shown["wrist"] == frame(episode, number)["wrist"]).all()
        assert (shown["action"] == frame(episode, number)["action"]).all()
        assert shown["task"] == frame(episode, number)["task"]


DELTAS = {
    "action": [-0.2, 0, 0.1, 0.3],
    "top": [-0.1, 0],
    "next.done": [0.1],
    "note": [-0.1, 0.1],
    "wrist": [-0.1, 0, 0.1],
}


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("pad", ["edge", "zero", False])
def test_windows_have_the_frames_at_their_times_inside_of_the_episode(name, pad):
    """Every window is compared with the frames that were written, with each way to pad."""
    source = LeRobotSource(FOLDER / name, delta_timestamps=DELTAS, pad=pad)
    places = [(e, n) for e, n in PLACES if pad or 2 <= n < LENGTHS[e] - 3]
    assert len(source) == len(places)
    for record, (episode, number) in zip(source.__getitems__(np.arange(len(source))), places):
        for field, times in DELTAS.items():
            wanted = [number + round(FPS * seconds) for seconds in times]
            is_pad = [not 0 <= each < LENGTHS[episode] for each in wanted]
            assert record[f"{field}_is_pad"].tolist() == is_pad
            near = [
                frame(episode, min(max(each, 0), LENGTHS[episode] - 1))[field] for each in wanted
            ]
            if field == "top":
                found = DecodeVideo(key=field).map(record)[field]
                assert np.abs(found.astype(int) - np.stack(near)).max() < 8
            elif field == "wrist":
                assert (DecodeImage(key=field).map(record)[field] == np.stack(near)).all()
            else:
                empty = None if field == "note" else np.zeros_like(near[0])
                stacked = [
                    empty if pad == "zero" and padded else each
                    for padded, each in zip(is_pad, near)
                ]
                values = np.array(stacked, record[field].dtype)
                assert (record[field] == values.reshape(record[field].shape)).all()
                assert len(record[field]) == len(times)


def test_only_the_files_of_the_chosen_episodes_are_needed(tmp_path):
    """As after a download of some episodes."""
    shutil.copytree(FOLDER / "several_files", tmp_path / "toy")
    shutil.rmtree(tmp_path / "toy" / "data" / "chunk-000")
    source = LeRobotSource(tmp_path / "toy", episodes=[2, 3])
    assert [record["index"] for record in source.__getitems__(range(3))] == [
        BEGINS[2],
        BEGINS[2] + 1,
        BEGINS[2] + 2,
    ]
    with pytest.raises(SourceNotFoundError, match=r"data/chunk-000/file-000\.parquet"):
        LeRobotSource(tmp_path / "toy")


def test_what_is_known_about_the_dataset():
    """Features, tasks, frames per second, statistics; a small pickle; a text."""
    source = LeRobotSource(FOLDER / "one_file")
    assert source.fps == FPS
    assert source.features["grid"] == ("float32", (2, 2))
    assert source.tasks == ("pick", "place")
    assert source.video_keys == ("top",)
    assert source.image_keys == ("wrist",)
    every = np.array([frame(*place)["action"] for place in PLACES])
    np.testing.assert_allclose(source.statistics()["action"]["mean"], every.mean(0), rtol=1e-6)
    assert repr(source).startswith(f"LeRobotSource({COUNT} frames of 4 episodes in ")
    assert len(pickle.dumps(source)) < 20_000


def test_fingerprints_name_what_changes_the_records():
    """Other episodes, their order, other times and another padding are other streams."""
    variants = [
        {},
        {"episodes": [0, 1]},
        {"episodes": [1, 0]},
        {"delta_timestamps": {"action": [0]}},
        {"delta_timestamps": {"action": [0, 0.1]}},
        {"delta_timestamps": {"action": [0, 0.1]}, "pad": "zero"},
    ]
    prints = [
        json.dumps(LeRobotSource(FOLDER / "one_file", **each).fingerprint) for each in variants
    ]
    assert len(set(prints)) == len(variants)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"episodes": [4]}, ValueError, r"episodes=\[4\] must be different numbers from 0 to 3"),
        ({"episodes": [1, 1]}, ValueError, r"episodes=\[1, 1\] must be different"),
        ({"episodes": []}, ValueError, r"at least one"),
        ({"episodes": "all"}, TypeError, r"episodes='all' is not a list of integers"),
        (
            {"episodes": [[0], [0, 1]]},
            TypeError,
            r"episodes=\[\[0\], \[0, 1\]\] is not a list of integers",
        ),
        ({"delta_timestamps": {"action": [[0], [0, 1]]}}, TypeError, r"is not a list of numbers"),
        (
            {"delta_timestamps": {"actions": [0]}},
            ValueError,
            r"names 'actions', which is not a feature. Pass one of",
        ),
        (
            {"delta_timestamps": {"action": [0.15]}},
            ValueError,
            r"has 0.15 s, which is not a multiple .* 1/10 s",
        ),
        (
            {"delta_timestamps": {"action": [float("nan")]}},
            ValueError,
            r"has nan s, which is not a multiple .* 1/10 s",
        ),
        ({"delta_timestamps": {"action": 0.1}}, TypeError, r"is not a list of numbers"),
        ({"delta_timestamps": {"action": []}}, ValueError, r"\['action'\] is empty"),
        ({"delta_timestamps": [0.1]}, TypeError, r"Pass a dict from features to lists of seconds"),
        (
            {"delta_timestamps": {"action": [2.0]}, "pad": False},
            ValueError,
            r"no episode is long enough for offsets from \+0 to \+20 frames",
        ),
        (
            {"pad": "wrap"},
            ValueError,
            r'pad=\'wrap\' is not supported. Pass "edge", "zero" or False',
        ),
    ],
)
def test_a_wrong_argument_is_named_with_what_to_pass(options, error, text):
    """Each wrong episode, time, feature or padding."""
    with pytest.raises(error, match=text):
        LeRobotSource(FOLDER / "one_file", **options)


def _changed(folder, change):
    shutil.copytree(FOLDER / "one_file", folder / "toy")
    info = json.loads((folder / "toy" / "meta" / "info.json").read_text())
    change(folder / "toy", info)
    (folder / "toy" / "meta" / "info.json").write_text(json.dumps(info))
    return folder / "toy"


def _rewritten(path, change):
    """Write a Parquet file with a changed table."""
    pq.write_table(change(pq.read_table(path)), path)


EPISODES, TASKS, DATA = (
    "meta/episodes/chunk-000/file-000.parquet",
    "meta/tasks.parquet",
    "data/chunk-000/file-000.parquet",
)
DAMAGES = {
    "former version": (
        lambda folder, info: info.update(codebase_version="v2.1"),
        "version 'v2.1'; version v3.0 can be read",
    ),
    "no features": (
        lambda folder, info: info.pop("features"),
        r"info\.json is damaged: 'features'",
    ),
    "an episode is missing": (
        lambda folder, info: _rewritten(folder / EPISODES, lambda table: table.slice(1)),
        r"episodes is damaged: its episodes are not numbered",
    ),
    "no lengths": (
        lambda folder, info: _rewritten(
            folder / EPISODES, lambda table: table.drop_columns("length")
        ),
        r"episodes is damaged: it lacks one of the columns episode_index, length,",
    ),
    "no tasks": (
        lambda folder, info: _rewritten(
            folder / TASKS, lambda table: table.drop_columns("task_index")
        ),
        r"tasks\.parquet is damaged: it has the columns",
    ),
    "fewer frames": (
        lambda folder, info: _rewritten(folder / DATA, lambda table: table.slice(1)),
        r"have 32 frames, but meta/episodes of .* says 33",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_dataset_is_named(name, tmp_path):
    """The error says which file is wrong, and how to repair it."""
    change, text = DAMAGES[name]
    with pytest.raises(SourceError, match=text):
        LeRobotSource(_changed(tmp_path, change))


def test_frames_in_another_order_than_the_episodes_are_noticed(tmp_path):
    """Files of two versions of a dataset, which have the same number of frames."""
    folder = _changed(
        tmp_path,
        lambda folder, info: _rewritten(folder / DATA, lambda t: t.take(np.arange(COUNT)[::-1])),
    )
    with pytest.raises(
        SourceError, match=r"frame 0 of episode 0 is not where meta/episodes of .* says"
    ):
        LeRobotSource(folder)[0]


def test_what_is_no_dataset_is_refused(tmp_path):
    """An empty folder."""
    with pytest.raises(
        SourceNotFoundError,
        match=r"is not the folder of a LeRobot dataset: it has no meta/info\.json",
    ):
        LeRobotSource(tmp_path)


@pytest.mark.parametrize("choice", [{"frames": [0]}, {"times": [0.0]}])
def test_a_video_with_its_own_times_takes_no_others(choice):
    """`frames=` or `times=` of the operation."""
    record = LeRobotSource(FOLDER / "one_file")[0]
    with pytest.raises(VideoError, match=r"Leave out frames= and times="):
        DecodeVideo(key="top", **choice).map(record)
