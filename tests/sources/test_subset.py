"""Some records of a source: read, told and batched as those of the source are."""

import numpy as np
import pytest
from support.source_conformance import SourceConformance

import headrace
from headrace import Batch, DataLoader, IndexSampler, MemorySource, MixSampler, Subset
from headrace.errors import RecordKeyError
from headrace.sources.facts import facts_of
from headrace.sources.lengths import lengths_of


class TestSubsetOfList(SourceConformance):
    def open(self, folder, count):
        return Subset([f"record {key // 2}" for key in range(2 * count)], np.arange(count) * 2)

    def expected_record(self, key):
        return f"record {key}"


class TestSubsetOfColumns(SourceConformance):
    def open(self, folder, count):
        keys = (np.arange(count)[::-1] + 3).tolist()
        return Subset(
            {"x": np.arange(count + 5), "y": np.arange(2 * count + 10).reshape(-1, 2)}, keys
        )

    def expected_record(self, key):
        other = 99 - key
        return {"x": np.int64(other), "y": np.array([2 * other, 2 * other + 1])}


KEYS = [7, 1, 1, 8]
SOURCES = {
    "columns": MemorySource({"x": np.arange(9) * 10, "y": {"z": np.arange(18).reshape(9, 2)}}),
    "rows": MemorySource([{"x": np.int64(key * 10)} for key in range(9)]),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("worker_count", [0, 2])
@pytest.mark.one_in(2)
def test_batches_are_those_of_the_records(name, worker_count):
    """Also where columns are batched without a record being made; a subset of a subset, too."""
    for subset in (
        Subset(SOURCES[name], KEYS),
        Subset(Subset(SOURCES[name], [1, 7, 8]), [1, 0, 0, 2]),
    ):
        batches = list(headrace.load(subset, batch_size=3, num_epochs=1, worker_count=worker_count))
        assert [batch["x"].tolist() for batch in batches] == [[70, 10, 10], [80]]
        if name == "columns":
            assert batches[0]["y"]["z"].tolist() == [[14, 15], [2, 3], [2, 3]]


@pytest.mark.parametrize("name", SOURCES)
def test_a_subset_may_be_a_part_of_a_mix_and_a_mix_may_be_divided(name):
    """Their columns are batched together."""
    parts = {"a": Subset(SOURCES[name], KEYS), "b": SOURCES[name]}
    loader = DataLoader(data_source=parts, sampler=MixSampler(parts), operations=[Batch(6)])
    assert next(iter(loader))["x"].tolist() == [70, 0, 10, 10, 10, 20]
    mixed = headrace.MixedSource(parts)
    some = Subset(mixed, [0, 3, 2])
    loader = DataLoader(
        data_source=some, sampler=IndexSampler(3, num_epochs=1), operations=[Batch(3)]
    )
    assert next(iter(loader))["x"].tolist() == [70, 10, 10]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_mix_may_be_a_part_of_a_mix(is_first):
    """Batches are then made of records, not of columns."""
    inner = headrace.MixedSource({"a": {"x": np.array([1, 2])}, "b": {"x": np.array([3, 4])}})
    parts = {"mix": inner, "array": {"x": np.arange(10, 14)}}
    parts = parts if is_first else dict(reversed(parts.items()))
    loader = DataLoader(data_source=parts, sampler=MixSampler(parts), operations=[Batch(8)])
    assert sorted(next(iter(loader))["x"].tolist()) == [1, 2, 3, 4, 10, 11, 12, 13]


def test_lengths_are_those_of_the_records():
    """By array, by field, and in a tree."""
    ragged = [np.arange(length) for length in (3, 1, 4, 1, 5)]
    assert lengths_of(Subset(ragged, [4, 0])).tolist() == [5, 3]
    trees = [{"a": {"b": array}, "n": np.int64(len(array))} for array in ragged]
    assert lengths_of(Subset(trees, [4, 0]), "n").tolist() == [5, 3]
    assert facts_of(Subset(headrace.RangeDataSource(5), [1])).lengths_by is None


def test_a_trace_tells_the_records_of_the_source():
    """By their keys there."""
    loader = headrace.load(Subset(SOURCES["rows"], KEYS), batch_size=2, num_epochs=1)
    assert [record.key for record in headrace.trace(loader, 1).records] == [1, 8]


def test_an_asynchronous_source_is_read_in_its_loop():
    """Many records at a time."""

    class Remote:
        def __len__(self):
            return 9

        async def __getitem__(self, key):
            return key * 10

    assert list(headrace.load(Subset(Remote(), KEYS), num_epochs=1)) == [70, 10, 10, 80]


def test_a_source_is_told_which_records_come():
    """By its own keys."""
    told = []

    class Announced(MemorySource):
        @property
        def facts(self):
            return super().facts._replace(announce=lambda keys: told.extend(keys.tolist()))

    list(headrace.load(Subset(Announced(list(range(9))), KEYS), num_epochs=1))
    assert told == KEYS


def test_other_keys_are_another_source():
    """To a state."""
    one, other = (Subset(SOURCES["rows"], keys) for keys in (KEYS, KEYS[::-1]))
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint == Subset(SOURCES["rows"], np.array(KEYS, np.uint8)).fingerprint


@pytest.mark.parametrize(
    ("keys", "error"),
    [([9], RecordKeyError), ([-1], RecordKeyError), ([0.5], TypeError), ([], ValueError)],
)
def test_keys_that_are_none_are_refused(keys, error):
    """When the subset is made."""
    with pytest.raises(error):
        Subset(SOURCES["rows"], keys)
