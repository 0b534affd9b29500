"""Trees of arrays, taken apart and put together."""

import dataclasses
import sys
import threading
from collections import ChainMap, OrderedDict, UserDict
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import numpy as np
import pytest

from headrace import Batch, Filter, Pack, load
from headrace.errors import BatchError
from headrace.operations import BudgetBatch, pad_batch
from headrace.operations.trees import flatten, leaf_names


class Tokens(UserDict):
    """What a tokenizer gives: a mapping with more attributes."""

    def __init__(self, data, encodings=None):
        super().__init__(data)
        self.encodings = encodings


class Record(dict):
    """A dict of a class of its own."""


class Keyed:
    """A class with the methods of JAX's pytrees."""

    def __init__(self, x, name):
        self.x, self.name = x, name

    def tree_flatten(self):
        return (self.x,), self.name

    @classmethod
    def tree_unflatten(cls, name, children):
        return cls(*children, name)


@dataclasses.dataclass
class WithStatic:
    """A dataclass, one of whose fields is part of the structure."""

    x: int
    flax: str = dataclasses.field(default="a", metadata={"pytree_node": False})
    jax: str = dataclasses.field(default="b", metadata={"static": True})


MAPPINGS = [Tokens, Record, MappingProxyType, ChainMap, UserDict]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", MAPPINGS)
@pytest.mark.parametrize("workers", [0, 1])
def test_any_mapping_is_a_node(kind, workers):
    """Batch, pad_batch, BudgetBatch and Pack make dicts of arrays of any mapping, also inside of
    another tree.
    """

    def record(number):
        return kind({"ids": np.arange(number % 3 + 1), "inner": kind({"label": number})})

    (batch,) = load(
        range(4),
        transformations=[record, Batch(4, batch_fn=pad_batch())],
        num_epochs=1,
        worker_count=workers,
    )
    assert type(batch) is type(batch["inner"]) is dict
    assert batch["ids"].tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 2], [0, 0, 0]]
    assert batch["inner"]["label"].tolist() == [0, 1, 2, 3]
    if workers:
        return
    (plain,) = load(
        [kind({"b": 1, "a": 2.5}), kind({"b": 3, "a": 4.5})], batch_size=2, num_epochs=1
    )
    assert {key: leaf.tolist() for key, leaf in plain.items()} == {"b": [1, 3], "a": [2.5, 4.5]}
    assert list(plain) == list(kind({"b": 1, "a": 2.5}))
    ids = [kind({"ids": np.arange(3)})] * 2
    (packed,) = load(ids, transformations=[Pack({"ids": 6}), Batch(1)], num_epochs=1)
    (budgeted,) = load(ids, transformations=[BudgetBatch(6)], num_epochs=1)
    assert packed["ids"].tolist() == [[0, 1, 2, 0, 1, 2]]
    assert budgeted["ids"].tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_mapping_that_is_not_batched_keeps_its_class(workers):
    """What a function returns comes as it is, with all its attributes, whoever calls it."""

    def tokens(number):
        return Tokens({"ids": np.arange(1000) + number}, encodings="kept")

    for more in ([], [Filter(lambda element: True), Batch(2, batch_fn=lambda rows: rows[0])]):
        first, *_ = load(
            range(3), transformations=[tokens, *more], num_epochs=1, worker_count=workers
        )
        assert type(first) is Tokens
        assert first.encodings == "kept"
        assert first["ids"][999] == 999


def test_leaves_of_mappings_have_the_names_of_those_of_dicts():
    """Errors and `mask_key=` name them by their key."""
    assert leaf_names(flatten(Tokens({"b": OrderedDict(c=1), "a": (2, Record(d=3))}))[1]) == [
        "['a'][0]",
        "['a'][1]['d']",
        "['b']['c']",
    ]
    with pytest.raises(BatchError, match=r"\['ids'\]"):
        list(
            load(
                [Tokens({"ids": np.zeros(2)}), Tokens({"ids": np.zeros(3)})],
                batch_size=2,
                num_epochs=1,
            )
        )


def test_classes_with_the_methods_of_pytrees_are_nodes():
    """`tree_flatten` and `tree_unflatten` are enough, so that workers need no JAX."""
    for workers in (0, 1):
        (batch,) = load(
            range(3),
            transformations=[lambda x: Keyed(x, "name"), Batch(3)],
            num_epochs=1,
            worker_count=workers,
        )
        assert (batch.x.tolist(), batch.name) == ([0, 1, 2], "name")


def test_static_fields_of_dataclasses_are_structure():
    """As Flax and JAX mark them: they are not batched, and must be equal."""
    (batch,) = load([WithStatic(1), WithStatic(2)], batch_size=2, num_epochs=1)
    assert (batch.x.tolist(), batch.flax, batch.jax) == ([1, 2], "a", "b")
    with pytest.raises(BatchError, match="structure"):
        list(load([WithStatic(1), WithStatic(2, flax="c")], batch_size=2, num_epochs=1))


@pytest.mark.slow
def test_threads_that_meet_a_dataclass_at_once_all_take_it_apart():
    """Its first sight, in several threads, is no error in any of them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            for _ in range(100):
                kind = dataclasses.make_dataclass("Kind", ["x"])
                together = threading.Barrier(8)

                def leaves(kind=kind, together=together):
                    together.wait()
                    return flatten(kind(1))[0]

                assert [one.result() for one in [threads.submit(leaves) for _ in range(8)]] == [
                    [1]
                ] * 8
    finally:
        sys.setswitchinterval(interval)
