"""What stopped programs of others: names, lists, sources and shards with nothing in them; each
beside real Grain.
"""

import pickle
import tempfile
import warnings

import grain as real
import numpy as np
import pytest
from support import both

import headrace.compat.grain as grain
from headrace.errors import BatchError, MissingExtraError, PackError

LISTS = [{"a": [i, i + 1], "b": [[i], [i, 2]], "c": []} for i in range(5)]


def loader(g, source, operations, **options):
    """A loader over a source, in order."""
    sampler = g.samplers.IndexSampler(len(source), num_epochs=1, **options)
    return g.DataLoader(data_source=source, sampler=sampler, operations=operations)


OF_LISTS = {
    "loader": lambda g: loader(g, LISTS, [g.transforms.Batch(2)]),
    "older operation": lambda g: loader(g, LISTS, [g.python.BatchOperation(2)]),
    "records": lambda g: loader(g, LISTS, [lambda records: records, g.python.BatchOperation(2)]),
    "map": lambda g: g.MapDataset.source(LISTS).batch(2, drop_remainder=True),
    "iter": lambda g: (
        g.MapDataset.source(LISTS).to_iter_dataset().filter(lambda x: x["a"][0] != 2).batch(2)
    ),
    "apply": lambda g: g.MapDataset.source(LISTS).apply(g.transforms.Batch(3)),
    "load": lambda g: g.load(LISTS, batch_size=2, num_epochs=1),
    "twice": lambda g: (
        g.MapDataset.source([[i, i + 1] for i in range(4)]).to_iter_dataset().batch(2).batch(2)
    ),
}


@pytest.mark.parametrize("program", OF_LISTS)
def test_lists_in_elements_are_batched_item_by_item(program):
    """As tuples are, everywhere where batches are made."""
    theirs, ours = list(OF_LISTS[program](real)), list(OF_LISTS[program](grain))
    assert both.told(ours) == both.told(theirs)


def test_in_our_own_names_lists_stay_an_error():
    """The choice is that of Grain's names alone."""
    import headrace

    with pytest.raises(BatchError, match="list without an array"):
        list(headrace.load(LISTS, batch_size=2, num_epochs=1))


ENDLESS = {
    "shuffle": lambda g: g.MapDataset.range(7).repeat().shuffle(seed=1),
    "shuffles": lambda g: g.MapDataset.range(7).shuffle(seed=3).repeat().shuffle(seed=1),
    "slice": lambda g: g.MapDataset.range(7).repeat()[1::3],
    "beginning": lambda g: g.MapDataset.range(7).repeat()[:8],
    "zip": lambda g: g.experimental.ZipMapDataset(
        [g.MapDataset.range(7).repeat(), g.MapDataset.range(3).repeat()]
    ),
    "mix": lambda g: g.MapDataset.mix(
        [g.MapDataset.range(7).repeat(), g.MapDataset.range(3).repeat()], [0.7, 0.3]
    ),
}


@pytest.mark.parametrize("program", ENDLESS)
@pytest.mark.filterwarnings("ignore:shuffle after repeat")
def test_what_never_ends_is_shuffled_sliced_and_zipped(program):
    """The same elements at the same indices."""
    theirs, ours = ENDLESS[program](real), ENDLESS[program](grain)
    indices = [0, 1, 5, 7, 8, 20, 1000]
    assert both.told([ours[index] for index in indices]) == both.told(
        [theirs[index] for index in indices]
    )
    assert (len(ours) > 1 << 61) == (len(theirs) > 1 << 61)


def test_a_shuffle_after_an_endless_repeat_is_a_warning():
    """It is rarely meant: there are no epochs any more."""
    with pytest.warns(UserWarning, match="Shuffle first, then repeat"):
        grain.MapDataset.range(7).repeat().shuffle(seed=1)


EMPTY = {
    "range": lambda g: g.MapDataset.source(g.sources.RangeDataSource(0, 0, 1)),
    "list": lambda g: g.MapDataset.source([]).shuffle(seed=1).to_iter_dataset(),
    "concatenation": lambda g: g.MapDataset.concatenate(
        [g.MapDataset.source([]), g.MapDataset.range(2)]
    ),
    "shard without records": lambda g: loader(
        g, [1, 2], [], shard_options=g.sharding.ShardOptions(2, 3)
    ),
    "shard of none": lambda g: loader(
        g, [1, 2], [], shuffle=True, seed=1, shard_options=g.sharding.ShardOptions(0, 3, True)
    ),
    "batch that never fills": lambda g: loader(
        g, [1, 2], [g.transforms.Batch(4, drop_remainder=True)]
    ),
}


