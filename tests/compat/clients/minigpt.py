"""In the manner of Flax's guides: a small language model, whose elements are lists of numbers."""

from dataclasses import dataclass

import grain.python as pygrain

SEEDED = 9


@dataclass
class Stories:
    """Texts of other lengths, as lists of numbers that are filled up."""

    count: int = 50
    length: int = 12

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        tokens = [index * 7 % 90 + n for n in range(index % self.length)]
        return tokens + [0] * (self.length - len(tokens))


def pipeline(workers=0):
    """What the program trains on."""
    sampler = pygrain.IndexSampler(
        50, shuffle=True, seed=SEEDED, shard_options=pygrain.NoSharding(), num_epochs=2
    )
    return pygrain.DataLoader(
        data_source=Stories(),
        sampler=sampler,
        operations=[pygrain.Batch(batch_size=8, drop_remainder=True)],
        worker_count=workers,
    )


if __name__ == "__main__":
    print(len(list(pipeline())))
