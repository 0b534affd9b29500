"""The first element comes after the least work: tasks are of time, and begin small."""

from __future__ import annotations

import itertools
import threading

import pytest

from headrace import Batch, DataLoader, FlatMap, IndexSampler, IterDataset, MapDataset

WHERE = {"inline": {}, "threads": {"worker_count": 1, "worker_kind": "thread"}}


class Calls:
    """A slow operation that counts its calls. Those after the first `free` ones end when they are
    let go.
    """

    def __init__(self, free: int) -> None:
        self.free, self.count = free, 0
        self.let_go = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, element):
        with self._lock:
            self.count += 1
            late = self.count > self.free
        self.let_go.wait(20 if late else 0.05)
        return element


def first_of(elements, calls):
    """The first element; the calls are let go after it."""
    with iter(elements) as iterator:
        try:
            first = next(iterator)
        finally:
            late = calls.let_go.is_set()
            calls.let_go.set()
    assert not late
    return first


@pytest.mark.parametrize("where", WHERE)
def test_the_first_element_of_a_slow_operation_comes_after_two_calls(where):
    """Of one that makes no batches; the third call would never end."""
    calls = Calls(free=2)
    loader = DataLoader(
        data_source=range(1000), sampler=IndexSampler(1000), operations=[calls], **WHERE[where]
    )
    assert first_of(loader, calls) == 0
    if where == "inline":
        assert calls.count <= 2


def streams(calls):
    """The same operation below and above joins."""
    one, other = (MapDataset.source(range(start, start + 1000)) for start in (0, 1000))
    below = [each.map(calls).to_iter_dataset() for each in (one, other)]
    plain = [each.to_iter_dataset() for each in (one, other)]
    return {
        "below a mix": IterDataset.mix(below),
        "above a mix": IterDataset.mix(plain).map(calls),
        "above a zip": IterDataset.zip(plain).map(calls),
        "below a zip": IterDataset.zip(below),
    }


@pytest.mark.parametrize("shape", streams(Calls(0)))
def test_the_first_element_comes_after_two_calls_with_joins(shape):
    """Below them for each input."""
    calls = Calls(free=2)
    assert first_of(streams(calls)[shape], calls) in (0, (0, 1000))
    assert calls.count <= 2


class Expand:
    """1,000 rows of each record; a file has a byte for each call in any process."""

    def __init__(self, path):
        self.path = path

    def __call__(self, record):
        with open(self.path, "ab", 0) as file:
            file.write(b".")
        return [(record, number) for number in range(1000)]


@pytest.mark.parametrize("where", [*WHERE, "processes"])
def test_a_flat_map_makes_no_more_than_the_next_batches_need(where, tmp_path):
    """Of 1,000 rows for each record, a batch of 256 needs one record, and the workers are a few
    ahead.
    """
    path = tmp_path / "calls"
    more = {"worker_count": 1} if where == "processes" else WHERE[where]
    operations = [FlatMap(Expand(str(path))), Batch(256)]
    loader = DataLoader(
        data_source=range(1000), sampler=IndexSampler(1000), operations=operations, **more
    )
    with iter(loader) as iterator:
        first = next(iterator)
        calls = path.stat().st_size
        assert [part.tolist() for part in first] == [[0] * 256, list(range(256))]
        assert sum(len(batch[0]) for batch in itertools.islice(iterator, 40)) == 40 * 256
        later = path.stat().st_size
    assert calls <= (1 if where == "inline" else 8)
    assert later <= 11 + (2 if where == "inline" else 24)
