"""In the manner of MaxText: several sources, each shuffled and repeated, mixed by weights, mapped,
filtered and batched.
"""

import grain.python as grain
import numpy as np


class Shift(grain.MapTransform):
    """Inputs and targets, one place apart."""

    def map(self, element):
        return {"inputs": element["tokens"][:-1], "targets": element["tokens"][1:]}


class Dropped(grain.RandomMapTransform):
    """Some of the tokens are hidden."""

    def random_map(self, element, rng):
        hidden = rng.random(len(element["inputs"])) < 0.2
        return {**element, "inputs": np.where(hidden, 0, element["inputs"])}


def source(first, count):
    """Documents of nine tokens."""
    documents = [{"tokens": np.arange(first + n, first + n + 9)} for n in range(count)]
    return grain.MapDataset.source(documents).shuffle(seed=first).repeat(2)


def pipeline(workers=0):
    """What the program trains on."""
    mixed = grain.MapDataset.mix(
        [source(0, 30), source(1000, 20), source(2000, 40)], weights=[0.3, 0.1, 0.6]
    )
    dataset = mixed[1::2].to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8))
    dataset = (
        dataset.map(Shift())
        .seed(4)
        .random_map(Dropped())
        .filter(lambda x: int(x["targets"][0]) % 5 != 0)
    )
    return dataset.batch(4, drop_remainder=True).mp_prefetch(grain.MultiprocessingOptions(workers))


if __name__ == "__main__":
    print(len(list(pipeline())))
