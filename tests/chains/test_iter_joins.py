"""IterDatasets that are mixed, zipped, interleaved, limited, repeated, or shuffled in windows."""

import contextlib
import itertools

import numpy as np
import pytest

from headrace import IterDataset, MapDataset, ShardOptions
from headrace.errors import CheckpointError, EmptyStreamError, JoinError, SeedError


def numbers(first, count, seed=None):
    """The numbers from `first` on."""
    dataset = MapDataset.source(np.arange(first, first + count))
    return (dataset if seed is None else dataset.shuffle(seed=seed)).to_iter_dataset()


def test_a_mix_that_repeats_goes_on_with_the_next_epoch_shuffled_anew():
    """Of the dataset that ended; the others stay where they are."""
    mixed = IterDataset.mix(
        [numbers(0, 5, seed=1), numbers(100, 1000)], [1, 1], when_exhausted="repeat"
    )
    elements = [int(x) for x, _ in zip(mixed, range(40))]
    small = [x for x in elements if x < 100]
    assert [sorted(small[start : start + 5]) for start in range(0, 20, 5)] == [[0, 1, 2, 3, 4]] * 4
    assert small[:5] != small[5:10]
    assert [x for x in elements if x >= 100] == list(range(100, 120))


def test_a_mix_of_filtered_streams_counts_what_comes_out():
    """Not what goes in."""
    mixed = IterDataset.mix(
        [numbers(0, 1000).filter(lambda x: x % 10 == 0), numbers(1000, 1000)], [0.5, 0.5]
    )
    elements = [int(x) for x, _ in zip(mixed, range(100))]
    assert sum(x < 1000 for x in elements) == 50


@pytest.mark.one_in(2)
@pytest.mark.parametrize("worker_count", [0, 2])
def test_a_schedule_changes_the_weights_on_the_way(worker_count):
    """At the element that it says."""
    mixed = IterDataset.mix(
        {"a": numbers(0, 900), "b": numbers(1000, 900)},
        [(0, {"a": 1, "b": 0}), (50, {"a": 0, "b": 1})],
    )
    elements = [int(x) for x, _ in zip(mixed.mp_prefetch(worker_count), range(100))]
    assert elements == [*range(50), *range(1000, 1050)]


def test_shards_of_a_mix_share_each_dataset():
    """And together read all of it."""
    mixed = IterDataset.mix([numbers(0, 30), numbers(100, 30)], when_exhausted="all")
    parts = [list(mixed.shard(ShardOptions(shard, 3))) for shard in range(3)]
    assert [len(part) for part in parts] == [20, 20, 20]
    assert sorted(int(x) for part in parts for x in part) == [*range(30), *range(100, 130)]


def test_datasets_of_different_shards_cannot_be_mixed():
    """As one could not go on with others."""
    with pytest.raises(JoinError, match=r"\.shard\(shard_options\)"):
        IterDataset.mix([numbers(0, 9).shard(ShardOptions(0, 2)), numbers(0, 9)])


def test_a_mix_of_unlike_elements_names_them_when_it_is_batched():
    """As any batch of unlike elements."""
    mixed = IterDataset.mix([numbers(0, 9).map(lambda x: {"a": x}), numbers(0, 9)]).batch(4)
    with pytest.raises(ValueError, match="structure"):
        list(mixed)


def test_options_of_the_parts_hold_for_the_whole():
    """The largest number of workers."""
    mixed = IterDataset.mix(
        [numbers(0, 9).mp_prefetch(1), numbers(0, 9).with_options(on_error="skip")]
    )
    assert (mixed.chain_stream.execution.worker_count, mixed.chain_stream.skips_errors) == (1, True)


def test_window_shuffle_needs_a_seed():
    """Its own, or one before."""
    with pytest.raises(SeedError, match="window_shuffle needs a seed"):
        numbers(0, 9).window_shuffle(3)
    assert sorted(numbers(0, 9).seed(1).window_shuffle(9)) == list(range(9))


@pytest.mark.parametrize("wrong", [3, [], {}, ["a"], [numbers(0, 3), 3]])
def test_what_is_no_list_of_streams_is_refused(wrong):
    """With the method's name."""
    for method in (IterDataset.mix, IterDataset.zip, IterDataset.interleave):
        with pytest.raises((TypeError, ValueError), match=method.__name__):
            method(wrong)


def test_a_zip_that_ends_with_the_shortest_is_empty_where_one_is():
    """As Python's; batches of it are none, and batches that are too small are counted in its
    elements.
    """
    some, none = numbers(0, 3), numbers(0, 3).filter(lambda x: x > 9)
    for empty in ([none, some], [some, none], {"x": some, "y": none}):
        zipped = IterDataset.zip(empty, strict=False)
        assert list(zipped) == list(zipped.batch(4, drop_remainder=True)) == []
    with pytest.raises(EmptyStreamError, match="only 3 rows were made for a batch of 4"):
        list(IterDataset.zip([some, some]).batch(4, drop_remainder=True))


