"""A state is refused by another pipeline, and taken by the same one, however it is made again."""

import enum
import functools
import operator
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from support.described_pipelines import PIPELINES, Order, Scale
from support.pipelines import stream

import headrace
from headrace import Batch, DataLoader, IndexSampler
from headrace.errors import CheckpointError
from headrace.loader.plan.identity import differences

RECORDS = 12


class Colour(enum.Enum):
    """A kind of plain value."""

    RED = "red"
    BLUE = "blue"


class Setting:
    """An object of a user's, which no operation is."""

    __slots__ = ("size",)

    def __init__(self, size):
        self.size = size

    def grown(self, element):
        """An operation."""
        return element + self.size


class Added(Setting):
    """A callable object without a `__dict__`."""

    __slots__ = ()

    def __call__(self, element):
        return element + self.size


class HiddenSeed:
    """A sampler that keeps no seed, but an order; without `__len__`, as Grain has them."""

    def __init__(self, seed):
        self.order = np.random.default_rng(seed).permutation(RECORDS)

    def __getitem__(self, index):
        return headrace.samplers.RecordMetadata(index=index, record_key=int(self.order[index]))


class Rows:
    """A source that knows its content as Hugging Face's datasets do."""

    def __init__(self, fingerprint):
        self._fingerprint = fingerprint

    def __len__(self):
        return RECORDS

    def __getitem__(self, key):
        return key


def _closure(value):
    def worked(element):
        return (element, value)[0]

    return worked


def _composed(*functions):
    return _closure(functions)


def _keyword(value):
    def worked(element, *, scale=value):
        return element * scale

    return worked


def _default(value):
    return lambda element, scale=value: element * scale


def _loader(operation=abs, source=range(RECORDS), sampler=None):
    order = sampler or IndexSampler(RECORDS, num_epochs=1)
    return DataLoader(data_source=source, sampler=order, operations=[operation, Batch(2)])


