"""Mixes of streams whose sources grow while the run goes on: `IterDataset.mix` over growing
sources.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
from support.growing_source import GrowingKeys, append, write

from headrace import (
    Batch,
    Filter,
    GrowthOptions,
    IterDataset,
    MapDataset,
    MapTransform,
    Pack,
    ReadOptions,
)

B = 1000
"""The first record of part "b"."""


@pytest.fixture
def folder(tmp_path):
    """Parts of four and six records."""
    append(tmp_path / "a.json", 4)
    append(tmp_path / "b.json", 6)
    return tmp_path


def _stream(folder, name, epochs=3, shard=None, growth=None, first=0):
    source = GrowingKeys(folder / f"{name}.json", first=first)
    chain = MapDataset.source(source).shuffle(seed=1).repeat(epochs)
    return chain.to_iter_dataset(ReadOptions(num_threads=0), shard_options=shard, growth=growth)


def _mix(folder, then=(), when="all", **options):
    streams = {"a": _stream(folder, "a", **options), "b": _stream(folder, "b", first=B, **options)}
    stream = IterDataset.mix(streams, [1, 1], when_exhausted=when)
    for operation in then:
        stream = stream.then(operation)
    return stream


def _counts(elements):
    return Counter(int(key) for element in elements for key in element.ravel())


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_appended_to_a_stream_comes_from_its_next_epoch_on(folder, workers):
    """What is appended to a stream comes from its next epoch on."""
    iterator = iter(_mix(folder, [Batch(2)]).with_options(worker_count=workers))
    begun = list(islice(iterator, 3))  # three records of each, in their first epochs
    append(folder / "a.json", 2)
    assert _counts([*begun, *iterator]) == {
        **dict.fromkeys(range(4), 3),
        4: 2,
        5: 2,
        **dict.fromkeys(range(B, B + 6), 3),
    }


def test_with_growth_now_it_comes_in_the_epoch_under_way(folder):
    """With growth now it comes in the epoch under way."""
    options = {"growth": GrowthOptions("now", every=2), "epochs": 1}
    iterator = iter(_mix(folder, [Batch(2)], **options))
    begun = list(islice(iterator, 2))
    append(folder / "b.json", 3)
    assert _counts([*begun, *iterator]) == dict.fromkeys([*range(4), *range(B, B + 9)], 1)


@pytest.mark.one_in(3)
@pytest.mark.long
@pytest.mark.parametrize(
    "then", [[Batch(2)], [Filter(lambda key: key % 5 != 3), Batch(2)], [Pack(3)]], ids=repr
)
def test_a_state_of_any_step_continues_with_the_same_changes(folder, then):
    """Also where the loader that resumes is made over more records than the run has seen."""
    if isinstance(then[0], Pack):
        then = [MapTransform(np.atleast_1d), Pack(3, window=4)]
    keys = lambda element: element["tokens"] if isinstance(element, dict) else element  # noqa: E731
    iterator, states, elements = iter(_mix(folder, then)), [], []
    states.append(iterator.get_state())
    for step, element in enumerate(iterator):
        elements.append(keys(element))
        states.append(iterator.get_state())
        if step in (1, 4):
            append(folder / "a.json", 1)
        if step == 3:
            append(folder / "b.json", 2)
    assert (_counts(elements)[B + 6], _counts(elements)[4]) == (2, 2)
    for step, state in list(enumerate(states))[6:]:  # all changes are decided there
        again = iter(_mix(folder, then))
        again.set_state(state)
        rest = [keys(element).tolist() for element in again]
        assert rest == [element.tolist() for element in elements[step:]], step


@pytest.mark.parametrize("then", [[], [Filter(lambda key: True)]], ids=["plain", "filter"])
def test_records_that_are_there_come_before_the_run_waits_for_a_writer(folder, monkeypatch, then):
    """Records that are there come before the run waits for a writer."""
    write(folder / "a.json", [4, -1])
    monkeypatch.setattr("headrace.loader.state.growing.PAUSE_SECONDS", 0.001)
    iterator = iter(_mix(folder, [*then, Batch(1)], epochs=1))
    first = list(islice(iterator, 8))  # four of each; then "a" has none left
    assert sum(_counts(first).values()) == 8
    write(folder / "a.json", [4, 5])
    assert _counts([*first, *iterator]) == dict.fromkeys([*range(5), *range(B, B + 6)], 1)


def test_two_streams_of_one_source_take_in_records_each_at_its_own_time(folder):
    """Though they write what they found to one folder: one begins its second epoch earlier."""
    growth = GrowthOptions(log=folder / "log")
    streams = {name: _stream(folder, "a", growth=growth) for name in ("early", "late")}
    iterator = iter(IterDataset.mix(streams, [3, 1], when_exhausted="all").batch(1))
    begun = list(islice(iterator, 8))  # six of one, two of the other
    append(folder / "a.json", 1)
    assert _counts([*begun, *iterator])[4] == 1 + 2


def test_mixes_of_mixes_grow(folder):
    """Mixes of mixes grow."""
    inner = _mix(folder)
    stream = IterDataset.mix(
        [inner, MapDataset.source(range(2000, 2010)).to_iter_dataset()], when_exhausted="all"
    )
    iterator = iter(stream.then(Batch(1)))
    begun = list(islice(iterator, 4))  # one of "b"
    append(folder / "b.json", 1)
    assert _counts([*begun, *iterator])[B + 6] == 2


@pytest.mark.parametrize(
    "join",
    [
        lambda stream: IterDataset.zip([stream, stream]),
        lambda stream: stream.limit(2),
        lambda stream: stream.cache(),
        lambda stream: stream.repeat(2),
        lambda stream: IterDataset.mix([stream, stream], when_exhausted="repeat"),
    ],
    ids=["zip", "limit", "cache", "repeat", "mix that repeats"],
)
def test_other_joins_of_growing_streams_are_refused(folder, join):
    """Other joins of growing streams are refused."""
    with pytest.raises(
        ValueError, match=r"can be mixed with others, but not .* call repeat\(\) before"
    ):
        join(_stream(folder, "a"))
