"""The DataLoader of `headrace.compat.grain` beside the real one."""

import itertools
import json
import threading

import grain as real
import pytest
from support import both

import headrace.compat.grain as grain
from headrace.compat.grain import python as pygrain
from headrace.errors import CheckpointError

RECORDS = list(range(23))

PLACES = ((0, 1), (0, 3), (1, 3))  # of 46 records, the first of three shards could have one more
SHARDS = [(kind, *place, drop) for kind in "slq" for place in PLACES for drop in (False, True)]
"""Shards of the sampler, of the loader alone, of a sampler in order."""


def loader(g, operations, shard=("s", 0, 1, False), **options):
    """A loader of a shard of two epochs."""
    kind, *numbers = shard
    options_of_shard = g.sharding.ShardOptions(*numbers)
    if kind == "q":
        sampler = g.samplers.SequentialSampler(23, seed=3, shard_options=options_of_shard)
    else:
        own = {"shard_options": options_of_shard} if kind == "s" else {}
        sampler = g.samplers.IndexSampler(23, shuffle=True, seed=5, num_epochs=2, **own)
    more = {"shard_options": options_of_shard} if kind == "l" else {}
    return g.DataLoader(
        data_source=RECORDS, sampler=sampler, operations=operations, **more, **options
    )


def transforms(g):
    """Lists of operations, by what is special of them."""

    class Noise(g.transforms.RandomMap):
        def random_map(self, element, rng):
            return element + rng.random()

    class Third(g.transforms.Filter):
        def filter(self, element):
            return int(element) % 3 != 0

    class Square(g.transforms.Map):
        def map(self, element):
            return element * element

    class Copies(g.python.experimental.FlatMapTransform):
        max_fan_out = 3

        def flat_map(self, element):
            return [element] * (int(element) % 3 + 1)

    class Spread(g.python.experimental.FlatMapTransform):
        max_fan_out = 9

        def flat_map(self, element):
            return range(int(element) % 5)

    class Odd:
        def __call__(self, records):
            for record in records:
                if record.metadata.index % 2:
                    yield type(record)(record.metadata, (record.data, record.metadata.index))

    batch, old = g.transforms.Batch, g.python
    return {
        "random": [Noise()],
        "two random maps": [Noise(), Third(), Noise(), batch(4)],
        "copies": [Copies()],
        "flat map": [Square(), Copies(), batch(4, drop_remainder=True)],
        "two flat maps": [Noise(), Copies(), Third(), Square(), Copies(), Third(), batch(3)],
        "several flat maps": [Third(), Copies(), Spread(), Copies()],
        "random map of batches": [batch(3), Noise()],
        "older names": [
            old.MapOperation(lambda x: x + 1),
            old.RandomMapOperation(lambda x, rng: x + rng.normal()),
            old.FilterOperation(lambda x: x > 3),
            old.BatchOperation(2),
        ],
        "own operation": [Square(), Odd(), batch(2)],
        "own operation after a random map": [Noise(), Odd()],
        "own operation after a flat map": [Copies(), Odd(), batch(2)],
    }


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", [*transforms(grain)])
def test_loaders_give_grains_elements(name):
    """In Grain's order, with Grain's random numbers, on every shard."""

    def program(g):
        return [list(loader(g, transforms(g)[name], shard)) for shard in SHARDS]

    both.runs_alike(program)


def test_load_gives_grains_elements():
    """The short form as well."""

    def program(g):
        return list(
            g.load(RECORDS, num_epochs=2, shuffle=True, seed=3, batch_size=4, drop_remainder=True)
        )

    both.runs_alike(program)


@pytest.mark.parametrize(
    "name", ["two random maps", "own operation", "own operation after a flat map"]
)
@pytest.mark.one_in(3)
def test_states_of_loaders_are_bytes_that_go_on_anywhere(name):
    """On the same iterator and on another one, with workers too."""
    whole = list(loader(grain, transforms(grain)[name]))
    for taken in (0, 2, len(whole)):
        iterator = iter(loader(grain, transforms(grain)[name]))
        assert not isinstance(iterator, grain.DatasetIterator)
        for _ in range(taken):
            next(iterator)
        state = iterator.get_state()
        assert type(state) is bytes
        other = iter(loader(grain, transforms(grain)[name], worker_count=taken % 3 and 1))
        other.set_state(state)
        assert other.get_state() == state
        assert both.told(list(other)) == both.told(whole[taken:])


def test_states_of_grains_loader_go_on():
    """A checkpoint of Grain's DataLoader is read by ours as it is; that of another sampler is
    refused.
    """
    theirs = iter(loader(real, [real.transforms.Batch(4)]))
    for _ in range(3):
        next(theirs)
    iterator = iter(loader(grain, [grain.transforms.Batch(4)]))
    iterator.set_state(theirs.get_state())
    assert both.told(list(iterator)) == both.told(list(theirs))
    state = json.loads(theirs.get_state())
    other = json.dumps({**state, "sampler": state["sampler"].replace("seed=5", "seed=6")}).encode()
    with pytest.raises(CheckpointError, match="seed 6 → 5"):
        iterator.set_state(other)
    with pytest.raises(CheckpointError, match="the state is not JSON"):
        iterator.set_state(None)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shard", [("s", 0, 1, False), ("l", 1, 3, False), ("q", 0, 1, True)])