KINDS = {
    "number in a closure": lambda value: _loader(_closure(value)),
    "tuple in a closure": lambda value: _loader(_closure((value, "a"))),
    "NumPy number in a closure": lambda value: _loader(_closure(np.float32(value))),
    "member of an enum in a closure": lambda value: _loader(_closure(list(Colour)[value - 1])),
    "object in a closure": lambda value: _loader(_closure(Setting(value))),
    "function in a closure": lambda value: _loader(_composed(_closure(value), abs)),
    "partial in a closure": lambda value: _loader(_closure(functools.partial(max, value))),
    "default": lambda value: _loader(_default(value)),
    "keyword's default": lambda value: _loader(_keyword(value)),
    "partial": lambda value: _loader(functools.partial(operator.add, value)),
    "function in a partial": lambda value: _loader(functools.partial(_closure(value))),
    "operation": lambda value: _loader(Scale(value)),
    "slot": lambda value: _loader(Added(value)),
    "method": lambda value: _loader(Setting(value).grown),
    "item": lambda value: _loader(operator.itemgetter(value), source=[{1: 5, 2: 5}] * RECORDS),
    "cached function": lambda value: _loader(functools.lru_cache(_closure(value))),
    "list": lambda value: _loader(source=[value] * RECORDS),
    "list of dicts": lambda value: _loader(
        lambda x: x["x"], source=[{"x": np.full(2, value)}] * RECORDS
    ),
    "list of strings": lambda value: _loader(len, source=["", *[str(value)] * RECORDS][:RECORDS]),
    "array": lambda value: _loader(source=np.arange(RECORDS) + value),
    "columns": lambda value: _loader(lambda x: x["x"], source={"x": np.arange(RECORDS) + value}),
    "Hugging Face's fingerprint": lambda value: _loader(source=Rows(f"{value:016x}")),
    "sampler's attribute": lambda value: _loader(sampler=Order(value), source=range(24)),
    "sampler's hidden seed": lambda value: _loader(sampler=HiddenSeed(value)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_refused_where_a_plain_value_is_another(kind):
    """And taken, in less than 1,000 bytes, where all is the same, made anew."""
    state = iter(KINDS[kind](1)).get_state()
    assert len(state) < 1000
    iter(KINDS[kind](1)).set_state(state)
    with pytest.raises(CheckpointError, match="another pipeline"):
        iter(KINDS[kind](2)).set_state(state)


def test_differences_of_lists_are_told_by_number_or_length():
    """A list that is not there on one side is shown."""
    assert differences({"a": [1, 2]}, {"a": [1, 3]}) == ["a: number 1 changed"]
    assert differences({"a": [1, 2]}, {"a": [1]}) == ["a: 2 → 1"]
    assert differences({"a": [1, 2]}, {}) == ["a: [1, 2] → None"]


def _counter():
    """A function that counts its calls, in its closure."""
    calls = 0

    def counted(element):
        nonlocal calls
        calls += 1
        return element

    return counted


def _remembering():
    """A function that remembers what it saw, and uses things that are another in each run."""
    seen, cache, thread = [], {}, threading.Thread()  # which has a number in its name
    buffer = np.empty(4)

    def remembered(element):
        seen.append(element)
        buffer[0] = element
        return cache.setdefault(element, (element, thread)[0])

    return remembered


class Counts(headrace.MapTransform):
    """An operation that counts its calls."""

    calls = 0

    def map(self, element):
        """Counts."""
        self.calls += 1
        return element


@pytest.mark.parametrize("make", [_counter, _remembering])
def test_what_changes_while_a_function_works_is_no_part_of_it(make):
    """A loader made anew with the function after it worked takes the states of the one before."""
    function = make()
    one = iter(_loader(function))
    next(one)
    other = iter(_loader(function))
    other.set_state(one.get_state())
    assert next(other).tolist() == next(one).tolist()


def test_a_pipeline_is_what_it_was_when_it_was_made():
    """Neither an operation that changes while it works, nor records that it changes, make it refuse
    its own states.
    """
    records = [[number] for number in range(RECORDS)]
    loader = DataLoader(
        data_source=records,
        sampler=IndexSampler(RECORDS, num_epochs=1),
        operations=[Counts(), lambda record: record.append(1) or record[0], Batch(2)],
    )
    one = iter(loader)
    before = one.get_state()
    next(one)
    for state in (before, one.get_state()):
        iter(loader).set_state(state)
        iter(loader.with_batch_size(3)).set_state(state)


FOLDERS = os.pathsep.join(map(str, Path(__file__).parents[:2]))

PROGRAM = """
import sys
import test_identity
from support import described_pipelines
for make in test_identity.KINDS.values():
    print(iter(make(1)).get_state().decode())
for make in described_pipelines.PIPELINES.values():
    print(iter(make()).get_state().decode())
"""


@pytest.mark.long
def test_states_are_the_same_in_every_process():
    """Whatever the seed of Python's hashes."""
    prints = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": FOLDERS}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        prints.append(done.stdout)
    assert prints[0] == prints[1]
    assert iter(KINDS["object in a closure"](1)).get_state().decode() in prints[0]


@pytest.mark.parametrize("name", PIPELINES)
def test_the_same_pipeline_made_again_resumes(name):
    """Its sources and operations are other objects."""
    iterator, again = iter(PIPELINES[name]()), iter(PIPELINES[name]())
    next(iterator)
    again.set_state(iterator.get_state())
    assert stream(again) == stream(iterator)


def test_other_hugging_face_datasets_of_the_same_length_are_told_apart():
    """By the fingerprint that they keep; the same dataset opened again is the same source."""
    datasets = pytest.importorskip("datasets")
    states = []
    for shift in (0, 0, 1):
        rows = datasets.Dataset.from_dict({"x": [number + shift for number in range(RECORDS)]})
        states.append(iter(_loader(lambda row: row["x"], source=rows)).get_state())
    assert states[0] == states[1] != states[2]
