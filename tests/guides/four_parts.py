"""A DataLoader of four parts: source, sampler, operations, workers."""

import grain.python as pygrain
import numpy as np


class Squares:
    def __len__(self):
        return 50

    def __getitem__(self, index):
        return {"x": np.float32(index**2), "index": index}

    def __repr__(self):
        return "Squares()"


class Jitter(pygrain.RandomMapTransform):
    def random_map(self, element, rng):
        return {**element, "x": element["x"] + rng.normal()}


class Even(pygrain.FilterTransform):
    def filter(self, element):
        return element["index"] % 2 == 0


loader = pygrain.DataLoader(
    data_source=Squares(),
    sampler=pygrain.IndexSampler(
        num_records=50,
        num_epochs=2,
        shard_options=pygrain.ShardOptions(1, 2, drop_remainder=True),
        shuffle=True,
        seed=0,
    ),
    operations=[Jitter(), Even(), pygrain.Batch(batch_size=4, drop_remainder=True)],
    worker_count=WORKERS,  # noqa: F821 - the test says how many
)
iterator = iter(loader)
first = next(iterator)
state = iterator.get_state()
rest = list(iterator)
again = iter(loader)
again.set_state(state)
elements = [first, *rest, *again]