def test_states_of_grains_loader_go_on_inside_flat_maps(shard):
    """One or several, with filters before, between and after them; not from several workers."""
    for name, steps in (
        ("copies", 17),
        ("flat map", 5),
        ("two flat maps", 4),
        ("several flat maps", 20),
    ):
        theirs = iter(loader(real, transforms(real)[name], shard))
        for _ in range(steps):
            state = theirs.get_state()
            ours = iter(loader(grain, transforms(grain)[name], shard))
            ours.set_state(state)
            assert both.told(next(ours)) == both.told(next(theirs))
        assert both.told(list(ours)) == both.told(list(theirs))
        ours.set_state(theirs.get_state())
        assert not list(ours)
    workers = json.dumps({"iterators_in_use_states": [json.loads(state)] * 2}).encode()
    copies, batch = transforms(grain)["copies"], grain.transforms.Batch(2, batch_fn=sum)
    batched = iter(loader(grain, [*copies, batch, *copies], shard))
    for iterator, refused in ((ours, workers), (batched, state)):
        with pytest.raises(
            CheckpointError, match="and no FlatMap comes after a Batch of the results"
        ):
            iterator.set_state(refused)


@pytest.mark.parametrize(
    "name", ["own operation", "own operation after a flat map", "random map of batches"]
)
def test_states_of_grains_loader_go_on_with_operations_on_iterators(name):
    """Of one process or none; the operations begin anew at the next record, as in Grain."""
    theirs = iter(loader(real, transforms(real)[name]))
    for _ in range(7):
        next(theirs)
    state = theirs.get_state()
    expected = iter(loader(real, transforms(real)[name]))
    expected.set_state(state)
    ours = iter(loader(grain, transforms(grain)[name]))
    ours.set_state(state)
    expected = both.told(list(expected))
    assert [both.told(next(ours)), both.told(next(ours))] == expected[1:3]
    again = iter(loader(grain, transforms(grain)[name]))
    again.set_state(ours.get_state())
    assert both.told(list(again))[1:] == expected[3:]
    one = json.loads(state)
    two = {"worker_count": 2, "last_seen_indices": {"0": 0, "1": 1}} if "sampler" in one else {}
    workers = one | two if two else {"iterators_in_use_states": [one] * 2}
    with pytest.raises(CheckpointError, match="one worker or none"):
        ours.set_state(json.dumps(workers).encode())


class Backwards:
    """A sampler of a user's own."""

    def __init__(self, g):
        self.metadata = g.RecordMetadata

    def __len__(self):
        return 23

    def __getitem__(self, index):
        return self.metadata(index, 22 - index)


@pytest.mark.parametrize("shard", [(0, 1), (1, 3)])
def test_states_of_grains_loader_go_on_with_any_sampler(shard):
    """In order, or the user's own; not with one of another kind."""

    def iterator_of(g, sampler):
        options = {"data_source": RECORDS, "shard_options": g.sharding.ShardOptions(*shard)}
        return iter(g.DataLoader(**options, sampler=sampler, operations=[g.transforms.Batch(2)]))

    for sampler in (lambda g: g.samplers.SequentialSampler(23), Backwards):
        theirs = iterator_of(real, sampler(real))
        next(theirs), next(theirs)
        state = theirs.get_state()
        ours = iterator_of(grain, sampler(grain))
        ours.set_state(state)
        assert both.told(list(ours)) == both.told(list(theirs))
    in_order = iterator_of(real, real.samplers.SequentialSampler(23)).get_state()
    for other in (grain.samplers.IndexSampler(23, num_epochs=1), Backwards(grain)):
        with pytest.raises(
            CheckpointError, match=r"another sampler, .?SequentialSampler\(num_records=23"
        ):
            iterator_of(grain, other).set_state(in_order)


def test_shard_options_of_a_loader_hold_in_place_of_the_samplers():
    """Each record of the loader's shard comes once; Grain reads records of the sampler's shard,
    some of them twice.
    """

    def records(g, of_sampler, of_loader):
        options = g.sharding.ShardOptions
        sampler = g.samplers.IndexSampler(9, options(*of_sampler), num_epochs=1)
        return list(
            g.DataLoader(data_source=range(9), sampler=sampler, shard_options=options(*of_loader))
        )

    both.runs_alike(records, (0, 1), (1, 3))
    both.runs_alike(records, (1, 2), (1, 2))
    assert records(grain, (1, 2), (0, 1)) == list(range(9))
    assert records(both.real, (1, 2), (0, 1)) == [5, 5, 6, 6, 7, 7, 8, 8, 5]