@pytest.mark.parametrize("program", EMPTY)
def test_sources_and_shards_may_be_empty(program):
    """The stream is then, too; no error, and a warning at most."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(EMPTY[program](grain)) == list(EMPTY[program](real))


@pytest.mark.parametrize(
    ("program", "words"),
    [("shard without records", "has none of"), ("batch that never fills", "the stream is empty")],
)
def test_an_empty_loader_is_a_warning(program, words):
    """One that says why."""
    with pytest.warns(UserWarning, match=words):
        EMPTY[program](grain)


def test_a_random_map_without_a_seed_gets_none_and_a_warning():
    """As in Grain, where it gets None without a word."""

    def program(g):
        class Told(g.transforms.RandomMap):
            def random_map(self, element, rng):
                return element, rng is None

        return loader(g, [1, 2], [Told()])

    with pytest.warns(UserWarning, match="pass seed="):
        ours = program(grain)
    assert list(ours) == list(program(real)) == [(1, True), (2, True)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rounds", [4, 6, 8, 14, 40, 70])
def test_index_shuffle_has_any_even_number_of_rounds(rounds):
    """From 4 to 1,024."""
    for count, seed in ((3, 9), (10, 1), (100_000, 2), (70_000_000, 5)):
        arguments = {"max_index": count - 1, "seed": seed, "rounds": rounds}
        ours = [grain.experimental.index_shuffle(index, **arguments) for index in range(3)]
        assert ours == [real.experimental.index_shuffle(index, **arguments) for index in range(3)]
    with pytest.raises(ValueError, match="even integer"):
        grain.experimental.index_shuffle(0, 1, 1, rounds + 1)


def packed(g, most):
    """Batches of an older packing, with a random map of an older kind before it."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 9, size=60)
    data = [{"a": np.arange(n), "b": {"c": draw.normal(size=(9 - n, 2))}} for n in lengths.tolist()]

    class Moved(g.transforms.TfRandomMap):
        def np_random_map(self, element, rng):
            return {**element, "a": element["a"] + rng.integers(100)}

    pack = g.experimental.PackAndBatchOperation({"a": 12, "b": {"c": 9}}, 3, most)
    return loader(g, data, [Moved(), pack], shuffle=True, seed=3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("most", [None, 2])
def test_pack_and_batch_gives_the_batches_of_grain_and_goes_on_anywhere(most):
    """Data, segmentations and positions; from the state of each batch."""
    theirs, ours = list(packed(real, most)), list(packed(grain, most))
    assert both.told(ours) == both.told(theirs)
    begun = iter(packed(grain, most))
    for step in range(1, len(ours)):
        next(begun)
        again = iter(packed(grain, most))
        again.set_state(begun.get_state())
        assert both.told(list(again)) == both.told(theirs[step:])


def test_pack_and_batch_refuses_what_no_row_has_room_for():
    """In Grain's words."""
    pack = grain.experimental.PackAndBatchOperation({"a": 2}, 3)
    with pytest.raises(PackError, match="must be truncated to max length"):
        list(loader(grain, [{"a": np.arange(3)}], [pack]))


def test_options_that_were_chosen_win_over_those_that_were_not():
    """On either side, also after they went to another process."""

    def merged(g):
        options = g.experimental.DatasetOptions
        chosen = pickle.loads(
            pickle.dumps(options(min_shm_size=1, filter_raise_threshold_ratio=None))
        )
        both_of = chosen.merge(
            options(
                min_shm_size=2, filter_raise_threshold_ratio=0.5, filter_warn_threshold_ratio=0.1
            )
        )
        return (
            both_of.min_shm_size,
            both_of.filter_raise_threshold_ratio,
            both_of.filter_warn_threshold_ratio,
        )

    assert merged(grain) == merged(real) == (1, None, 0.1)


INDEXED = {
    "limit": lambda g, d: g.experimental.LimitIterDataset(d, 9),
    "limit of batches": lambda g, d: g.experimental.LimitIterDataset(d.batch(2), 9),
    "batches of a limit": lambda g, d: (
        g.experimental.LimitIterDataset(d, 20).batch(3).map(lambda x: x + 1)
    ),
    "interleave": lambda g, d: g.experimental.InterleaveIterDataset([d.batch(2)], cycle_length=4),
    "interleave of a limit": lambda g, d: g.experimental.InterleaveIterDataset(
        [g.experimental.LimitIterDataset(d, 4)], cycle_length=1
    ),
}


@pytest.mark.parametrize("program", INDEXED)
def test_limits_and_interleaves_of_one_stream_have_indices(program):
    """They are told, and gone to, as in Grain."""

    def visited(g, index):
        iterator = iter(INDEXED[program](g, g.MapDataset.range(30).to_iter_dataset()))
        tools = g.experimental
        found = [tools.get_next_index(iterator), next(iterator), tools.get_next_index(iterator)]
        tools.set_next_index(iterator, index)
        return [*found, tools.get_next_index(iterator), list(iterator)]

    for index in (0, 2, 3):
        assert both.told(visited(grain, index)) == both.told(visited(real, index))


def test_a_loader_tells_what_it_was_made_of():
    """By the private names that some programs ask for."""
    sampler, operation = grain.samplers.SequentialSampler(3), grain.transforms.Batch(2)
    made = grain.DataLoader(
        data_source=[1, 2, 3], sampler=sampler, operations=[operation], worker_count=2
    )
    assert (made._data_source, made._sampler, made._operations) == (
        [1, 2, 3],
        sampler,
        (operation,),
    )
    assert made._multiprocessing_options.num_workers == 2


def test_bags_are_read_by_their_library_when_they_are_read(tmp_path):
    """Several files as one; without the library, the error says what to install."""
    source = grain.python.BagDataSource(tmp_path / "records.bagz")
    try:
        import bagz
    except ImportError:
        with pytest.raises(MissingExtraError, match="pip install bagz"):
            len(source)
        return
    for number in range(2):
        with bagz.Writer(str(tmp_path / f"records-{number:05}-of-00002.bagz")) as writer:
            for record in range(5):
                writer.write(f"{number} {record}".encode())
    for paths in (tmp_path / "records@2.bagz", sorted(tmp_path.glob("*-of-*"))):
        bags = pickle.loads(pickle.dumps(grain.python.BagDataSource(paths)))
        assert [bags[key] for key in range(10)] == [
            f"{n} {k}".encode() for n in range(2) for k in range(5)
        ]


def test_memory_may_be_empty_too():
    """By both of its names; real Grain would start a process for it."""
    for kind in (grain.sources.SharedMemoryDataSource, grain.python.InMemoryDataSource):
        source = pickle.loads(pickle.dumps(kind([])))
        assert list(grain.MapDataset.source(source)) == list(source) == []


@pytest.mark.long
def test_the_mock_of_tfds_is_a_source(tmp_path, monkeypatch):
    """Its `__getitems__` cannot be called, as it is not one of its class."""
    tfds = pytest.importorskip("tensorflow_datasets")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where it leaves a folder behind
    with tfds.testing.mock_data(num_examples=5):
        source = tfds.data_source("mnist", split="train")
        ours = grain.MapDataset.source(source).map(lambda record: record["label"]).seed(1).shuffle()
        theirs = (
            real.MapDataset.source(source).map(lambda record: record["label"]).seed(1).shuffle()
        )
        assert list(ours) == list(theirs)


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_shard_without_records_that_is_to_read_some_says_so(shuffle):
    """By an error of Grain's type: two epochs of one record have two positions, and the second is
    of shard 1.
    """
    for g in (real, grain):
        shard = g.sharding.ShardOptions(1, 2, drop_remainder=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = g.samplers.IndexSampler(1, shard, shuffle=shuffle, num_epochs=2, seed=1)
            iterator = iter(g.DataLoader(data_source=range(1), sampler=sampler, worker_count=0))
        with pytest.raises(ZeroDivisionError) as caught:
            next(iterator)
        repr(iterator)
    assert str(caught.value) == "shard 1 of 2 has none of the 1 records. Use fewer shards."
