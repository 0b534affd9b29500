"""In the manner of TFDS's guide to data sources: ArrayRecord files of a builder, `as_data_source`,
and a loader over them.

The files lie in the folder `TFDS_DATA_DIR`, and are written there once.
"""

import os
import warnings

import grain.python as grain
import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_datasets as tfds


class Digits(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Small images, their labels and names."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {
            "image": tfds.features.Tensor(shape=(4, 4, 1), dtype=np.uint8),
            "label": tfds.features.Scalar(np.int64),
            "name": tfds.features.Text(),
        }
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, _):
        return {"train": self._generate_examples(0, 40), "test": self._generate_examples(40, 50)}

    def _generate_examples(self, start, stop):
        for number in range(start, stop):
            image = np.full((4, 4, 1), number, np.uint8)
            yield number, {"image": image, "label": number % 10, "name": f"digit {number}"}


class Normalized(grain.MapTransform):
    """Images as numbers below 1, without names."""

    def map(self, features):
        return {"image": features["image"].astype(np.float32) / 255, "label": features["label"]}


class Shifted(grain.RandomMapTransform):
    """Images moved to the side."""

    def random_map(self, features, rng):
        return {**features, "image": np.roll(features["image"], rng.integers(4), axis=1)}


class Odd(grain.FilterTransform):
    """Odd labels."""

    def filter(self, features):
        return features["label"] % 2 == 1


def source(split):
    """The records of a split, which are decoded as they are read."""
    builder = Digits(data_dir=os.environ["TFDS_DATA_DIR"], file_format="array_record")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder.download_and_prepare()
    return builder.as_data_source(split=split)


def pipeline(workers=0):
    """What the program trains on: the second half of the data, of two processes."""
    records = source("train")
    sampler = grain.IndexSampler(
        num_records=len(records),
        shard_options=grain.ShardOptions(shard_index=1, shard_count=2, drop_remainder=True),
        shuffle=True,
        num_epochs=2,
        seed=7,
    )
    return grain.DataLoader(
        data_source=records,
        sampler=sampler,
        operations=[Normalized(), Shifted(), Odd(), grain.Batch(batch_size=3, drop_remainder=True)],
        worker_count=workers,
    )


if __name__ == "__main__":
    print(len(list(pipeline())))
