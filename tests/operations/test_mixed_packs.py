"""Documents of several datasets, mixed and packed: what happens to them on other shards, with killed workers, on devices."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter

import numpy as np
import orbax.checkpoint as ocp
import pytest
from support import device_programs
from support.own_processes import workers
from support.pipelines import stream

from headrace import IterDataset, MapDataset, ShardOptions
from headrace.checkpoint import CheckpointRestore, CheckpointSave
from headrace.errors import WorkerCrashedError

SIZES = {"web": 40, "books": 25, "code": 9}
WEIGHTS = {"web": 0.6, "books": 0.3, "code": 0.1}
FIRST = {name: 10_000 * number for number, name in enumerate(SIZES, 1)}


def documents(name):
    """Of a dataset: arrays of up to eleven tokens, of which no two are the same."""
    lengths = np.random.default_rng(FIRST[name]).integers(0, 12, SIZES[name])
    stops = FIRST[name] + np.cumsum(lengths)
    return [np.arange(stop - length, stop, dtype=np.int32) for length, stop in zip(lengths, stops)]


DOCUMENTS = {name: documents(name) for name in SIZES}
TOKENS = Counter(int(token) for name in SIZES for document in DOCUMENTS[name] for token in document)


def packed(rows):
    """The stream of packed rows."""
    return rows.pack(16, window=7)


def by_position(weights=WEIGHTS):
    """Mixed by index arithmetic."""
    parts = {name: MapDataset.source(DOCUMENTS[name]).shuffle(seed=5) for name in SIZES}
    return MapDataset.mix(parts, weights, when_exhausted="all").to_iter_dataset()


def by_rows(weights=WEIGHTS):
    """Mixed after filters."""
    parts = {
        name: MapDataset.source(DOCUMENTS[name])
        .shuffle(seed=5)
        .to_iter_dataset()
        .filter(lambda document: document.size)
        for name in SIZES
    }
    return IterDataset.mix(parts, weights, when_exhausted="all")


def packed_parts(weights=WEIGHTS):
    """Packed, then mixed."""
    parts = {name: packed(MapDataset.source(DOCUMENTS[name]).shuffle(seed=5).to_iter_dataset()) for name in SIZES}
    return IterDataset.mix(parts, weights, when_exhausted="all")


CHAINS = {
    "mix, pack": lambda: packed(by_position()),
    "mix of filtered, pack, batch": lambda: packed(by_rows()).batch(2, batch_fn=list),
    "pack, mix": packed_parts,
    "pack, mix, batch": lambda: packed_parts().batch(3, batch_fn=list),
}


def tokens(elements):
    """How often each token stands in rows, or in batches of rows."""
    rows = [row for element in elements for row in (element if isinstance(element, list) else [element])]
    return Counter(token for row in rows for token in row["tokens"][row["tokens_segment_ids"] > 0].tolist())


def shards_of(chain, count, states=(), **options):
    """The iterators of all shards, which go on from states."""
    iterators = [iter(chain().shard(ShardOptions(index, count))) for index in range(count)]
    for iterator in iterators if states else ():
        iterator.set_states(states, **options)
    return iterators


def run_at_random(chain, generator):
    """Elements of a run that is stopped several times, at unequal steps, and goes on with another number of shards."""
    seen, states = [], ()
    for _ in range(int(generator.integers(1, 4))):
        iterators = shards_of(chain, int(generator.integers(1, 5)), states)
        for iterator in iterators:
            seen += itertools.islice(iterator, int(generator.integers(0, 6)))
        states = [iterator.get_state() for iterator in iterators]
    for iterator in shards_of(chain, int(generator.integers(1, 5)), states):
        seen += iterator
    return seen


@pytest.mark.one_in(4)
@pytest.mark.parametrize("histories", [range(5), pytest.param(range(5, 250), marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CHAINS)
def test_each_token_comes_once_whatever_the_history(name, histories):
    """Of all documents of each dataset, over several runs on any numbers of shards."""
    for seed in histories:
        assert tokens(run_at_random(CHAINS[name], np.random.default_rng(seed))) == TOKENS


@pytest.mark.parametrize("histories", [range(5), pytest.param(range(5, 250), marks=pytest.mark.long)])
@pytest.mark.parametrize("chain", [by_position, by_rows])
@pytest.mark.one_in(2)
def test_each_document_comes_once_whatever_becomes_of_the_weights(chain, histories):
    """They change with each run, and so does the number of shards."""
    for seed in histories:
        generator = np.random.default_rng(seed)
        seen, states = [], ()
        for _ in range(3):
            weights = dict(zip(SIZES, generator.dirichlet([1, 1, 1]).tolist()))
            iterators = shards_of(lambda: chain(weights), int(generator.integers(1, 4)), states, strict=False)  # noqa: B023
            for iterator in iterators:
                seen += itertools.islice(iterator, int(generator.integers(0, 9)))
            states = [iterator.get_state() for iterator in iterators]
        seen += itertools.chain.from_iterable(iterators)
        assert Counter(token for document in seen for token in document.tolist()) == TOKENS


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.one_in(4)
def test_killed_workers_change_no_mix_and_no_pack(name):
    """Each that is killed is replaced, and the stream goes on unchanged."""
    expected = stream(CHAINS[name]())
    got = []
    with iter(CHAINS[name]().mp_prefetch(2)) as iterator:
        for step, element in enumerate(iterator):
            got += stream([element])
            if step in (1, 6):
                workers()[0].send_signal(signal.SIGKILL)
    assert got == expected


def test_a_document_that_ends_its_worker_is_named_with_its_dataset():
    """After what comes before it."""
    deadly = int(DOCUMENTS["books"][3][0])

    def ends(document):
        if deadly in document:
            os._exit(3)
        return document

    def chain(function):
        parts = {name: MapDataset.source(DOCUMENTS[name]).to_iter_dataset().filter(np.size) for name in SIZES}
        return packed(IterDataset.mix(parts, WEIGHTS).map(function)).mp_prefetch(1)

    with pytest.raises(WorkerCrashedError, match="3 of books"):
        list(chain(ends))


@pytest.mark.parametrize("steps", [range(3), pytest.param(range(3, 25), marks=pytest.mark.long)])
@pytest.mark.long
def test_abandoned_chains_leave_nothing(steps):
    """At whatever step: no process, thread, descriptor or memory."""
    for step in steps:
        for chain in CHAINS.values():
            iterator = iter(chain().with_options(worker_count=2, worker_kind="thread" if step % 2 else "process"))
            for _ in range(step % 9):
                next(iterator)
            del iterator


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CHAINS)
def test_orbax_saves_and_restores_a_chain(name, tmp_path):
    """In the middle; the rest comes with other workers."""
    iterator = iter(CHAINS[name]())
    for _ in range(4):
        next(iterator)
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(4, args=ocp.args.Composite(data=CheckpointSave(iterator)))
        manager.wait_until_finished()
        with iter(CHAINS[name]().with_options(worker_count=2, worker_kind="thread")) as again:
            manager.restore(4, args=ocp.args.Composite(data=CheckpointRestore(again)))
            assert stream(again) == stream(iterator)


@pytest.mark.long
def test_a_mixed_and_packed_chain_goes_on_eight_devices_and_is_resumed_there(tmp_path):
    """Its batches are those of the host, divided over the devices, and states say where the user stands, with batches ahead."""
    device_programs.run(
        """
        import sys
        import jax, numpy as np
        import orbax.checkpoint as ocp
        from jax.sharding import Mesh
        from headrace import IterDataset, MapDataset
        from headrace.checkpoint import CheckpointRestore, CheckpointSave

        def part(first, count):
            documents = [np.arange(first + x, first + x + x % 7, dtype=np.int32) for x in range(count)]
            return MapDataset.source(documents).shuffle(seed=first).to_iter_dataset().filter(np.size)

        mixed = IterDataset.mix({"a": part(0, 300), "b": part(5000, 150)}, [(0, [1, 2]), (100, [3, 1])], when_exhausted="all")
        chain = mixed.pack(16, window=20, max_segments=4).batch(8, drop_remainder=True)
        sharding = (Mesh(np.array(jax.devices()), ("data",)), "data")
        expected = list(chain)

        def same(feeder, batches):
            got = list(feeder)
            assert len(got) == len(batches) > 3
            for one, other in zip(got, batches):
                assert all(len(leaf.sharding.device_set) == 8 for leaf in one.values())
                np.testing.assert_equal(jax.tree.map(np.asarray, one), other)

        with iter(chain.mp_prefetch(1).to_device(sharding)) as feeder:
            for step in range(3):
                next(feeder)
            state = feeder.get_state()
            with ocp.CheckpointManager(sys.argv[1]) as manager:
                manager.save(3, args=ocp.args.Composite(data=CheckpointSave(feeder)))
                manager.wait_until_finished()
                with iter(chain.to_device(sharding)) as again:
                    manager.restore(3, args=ocp.args.Composite(data=CheckpointRestore(again)))
                    same(again, expected[3:])
            same(feeder, expected[3:])
        with iter(chain.to_device(sharding)) as again:
            again.set_state(state)
            assert again.get_state() == state
            same(again, expected[3:])
        """,
        tmp_path,
        **device_programs.EIGHT,
    )