def test_a_shard_is_not_divided_again():
    """The second options would take the place of the first: an error that names both."""
    for once in (
        numbers(0, 9).shard(ShardOptions(0, 2)),
        MapDataset.range(9).to_iter_dataset(shard_options=ShardOptions(0, 2)),
    ):
        with pytest.raises(
            ValueError,
            match=(
                r"shard\(\) or shard_options=, and cannot be divided again\. Pass shard options "
                r"only once"
            ),
        ):
            once.map(abs).shard(ShardOptions(1, 2))
    assert list(numbers(0, 4).shard(ShardOptions(0, 1)).shard(ShardOptions(1, 2))) == [1, 3]


def _parts(*names):
    of = dict(zip("abcd", range(1, 5)))
    return {
        name: numbers(1000 * of[name], 60, seed=of[name]).filter(lambda x: x % 7) for name in names
    }


@pytest.mark.parametrize("batched", [False, True])
def test_datasets_of_a_mix_may_be_added_and_removed_and_the_others_go_on_where_they_were(batched):
    """Not strictly; a strict resume says what changed."""
    whole = {name: [int(x) for x in dataset] for name, dataset in _parts("a", "b", "c").items()}
    before = IterDataset.mix(_parts("a", "b"), {"a": 0.7, "b": 0.3}, when_exhausted="all")
    after = IterDataset.mix(_parts("c", "a"), {"a": 0.5, "c": 0.5}, when_exhausted="all")
    before, after = (mixed.batch(3) if batched else mixed for mixed in (before, after))
    iterator = iter(before)
    first = [int(x) for _ in range(12) for x in np.ravel(next(iterator))]
    other = iter(after)
    with pytest.raises(CheckpointError, match="names"):
        other.set_state(iterator.get_state())
    other.set_state(iterator.get_state(), strict=False)
    assert other.step == 12
    rest = [int(x) for batch in other for x in np.ravel(batch)]
    assert [x for x in first + rest if x // 1000 == 1] == whole["a"]
    assert [x for x in rest if x // 1000 == 3] == whole["c"]
    assert not [x for x in rest if x // 1000 == 2]


def test_other_weights_hold_from_where_a_mix_goes_on():
    """Each dataset goes on with its next element."""
    before = IterDataset.mix(_parts("a", "b"), {"a": 1, "b": 1}, when_exhausted="all")
    after = IterDataset.mix(_parts("a", "b"), {"a": 0, "b": 1}, when_exhausted="all")
    iterator, other = iter(before), iter(after)
    first = [int(next(iterator)) for _ in range(20)]
    with pytest.raises(CheckpointError, match=r"weight of 'a': 1\.0 → 0\.0"):
        other.set_state(iterator.get_state())
    other.set_state(iterator.get_state(), strict=False)
    rest = [int(x) for x in other]
    assert [x for x in first + rest if x // 1000 == 2] == [int(x) for x in _parts("b")["b"]]
    assert {x // 1000 for x in rest} == {2}


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 3, 5, 6, 10])
@pytest.mark.one_in(3)
def test_a_mix_of_rows_is_changed_inside_a_window(steps):
    """What was begun comes as it would have; each element of all datasets comes once."""

    def stream(weights, shuffles):
        mixed = IterDataset.mix(_parts(*weights), weights, when_exhausted="all")
        return (
            mixed.window_shuffle(8, seed=1) if shuffles else mixed.batch(8).flat_map(list)
        ).batch(3)

    for weights, shuffles in (
        ({"a": 0.2, "b": 0.8}, True),
        ({"d": 0.5, "b": 0.2, "a": 0.3}, False),
    ):
        before = stream({"a": 0.7, "b": 0.3}, shuffles)
        iterator, later, again = (
            iter(before),
            iter(stream(weights, shuffles)),
            iter(stream(weights, shuffles)),
        )
        seen = [x for _ in range(steps) for x in next(iterator).tolist()]
        later.set_state(iterator.get_state(), strict=False)
        for batch in later:
            seen += batch.tolist()
            again.set_state(later.get_state())
            assert again.get_state() == later.get_state()
        begun = -(-steps * 3 // 8) * 8
        assert seen[:begun] == [x for batch in before for x in batch.tolist()][:begun]
        assert sorted(seen) == sorted(int(x) for name in weights for x in _parts(name)[name])


def test_datasets_that_a_window_needs_stay():
    """They are not removed inside it; nor others added, where what is random after the mix would be
    otherwise.
    """

    def stream(*names, shuffles=False):
        mixed = IterDataset.mix(_parts(*names), when_exhausted="all")
        return iter(mixed.window_shuffle(8, seed=1) if shuffles else mixed.batch(8).flat_map(list))

    iterator = stream("a", "b")
    next(iterator)
    with pytest.raises(CheckpointError, match="Keep it among the datasets"):
        stream("a").set_state(iterator.get_state(), strict=False)
    iterator = stream("a", "b", shuffles=True)
    for step in range(8):
        next(iterator)
        with (
            pytest.raises(CheckpointError, match="or restore a checkpoint of another step")
            if step < 7
            else contextlib.nullcontext()
        ):
            stream("a", "b", "c", shuffles=True).set_state(iterator.get_state(), strict=False)


@pytest.mark.parametrize("worker_count", [0, 2])
def test_what_is_cached_is_not_changed_by_its_user(worker_count):
    """Each repetition has arrays of its own."""
    dataset = (
        MapDataset.range(4)
        .to_iter_dataset()
        .map(lambda x: np.full(3, x))
        .cache()
        .repeat(2)
        .mp_prefetch(worker_count)
    )
    found = []
    for element in dataset:
        found.append(int(element[0]))
        element += 100
    assert found == [0, 1, 2, 3] * 2


def test_map_datasets_are_taken_as_their_streams():
    """Where streams are joined."""
    assert list(IterDataset.interleave([MapDataset.range(2), MapDataset.range(10, 13)])) == [
        0,
        10,
        1,
        11,
        12,
    ]


def test_an_input_that_ends_gives_its_place_to_the_next_one():
    """Only `cycle_length` inputs are open at a time."""
    inputs = [
        MapDataset.range(first, stop) for first, stop in ((0, 2), (10, 13), (20, 22), (30, 31))
    ]
    assert list(IterDataset.interleave(inputs, 2)) == [0, 10, 1, 11, 20, 12, 21, 30]


@pytest.mark.parametrize(
    "join",
    [IterDataset.interleave, lambda datasets: IterDataset.mix(datasets, when_exhausted="all")],
)
def test_a_dataset_too_small_for_a_batch_is_an_empty_one_among_others(join):
    """Whichever it is, and whether the number of its elements is known or not; alone it is an
    error.
    """
    small = [
        numbers(0, 3).batch(5, drop_remainder=True),
        numbers(0, 3).filter(lambda x: True).batch(5, drop_remainder=True),
    ]
    for one in small:
        for datasets in ([one, numbers(0, 10).batch(5)], [numbers(0, 10).batch(5), one]):
            assert [batch.tolist() for batch in join(datasets)] == [
                [0, 1, 2, 3, 4],
                [5, 6, 7, 8, 9],
            ]
        with pytest.raises(EmptyStreamError):
            list(one)


def test_equal_shards_may_be_of_any_class():
    """The whole of a dataset is the only shard of one."""
    mixed = IterDataset.mix([numbers(0, 3).shard(ShardOptions(0, 1)), numbers(0, 3)])
    assert sorted(mixed) == [0, 0, 1, 1, 2, 2]


def test_a_dataset_inside_a_window_keeps_its_place_in_a_mix():
    """Before it nothing can be added or removed, as its window would be shuffled otherwise; after
    it, and between windows, it can.
    """

    def mixed(*names):
        numbers = {
            name: MapDataset.range(*ranges[name]).to_iter_dataset().map(lambda x: x)
            for name in names
        }
        numbers["a"] = numbers["a"].window_shuffle(5, seed=3)
        return iter(IterDataset.mix(numbers, when_exhausted="all"))

    ranges = {"a": (0, 10), "b": (100, 105), "c": (200, 205)}
    for former, steps, names, is_refused in [
        ("ab", 3, "cab", True),
        ("ab", 3, "abc", False),
        ("ab", 10, "cab", False),
        ("ab", 3, "ba", True),
        ("ba", 3, "a", True),
    ]:
        first = mixed(*former)
        seen = list(itertools.islice(first, steps))
        second = mixed(*names)
        if is_refused:
            with pytest.raises(
                CheckpointError, match="was saved while dataset 'a' held records back"
            ):
                second.set_state(first.get_state(), strict=False)
        else:
            second.set_state(first.get_state(), strict=False)
            assert sorted([*seen, *second]) == [*range(10), *range(100, 105), *range(200, 205)]


def test_a_mix_that_repeats_takes_nothing_from_an_empty_dataset():
    """It ends when the turn of that one comes; no element of a slice without elements
    is made up.
    """
    empty = MapDataset.range(1)[1:].to_iter_dataset()
    mix = IterDataset.mix(
        [MapDataset.range(5, 8).to_iter_dataset(), empty], when_exhausted="repeat"
    )
    assert list(mix) == list(IterDataset.mix([MapDataset.range(5, 8).to_iter_dataset(), empty]))


def test_what_fails_after_the_end_of_the_first_stream_of_a_zip_is_told():
    """A strict zip asks each of the others for one more element; an error there is no end."""

    def fails_at_2(x):
        if x == 2:
            raise ValueError("record 2 is broken")
        return x

    others = MapDataset.range(3).to_iter_dataset().map(fails_at_2)
    zipped = iter(IterDataset.zip([MapDataset.range(2).to_iter_dataset(), others]))
    assert [next(zipped), next(zipped)] == [(0, 0), (1, 1)]
    with pytest.raises(ValueError, match="record 2 is broken"):
        next(zipped)


def test_a_strict_zip_in_a_zip_tells_that_its_streams_are_unequal():
    """Also where the first stream of the outer one has no elements at all."""

    def few(count):
        return MapDataset.range(5).to_iter_dataset().filter(lambda x: x < count)

    inner = IterDataset.zip([few(0), few(2)])
    with pytest.raises(JoinError, match="argument 1 is shorter than argument 2"):
        list(IterDataset.zip([few(0), inner]))