def test_fewer_records_to_hold_than_threads_are_a_warning_in_the_log(caplog):
    """As Grain's, not one that stops programs whose warnings are errors."""
    with caplog.at_level("WARNING"):
        grain.ReadOptions(num_threads=10, prefetch_buffer_size=0)
        assert caplog.messages == []
        grain.ReadOptions(num_threads=10, prefetch_buffer_size=5)
    assert "prefetch_buffer_size=5 is smaller than num_threads=10" in caplog.text


def test_transforms_need_something_to_do():
    """A function may be passed to any of them; with neither a function nor a method they cannot be
    made.
    """
    assert pygrain.MapTransform(lambda x: x + 1).map(1) == 2
    for name in ("Map", "RandomMap", "MapWithIndex", "Filter", "FlatMap"):
        with pytest.raises(TypeError, match=r"to call\. Pass"):
            getattr(
                grain.transforms, name
            )() if name != "FlatMap" else pygrain.experimental.FlatMapTransform()


@pytest.mark.parametrize("index_first", [True, False])
def test_a_map_with_index_works_beside_operations_on_iterators(index_first):
    """An index is the place in the sampler's order, before and after an operation that leaves
    elements out.
    """

    class Even(pygrain.Operation):
        def __call__(self, records):
            for number, record in enumerate(records):
                if number % 2 == 0:
                    yield record

    class Numbered(pygrain.MapWithIndexTransform):
        def map_with_index(self, index, element):
            return index, element

    sampler = pygrain.SequentialSampler(6, pygrain.NoSharding())
    operations = [Numbered(), Even()] if index_first else [Even(), Numbered()]
    found = list(
        pygrain.DataLoader(
            data_source=range(6), sampler=sampler, operations=operations, worker_count=0
        )
    )
    assert found == [(0, 0), (2, 2), (4, 4)]


def test_a_sampler_of_the_users_own_gives_the_generators():
    """Random maps draw from what the sampler's metadata has."""

    def program(g):
        import numpy as np

        class Backwards:
            def __len__(self):
                return 7

            def __getitem__(self, index):
                if index >= 7:
                    raise IndexError(index)
                return g.RecordMetadata(index, 6 - index, np.random.default_rng(index))

        class Noise(g.transforms.RandomMap):
            def random_map(self, element, rng):
                return element + rng.random()

        return list(
            g.DataLoader(
                data_source=RECORDS,
                sampler=Backwards(),
                operations=[Noise(), g.transforms.Batch(2)],
                shard_options=g.sharding.NoSharding(),
            )
        )

    both.runs_alike(program)


class ByThread:
    """Records from a stream for each reading thread, which is found by the number in the thread's
    name.
    """

    def __init__(self, streams):
        self.streams = [itertools.count(number, streams) for number in range(streams)]

    def __len__(self):
        return 200

    def __getitem__(self, key):
        return next(self.streams[int(threading.current_thread().name.split("_")[1])])

    def __getstate__(self):
        return {"streams": len(self.streams)}

    def __setstate__(self, state):
        self.__init__(state["streams"])


class Unchanged:
    """An operation on an iterator of records."""

    def __call__(self, records):
        yield from records


@pytest.mark.parametrize("kind", ["loader", "workers", "operation", "chain", "mix", "defaults"])
@pytest.mark.slow
def test_sources_are_called_from_numbered_threads_alone(kind):
    """However quick they are, with num_threads > 0: from threads whose names end with their number,
    below that of threads.
    """
    options = (
        None if kind == "defaults" else grain.ReadOptions(num_threads=3, prefetch_buffer_size=12)
    )
    source = ByThread(16 if kind == "defaults" else 3)
    if kind in ("loader", "workers", "operation"):
        stream = grain.DataLoader(
            data_source=source,
            sampler=grain.samplers.IndexSampler(200, num_epochs=1, seed=0),
            operations=[Unchanged()] if kind == "operation" else [],
            worker_count=int(kind == "workers"),
            read_options=options,
        )
    else:
        dataset = grain.MapDataset.source(source).shuffle(seed=1).map(abs)
        if kind == "mix":
            dataset = grain.MapDataset.mix([dataset[:100], dataset[100:].filter(lambda x: True)])
        stream = dataset.to_iter_dataset(options)
    found = list(stream)
    assert len(found) == 200
    assert len(set(found)) == 200


def test_sources_without_threads_are_called_where_records_are_needed():
    """num_threads=0 is none."""
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    names = set()

    class Names:
        def __len__(self):
            return 20

        def __getitem__(self, key):
            names.add(threading.current_thread().name)
            return key

    sampler = grain.samplers.IndexSampler(20, num_epochs=1, seed=0)
    for operations in ([], [Unchanged()]):
        loader = grain.DataLoader(
            data_source=Names(), sampler=sampler, operations=operations, read_options=options
        )
        assert sorted(loader) == list(range(20))
    assert names == {threading.current_thread().name}
