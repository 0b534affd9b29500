"""RLDS datasets, serialized by TFDS, read without TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
from support import write_rlds

import headrace

FEATURES = {
    "steps/observation/image": (bytes, (None,)),
    "steps/observation/state": (np.float32, (None, 3)),
    "steps/action": (np.float32, (None, 2)),
    "steps/reward": (np.float32, (None,)),
    "steps/is_first": (bool, (None,)),
    "steps/language_instruction": (str, (None,)),
    "episode_metadata/file_path": str,
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def _step(record, step):
    """Return a step of an episode whose fields are arrays."""
    found = {
        name.partition("/")[2]: values[step]
        for name, values in record.items()
        if name.startswith("steps/")
    }
    return {**found, "observation/image": headrace.DecodeImage().map(found["observation/image"])}


def test_episodes_are_the_same_from_both_kinds_of_files(tmp_path):
    """Step by step: what TFDS decodes from ArrayRecord, and the arrays of the TFRecord files."""
    write_rlds.write(tmp_path / "files")
    write_rlds.prepare(tmp_path / "prepared")
    arrays = headrace.TFRecordDataSource(str(tmp_path / "files" / "*.tfrecord*"), features=FEATURES)
    decoded = headrace.TfdsDataSource("kitchen", "train", data_dir=tmp_path / "prepared")
    assert len(arrays) == len(decoded) == len(write_rlds.LENGTHS)
    for number, length in enumerate(write_rlds.LENGTHS):
        steps, record = decoded[number]["steps"], arrays[number]
        assert len(steps) == len(record["steps/action"]) == length
        assert record["episode_metadata/file_path"] == f"episode_{number}"
        for step in range(length):
            theirs, ours = steps[step], _step(record, step)
            for name in ("action", "reward", "is_first"):
                np.testing.assert_array_equal(ours[name], theirs[name])
            assert (
                ours["language_instruction"]
                == theirs["language_instruction"].decode()
                == f"task {number}"
            )
            np.testing.assert_array_equal(ours["observation/state"], theirs["observation"]["state"])
            image = theirs["observation"]["image"]
            np.testing.assert_allclose(
                ours["observation/image"].astype(int), image.astype(int), atol=2
            )


def test_windows_of_episodes_have_their_steps(tmp_path):
    """In the order of episodes and steps."""
    write_rlds.write(tmp_path / "files")
    arrays = headrace.TFRecordDataSource(str(tmp_path / "files" / "*.tfrecord*"), features=FEATURES)
    windows = headrace.Windows(arrays, length=3, stride=1, lengths="steps/action")
    expected = [
        [[number, step + more] for more in range(3)]
        for number, length in enumerate(write_rlds.LENGTHS)
        for step in range(length - 2)
    ]
    assert [window["steps/action"].tolist() for window in windows] == expected
