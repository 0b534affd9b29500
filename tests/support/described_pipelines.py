"""Pipelines whose sources, orders and operations are of kinds that a state describes in different ways."""

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
        return headrace.samplers.RecordMetadata(index=index, record_key=(index * 5 + self.seed) % 24)


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
    return DataLoader(data_source=source, sampler=order, operations=[*operations, Batch(batch)], **more)


def _grain(shard, **more):
    sampler = IndexSampler(24, shuffle=True, num_epochs=2, seed=3, algorithm="grain")
    return DataLoader(data_source=range(24), sampler=sampler, operations=[Batch(2)], shard_options=shard, **more)


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
    "shard of Grain's order, by the loader": lambda: _grain(ShardOptions(1, 3, drop_remainder=True)),
    "all of Grain's order": lambda: _grain(None),
}
