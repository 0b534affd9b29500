"""Pipelines whose sources, orders and operations are of kinds that a state describes in different
ways.
"""

import functools

import numpy as np

import headrace
from headrace import Batch, DataLoader, Filter, FlatMap, IndexSampler, ShardOptions


class Scale(headrace.MapTransform):
    """An operation with parameters of many kinds."""

    def __init__(self, factor):
        self.factor = factor
        self.table = np.arange(4)
        self.names = {"a": (1, 2.5), "b": ["x", None]}

    def map(self, element):
        """Scales it."""
        return element * self.factor


class Plain:
    """No operation, and not callable."""

    limit = 3

    def __init__(self):
        self.size = 5


class Holder:
    """Callable, with an object in it."""

    def __init__(self):
        self.inner = Plain()
        self.method = self.inner.__init__

    def __call__(self, element):
        return element


class Order:
    """A user's sampler."""

    def __init__(self, seed):
        self.seed = seed

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return headrace.samplers.RecordMetadata(
            index=index, record_key=(index * 5 + self.seed) % 24
        )


class Squares:
    """A user's source."""

    def __len__(self):
        return 24

    def __getitem__(self, key):
        return key * key


def _closure(factor):
    def scaled(element):
        return element * factor

    return scaled


def _power(element, exponent):
    return element**exponent


def _loader(source, *operations, sampler=None, batch=3, **more):
    order = sampler or IndexSampler(24, shuffle=True, num_epochs=1, seed=3)
    return DataLoader(
        data_source=source, sampler=order, operations=[*operations, Batch(batch)], **more
    )


def _grain(shard, **more):
    sampler = IndexSampler(24, shuffle=True, num_epochs=2, seed=3, algorithm="grain")
    return DataLoader(
        data_source=range(24), sampler=sampler, operations=[Batch(2)], shard_options=shard, **more
    )


WEIGHTS = np.arange(24) % 5
CLASSES = np.arange(24) % 7 % 3
PARTS = {"a": range(24), "b": range(100, 110)}


def _ordered(shuffle, shard=None, **more):
    sampler = IndexSampler(24, shuffle=shuffle, num_epochs=2, seed=3, **more)
    return DataLoader(
        data_source=range(24), sampler=sampler, operations=[Batch(3)], shard_options=shard
    )


def _chain():
    return headrace.MapDataset.range(24).seed(3)


def _stream():
    return _chain().shuffle().to_iter_dataset()


PIPELINES = {
    "list": lambda: _loader(list(range(24))),
    "array": lambda: _loader(np.arange(24)),
    "columns": lambda: _loader({"x": np.arange(24)}),
    "range": lambda: _loader(headrace.RangeDataSource(24)),
    "user's source": lambda: _loader(Squares()),
    "user's sampler": lambda: _loader(range(24), sampler=Order(2)),
    "closure": lambda: _loader(range(24), _closure(3)),
    "partial": lambda: _loader(range(24), functools.partial(_power, exponent=2)),
    "operation": lambda: _loader(range(24), Scale(2)),
    "callable": lambda: _loader(range(24), Holder(), abs),
    "ragged": lambda: _loader(range(24), Filter(lambda x: x % 3), FlatMap(lambda x: [x] * (x % 3))),
    "shard of Grain's order, by the loader": lambda: _grain(
        ShardOptions(1, 3, drop_remainder=True)
    ),
    "all of Grain's order": lambda: _grain(None),
    "blocks": lambda: _ordered(shuffle=headrace.BlockShuffle(5)),
    "weights": lambda: _loader(
        range(24), sampler=headrace.WeightedSampler(WEIGHTS, num_epochs=2, seed=3)
    ),
    "weights, without replacement": lambda: _loader(
        range(24),
        sampler=headrace.WeightedSampler(WEIGHTS, 12, replacement=False, num_epochs=2, seed=3),
    ),
    "classes": lambda: _loader(
        range(24), sampler=headrace.BalancedSampler(CLASSES, num_epochs=2, seed=3)
    ),
    "parts in turn": lambda: _loader(
        range(24), sampler=headrace.BpttSampler(24, 6, num_epochs=2, seed=3)
    ),
    "costs": lambda: _ordered(
        shuffle=True,
        balance=headrace.Balance(WEIGHTS + 1, global_batch=6),
        shard=ShardOptions(1, 2),
    ),
    "mix": lambda: _loader(PARTS, sampler=headrace.MixSampler(PARTS, [3, 1], shuffle=True, seed=3)),
    "chain": lambda: _chain().shuffle().repeat(2).batch(3).to_iter_dataset(),
    "mix of chains": lambda: headrace.MapDataset.mix(
        [_chain().shuffle(), _chain().map(abs)], [1, 2]
    ).to_iter_dataset(),
    "mix of streams": lambda: headrace.IterDataset.mix([_stream(), _stream().map(abs)], [1, 2]),
    "window shuffle": lambda: _stream().window_shuffle(6, seed=5),
    "split": lambda: headrace.split(_chain(), [0.75, 0.25], seed=3)[0].to_iter_dataset(),
    "fold": lambda: headrace.kfold(_chain(), 3, seed=3, stratify=CLASSES)[
        1
    ].train.to_iter_dataset(),
}
