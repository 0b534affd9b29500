"""Writes an RLDS dataset of a few episodes, with the serialization of TFDS; TensorFlow is not
needed.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from headrace.formats.tfrecord import framed

LENGTHS = [5, 9, 3, 7]
"""Number of steps of each episode."""


def features() -> Any:
    """Return the features of the dataset, as TFDS describes them."""
    with warnings.catch_warnings(action="ignore"):  # what TFDS says when it is imported
        import tensorflow_datasets as tfds
    kinds = tfds.features
    observation = {
        "image": kinds.Image(shape=(8, 8, 3), encoding_format="jpeg"),
        "state": kinds.Tensor(shape=(3,), dtype=np.float32),
    }
    step = {
        "observation": observation,
        "action": kinds.Tensor(shape=(2,), dtype=np.float32),
        "reward": kinds.Scalar(np.float32),
        "is_first": np.bool_,
        "is_last": np.bool_,
        "is_terminal": np.bool_,
        "language_instruction": kinds.Text(),
    }
    return kinds.FeaturesDict(
        {"steps": kinds.Dataset(step), "episode_metadata": {"file_path": kinds.Text()}}
    )


def episode(number: int) -> dict[str, Any]:
    """Return an episode, as a builder of TFDS yields it."""
    from PIL import Image

    def jpeg(step: int) -> io.BytesIO:
        file = io.BytesIO()
        Image.new("RGB", (8, 8), (40 * number, 20 * step, 0)).save(file, "JPEG")
        return io.BytesIO(file.getvalue())

    length = LENGTHS[number]
    steps = [
        {
            "observation": {"image": jpeg(step), "state": np.full(3, number, np.float32)},
            "action": np.array([number, step], np.float32),
            "reward": np.float32(step == length - 1),
            "is_first": step == 0,
            "is_last": step == length - 1,
            "is_terminal": step == length - 1,
            "language_instruction": f"task {number}",
        }
        for step in range(length)
    ]
    return {"steps": steps, "episode_metadata": {"file_path": f"episode_{number}"}}


def write(folder: Path) -> None:
    """Write the episodes into two TFRecord files of `folder`, which must not exist."""
    folder.mkdir()
    made = features()
    for part in range(2):
        records = [
            made.serialize_example(made.encode_example(episode(number)))
            for number in range(2 * part, 2 * part + 2)
        ]
        name = f"kitchen-train.tfrecord-{part:05d}-of-00002"
        (folder / name).write_bytes(b"".join(map(framed, records)))


def prepare(folder: Path) -> None:
    """Write the episodes as the dataset `kitchen` of TFDS, in files of ArrayRecord."""
    made = features()
    import tensorflow_datasets as tfds

    class Kitchen(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(builder=self, features=made, disable_shuffling=True)

        def _split_generators(self, manager: Any) -> Any:
            return {"train": ((number, episode(number)) for number in range(len(LENGTHS)))}

        def _generate_examples(self) -> Any:
            raise NotImplementedError

    with (
        warnings.catch_warnings(action="ignore"),
        mock.patch.object(tempfile, "tempdir", str(folder.parent)),
    ):
        Kitchen(data_dir=folder, file_format="array_record").download_and_prepare()
