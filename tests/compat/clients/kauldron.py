"""In the manner of Kauldron: a source by index, sharded, shuffled, transformed by kind, mixed,
repeated, then batched.
"""

import dataclasses

import grain.python as grain
import numpy as np


@dataclasses.dataclass(frozen=True)
class Images(grain.RandomAccessDataSource):
    """Small images and their labels."""

    count: int
    first: int = 0

    def __len__(self):
        return self.count

    def __getitem__(self, record_key):
        label = self.first + int(record_key)
        return {
            "image": np.full((6, 6, 1), label, np.uint8),
            "label": label,
            "name": f"image {label}",
        }


@dataclasses.dataclass(frozen=True)
class Elements(grain.MapTransform):
    """Keeps some of the features."""

    keep: tuple[str, ...]

    def map(self, features):
        return {name: features[name] for name in self.keep}


@dataclasses.dataclass(frozen=True)
class RandomCrop(grain.RandomMapTransform):
    """A part of the image, and noise."""

    size: int

    def random_map(self, features, rng):
        top, left = rng.integers(0, 6 - self.size, 2)
        crop = features["image"][top : top + self.size, left : left + self.size]
        return {**features, "image": crop + rng.normal(size=crop.shape).astype(np.float32)}


@dataclasses.dataclass(frozen=True)
class NotDivisible(grain.FilterTransform):
    """Leaves labels out."""

    by: int

    def filter(self, features):
        return features["label"] % self.by != 0


def transformed(dataset, transforms):
    """Each transform by its kind."""
    for transform in transforms:
        if isinstance(transform, grain.MapTransform):
            dataset = dataset.map(transform)
        elif isinstance(transform, grain.RandomMapTransform):
            dataset = dataset.random_map(transform)
        elif isinstance(transform, grain.FilterTransform):
            dataset = dataset.filter(transform)
        else:
            raise TypeError(transform)
    return dataset


def part(source, seed):
    """What this process has of a source."""
    dataset = grain.MapDataset.source(source).seed(seed)[0::2].shuffle(seed=seed + 1)
    return transformed(dataset, [Elements(("image", "label")), RandomCrop(4), NotDivisible(7)])


def pipeline(workers=0):
    """What the program trains on."""
    mixed = grain.MapDataset.mix([part(Images(60), 5), part(Images(30, 100), 8)], weights=[2, 1])
    dataset = mixed.repeat(2).to_iter_dataset(read_options=grain.ReadOptions(num_threads=2))
    return dataset.batch(5, drop_remainder=True).mp_prefetch(
        grain.MultiprocessingOptions(num_workers=workers)
    )


if __name__ == "__main__":
    print(len(list(pipeline())))
