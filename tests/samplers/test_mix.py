"""Loaders that mix several sources: the stream, its state, and what happens when a mix is changed
between two runs.
"""

import collections
import itertools
import json

import numpy as np
import pytest
from support.damage import sealed

import headrace
from headrace import (
    Batch,
    DataLoader,
    IndexSampler,
    MapDataset,
    MixedSource,
    MixSampler,
    ShardOptions,
    WeightedSampler,
)
from headrace.errors import CheckpointError, RecordKeyError
from headrace.samplers.history import SavedOrder
from headrace.samplers.mix.ends import saved_length
from headrace.sources.facts import facts_of

SIZES = {"web": 60, "books": 25, "code": 11}
WEIGHTS = {"web": 0.6, "books": 0.3, "code": 0.1}


def parts_of(sizes):
    """Sources whose records say where they come from."""
    return {name: [(name, key) for key in range(size)] for name, size in sizes.items()}


def keep(record):
    """Whether a filter lets a record pass."""
    return record[1] % 3 != 0


def mixed(sizes=SIZES, weights=WEIGHTS, operations=(), shard=None, workers=0, **options):
    """A loader of a mix."""
    sampler = MixSampler(sizes, weights, **options)
    return DataLoader(
        data_source=parts_of(sizes),
        sampler=sampler,
        operations=operations,
        shard_options=shard,
        worker_count=workers,
    )


def keys_of(records, name):
    """The keys of one part's records."""
    return [key for part, key in records if part == name]


def take(iterator, count):
    """The next elements."""
    return list(itertools.islice(iterator, count))


def test_parts_come_in_order_and_proportion():
    """Each part's records come in its own order, in the proportions of the weights."""
    records = take(iter(mixed(when_exhausted="repeat")), 40)
    for name, weight in WEIGHTS.items():
        keys = keys_of(records, name)
        assert keys == list(range(len(keys)))
        assert abs(len(keys) - 40 * weight) <= 1


def test_a_list_of_sources_is_mixed_as_well():
    """Without names, parts are numbered; without weights, they are drawn alike."""
    parts = [["a0", "a1"], ["b0", "b1"]]
    assert sorted(DataLoader(data_source=parts, sampler=MixSampler(parts))) == [
        "a0",
        "a1",
        "b0",
        "b1",
    ]


def test_a_part_of_columns_has_as_many_records_as_its_columns_are_long():
    """Also where the columns are nested."""
    parts = {
        "a": {"x": np.arange(30), "y": np.arange(30)},
        "b": {"x": np.arange(30, 40), "y": np.arange(10)},
    }
    nested = {name: {"in": {"x": part["x"]}, "y": part["y"]} for name, part in parts.items()}
    for columns, of in (
        (parts, lambda batch: batch["x"]),
        (nested, lambda batch: batch["in"]["x"]),
    ):
        sampler = MixSampler(columns, shuffle=True, seed=1, when_exhausted="all")
        loader = DataLoader(data_source=columns, sampler=sampler, operations=[Batch(4)])
        assert sorted(np.concatenate([of(batch) for batch in loader]).tolist()) == list(range(40))


def test_a_mix_without_when_exhausted_ends_with_the_first_part():
    """The mix ends where a part is to be drawn that has ended, and says how long it is before."""
    loader = mixed()
    records = list(loader)
    assert len(records) == len(loader)
    assert max(collections.Counter(records).values()) == 1
    assert any(len(keys_of(records, name)) == size for name, size in SIZES.items())


def test_all_goes_on_until_every_part_has_ended():
    """With "all", every record of every part comes exactly once, shuffled or not."""
    loader = mixed(when_exhausted="all", shuffle=True, seed=3)
    records = list(loader)
    assert len(records) == len(loader) == sum(SIZES.values())
    assert set(records) == {(name, key) for name, size in SIZES.items() for key in range(size)}


def test_the_length_of_a_mix_is_known_from_its_state():
    """Also that of parts which are drawn by weight."""
    drawn = WeightedSampler([1.0, 2.0, 3.0], num_samples=7, num_epochs=2, seed=1)
    sampler = MixSampler({"a": drawn, "b": 5}, {"a": 1, "b": 1}, when_exhausted="all")
    assert saved_length(SavedOrder(sampler.fingerprint)) == len(sampler) == 19


def test_repeat_begins_a_part_anew_with_another_shuffle():
    """With "repeat", each epoch of a part has each of its records once, in another order."""
    keys = keys_of(take(iter(mixed(when_exhausted="repeat", shuffle=True, seed=3)), 500), "code")
    first, second = keys[:11], keys[11:22]
    assert sorted(first) == sorted(second) == list(range(11))
    assert first != second


def test_parts_of_equal_length_are_shuffled_differently():
    """One seed serves all parts, and no two of them come in the same order."""
    records = list(mixed({"a": 50, "b": 50}, None, shuffle=True, seed=0, when_exhausted="all"))
    assert keys_of(records, "a") != keys_of(records, "b")


def test_a_part_may_have_an_order_and_epochs_of_its_own():
    """An IndexSampler in the place of a source decides how that part is read, and when it ends."""
    sizes = {"long": 8, "short": 2}
    sampler = MixSampler({"long": 8, "short": IndexSampler(2, num_epochs=3)}, when_exhausted="all")
    records = list(DataLoader(data_source=parts_of(sizes), sampler=sampler))
    assert keys_of(records, "short") == [0, 1, 0, 1, 0, 1]
    assert keys_of(records, "long") == list(range(8))


def test_a_schedule_counts_steps_of_batches():
    """With `records_per_step`, stages of a schedule begin at batches."""
    schedule = [(0, {"a": 1, "b": 0}), (3, {"a": 0, "b": 1})]
    loader = mixed({"a": 90, "b": 90}, schedule, [Batch(10, batch_fn=list)], records_per_step=10)
    assert [{part for part, _ in batch} for batch in take(iter(loader), 6)] == [{"a"}] * 3 + [
        {"b"}
    ] * 3


def test_the_order_of_the_dict_does_not_matter():
    """Parts are known by their names: the same mix in another order is the same stream, and takes
    its states.
    """
    one, other = iter(mixed()), iter(mixed(dict(reversed(SIZES.items()))))
    first = take(one, 20)
    assert take(other, 20) == first
    other.set_state(one.get_state())
    assert list(other) == list(one)


def run(iterators, counts):
    """Some records of each shard."""
    return [
        record for iterator, count in zip(iterators, counts) for record in take(iterator, count)
    ]


def shards(count, states=(), strict=True, **options):
    """The iterators of all shards of a mix."""
    iterators = [iter(mixed(shard=ShardOptions(index, count), **options)) for index in range(count)]
    for iterator in iterators if states else ():
        iterator.set_states(states, strict=strict)
    return iterators


def states_of(iterators):
    """The states of all shards."""
    return [iterator.get_state() for iterator in iterators]


def test_strict_says_what_was_changed():
    """Other weights and other parts are refused, by name."""
    iterator = iter(mixed())
    take(iterator, 10)
    with pytest.raises(
        CheckpointError,
        match=(
            r"weights of a mix\).*\n  weight of 'books': 0.3 → 0.4\n  weight of 'web': 0.6 → 0.5$"
        ),
    ):
        iter(mixed(weights={"web": 0.5, "books": 0.4, "code": 0.1})).set_state(iterator.get_state())
    with pytest.raises(CheckpointError, match="part 'news'"):
        iter(mixed({**SIZES, "news": 5}, {**WEIGHTS, "news": 1})).set_state(iterator.get_state())


def test_other_weights_hold_from_the_state_on():
    """With strict=False parts go on where they were, and the new weights hold from there on."""
    iterator = iter(mixed(when_exhausted="all"))
    seen = take(iterator, 20)
    other = iter(mixed(weights={"web": 0, "books": 0.5, "code": 0.5}, when_exhausted="all"))
    other.set_state(iterator.get_state(), strict=False)
    after = take(other, 10)
    assert abs(len(keys_of(after, "books")) - 5) <= 2
    for name in SIZES:
        keys = keys_of(seen + after, name)
        assert keys == list(range(len(keys)))
    assert not keys_of(after, "web")


def test_after_a_change_states_are_strict_again():
    """A state that was taken after a change is taken by the mix of now, at every later step, and by
    no other.
    """
    first = iter(mixed(when_exhausted="all"))
    take(first, 20)
    changed = mixed(weights={"web": 1, "books": 2, "code": 1}, when_exhausted="all")
    second = iter(changed)
    second.set_state(first.get_state(), strict=False)
    take(second, 13)
    third = iter(changed)
    third.set_state(second.get_state())
    assert third.get_state() == second.get_state()
    assert list(third) == list(second)
    with pytest.raises(CheckpointError, match="weights"):
        iter(mixed(when_exhausted="all")).set_state(third.get_state())


def test_parts_come_and_go():
    """A part that is added begins at its beginning; one that is left out and comes back goes on
    where it was.
    """
    first = iter(mixed({"a": 50, "b": 50}, None, when_exhausted="all"))
    seen = take(first, 20)
    second = iter(mixed({"c": 50, "a": 50}, None, when_exhausted="all"))
    second.set_state(first.get_state(), strict=False)
    seen += take(second, 20)
    third = iter(mixed({"a": 50, "b": 50, "c": 50}, None, when_exhausted="all"))
    third.set_state(second.get_state(), strict=False)
    seen += list(third)
    for name in "abc":
        assert keys_of(seen, name) == list(range(50))


def test_a_part_that_is_still_to_be_delivered_cannot_be_removed():
    """Where a slower shard is to deliver records of a part that is gone, the error says
    to keep it.
    """
    first = shards(2, when_exhausted="all")
    run(first, [20, 0])
    sizes, weights = {"web": 60, "books": 25}, {"web": 1, "books": 1}
    with pytest.raises(CheckpointError, match="part 'code' was removed"):
        shards(
            1, states_of(first), strict=False, sizes=sizes, weights=weights, when_exhausted="all"
        )
    kept = {"sizes": SIZES, "weights": {**weights, "code": 0}}
    (second,) = shards(1, states_of(first), strict=False, **kept, when_exhausted="all")
    assert len(keys_of(second, "code")) > 0


def test_records_are_told_by_part():
    """`records_at` and `last_records` give the keys by the names of the parts."""
    loader = mixed(operations=[Batch(10, batch_fn=list)])
    iterator = iter(loader)
    for step in range(3):
        batch = next(iterator)
        expected = {name: keys for name in SIZES if (keys := keys_of(batch, name))}
        for told in (loader.records_at(step), iterator.last_records()):
            assert {name: keys.tolist() for name, keys in told.items()} == expected


def test_epochs_are_told_by_part():
    """`part_epochs` counts how often each part was read through; `epoch` what is as much as all
    parts together.
    """
    iterator = iter(mixed(when_exhausted="repeat"))
    take(iterator, 240)
    assert iterator.part_epochs == {"web": 2, "books": 2, "code": 2}
    assert iterator.epoch == 2
    with pytest.raises(AttributeError, match="for mixes"):
        _ = iter(headrace.load(range(3))).part_epochs
    assert not hasattr(iter(headrace.MapDataset.range(3)), "part_epochs")


def test_the_epoch_of_a_part_is_that_of_its_last_record():
    """At each step: the record at the end of an epoch still counts to it, and a part without a
    record is in epoch 0.
    """
    parts = {"long": range(7), "short": range(100, 103)}
    sampler = headrace.MixSampler(parts, [0.7, 0.3], shuffle=True, seed=1, when_exhausted="repeat")
    iterator = iter(headrace.DataLoader(data_source=parts, sampler=sampler))
    drawn = {"long": 0, "short": 0}
    for _ in range(60):
        drawn["short" if next(iterator) >= 100 else "long"] += 1
        assert iterator.part_epochs == {
            name: max(count - 1, 0) // len(parts[name]) for name, count in drawn.items()
        }


def test_a_sampler_tells_the_epochs_of_parts_at_any_position():
    """The record at the position counts, and a part of a single record is in epoch 0 until it is
    drawn a second time.
    """
    sizes = {"long": 7, "one": 1}
    sampler = MixSampler(sizes, [0.9, 0.1], when_exhausted="repeat")
    drawn = dict.fromkeys(sizes, 0)
    for position in range(60):
        drawn[sampler.part_at(position)[0]] += 1
        assert sampler.part_epochs(position) == {
            name: max(drawn[name] - 1, 0) // sizes[name] for name in sizes
        }
    assert drawn["one"] > 3


def test_a_failure_names_the_part_and_its_key():
    """The note of an exception says which record of which part it was."""

    def fails(record):
        if record == ("books", 2):
            raise ValueError("a bad book")
        return record

    with pytest.raises(ValueError, match="a bad book") as raised:
        list(mixed(operations=[fails]))
    assert "on record key 2 of part 'books' at position" in raised.value.__notes__[0]


def test_a_part_that_cannot_be_read_is_named():
    """So does one that a source's failure gets."""

    class Torn(list):
        def __getitem__(self, key):
            raise OSError("torn")

    parts = {
        "web": list(range(5)),
        "books": type(
            "Source", (), {"__len__": lambda self: 5, "__getitem__": Torn().__getitem__}
        )(),
    }
    with pytest.raises(OSError, match="torn") as raised:
        list(DataLoader(data_source=parts, sampler=MixSampler(parts)))
    assert "reading failed on record key 0 of part 'books'" in raised.value.__notes__[0]


class Counting:
    """A source that counts its calls."""

    facts = headrace.SourceFacts(array_keys=True)

    def __init__(self):
        self.calls = 0

    def __len__(self):
        return 1000

    def __getitem__(self, key):
        raise AssertionError("records are read in one call")

    def __getitems__(self, keys):
        self.calls += 1
        return keys.tolist()


def test_a_batch_is_read_with_one_call_for_each_part():
    """However many records a part has in a batch, it is asked once."""
    parts = {"a": Counting(), "b": Counting()}
    keys = np.random.default_rng(0).permutation(2000)[:500]
    assert list(MixedSource(parts).__getitems__(keys)) == (keys // 2).tolist()
    assert [part.calls for part in parts.values()] == [1, 1]


def test_a_mixed_source_is_a_source():
    """Keys are checked, one record is read like many, and the length is one more than the largest
    key.
    """
    source = MixedSource({"a": ["a0", "a1", "a2"], "b": ["b0"]})
    assert [source[key] for key in (0, 1, 2, 4)] == ["a0", "b0", "a1", "a2"]
    assert len(source) == 5
    assert list(source.__getitems__([])) == []
    assert list(source.__getitems__([4])) == ["a2"]
    with pytest.raises(RecordKeyError):
        source[5]
    assert facts_of(source).reads_ahead == 0


def test_a_state_is_plain_json_and_keeps_the_history():
    """The program's own weights are the identity. A change of weights keeps what differs, a change
    of parts the whole mix.
    """
    first = iter(mixed(when_exhausted="repeat"))
    take(first, 12)
    second = iter(mixed(weights={"web": 0.6, "books": 1, "code": 0.1}, when_exhausted="repeat"))
    second.set_state(first.get_state(), strict=False)
    state = json.loads(second.get_state())
    assert state["identity"]["orders"][0]["weights"] == {"books": 1, "code": 0.1, "web": 0.6}
    began = [0, 0, {"ramp": False, "weights": {"books": 0.3, "code": 0.1, "web": 0.6}}]
    assert state["history"]["orders"] == [began, [0, 12, {"weights": {"books": 1}}]]
    take(second, 5)
    third = iter(
        mixed({"web": SIZES["web"], "books": SIZES["books"]}, [2, 1], when_exhausted="repeat")
    )
    third.set_state(second.get_state(), strict=False)
    last = [0, 17, {"ramp": False, "weights": {"books": 1, "web": 2}}]
    assert json.loads(third.get_state())["history"]["orders"] == [
        began,
        [0, 12, {"weights": {"books": 1}}],
        last,
    ]


@pytest.mark.parametrize(
    "damage",
    [
        {"ramp": False},
        {"ramp": False, "weights": {"books": "x"}},
        {"ramp": False, "weights": 7},
        {"ramp": False, "weights": {"books": 1}, "ended": [["books"]]},
        {"ramp": False, "weights": {"books": 1}, "ended": [["unknown", 3]]},
        {"ramp": False, "weights": {"books": 1}, "ended": [["books", 3], ["code", 3], ["web", 3]]},
    ],
)
def test_a_damaged_history_is_told(damage):
    """A state whose mix cannot have changed as it says is refused."""
    iterator = iter(mixed())
    take(iterator, 12)
    state = json.loads(iterator.get_state())
    state["history"] = {"orders": [[0, 12, damage]]}
    with pytest.raises(CheckpointError):
        iter(mixed()).set_state(sealed(state))


@pytest.mark.parametrize("ended", [[["unknown", 3]], [["books", 3], ["code", 3], ["web", 3]]])
def test_ends_of_parts_that_the_mix_cannot_have_are_a_damaged_state(ended):
    """They are used only if the weights change."""
    iterator = iter(mixed(when_exhausted="all"))
    take(iterator, 12)
    state = json.loads(iterator.get_state())
    state["marks"] = {"0": {"ended": ended}}
    changed = iter(mixed(weights={"web": 1, "books": 2, "code": 3}, when_exhausted="all"))
    with pytest.raises(CheckpointError, match="the state is damaged: its mix cannot be read"):
        changed.set_states([sealed(state)], strict=False)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MixSampler({}), ValueError, "at least one part"),
        (
            lambda: MixSampler({0: 3}),
            TypeError,
            "has the name 0, which is an int. Pass a dict whose names are strings",
        ),
        (lambda: MixSampler(7), TypeError, "Pass a dict or a list of sources"),
        (
            lambda: MixSampler({"a": 0}),
            TypeError,
            r"part 'a' of the mix has no records\. Leave it out",
        ),
        (lambda: MixSampler({"a": []}), TypeError, "part 'a' of the mix"),
        (lambda: MixSampler({"a": 3}, {"b": 1}), ValueError, "'b', but the"),
        (
            lambda: MixSampler({"a": 3}, ramp=True),
            ValueError,
            "ramp=True changes the weights gradually between the steps of a schedule",
        ),
        (
            lambda: MixSampler({"a": 3}, when_exhausted="never"),
            ValueError,
            "when_exhausted='never'",
        ),
        (lambda: MixSampler({"a": 3}, shuffle=True), ValueError, "shuffle=True needs a seed"),
        (lambda: MixSampler({"a": 3}, seed=-1), ValueError, "seed=-1"),
        (
            lambda: MixSampler({"a": IndexSampler(3, ShardOptions(0, 2))}),
            ValueError,
            "part 'a' of the mix has shard_options=",
        ),
        (lambda: MixedSource({"a": []}), ValueError, "part 'a' of the mix"),
        (lambda: MixedSource({3: [1]}), TypeError, "Use strings as names"),
        (lambda: MixedSource({"a": {1, 2}}), TypeError, "part 'a' of the mix"),
        (
            lambda: DataLoader(data_source={"a": [1]}, sampler=MixSampler({"a": 1, "b": 2})),
            ValueError,
            "the sampler has the parts a, b, but the source has a",
        ),
        (
            lambda: DataLoader(data_source={"a": [1]}, sampler=MixSampler({"a": 2})),
            ValueError,
            "part 'a': the sampler covers 2 records, but the source has 1",
        ),
        (
            lambda: DataLoader(data_source=MixedSource({"a": [1]}), sampler=IndexSampler(1)),
            TypeError,
            r"Pass sampler=headrace\.MixSampler\(source, weights=…\)",
        ),
        (lambda: mixed().find(0, 0), TypeError, r"find\(\) does not work for"),
    ],
)
def test_bad_parts_are_refused(make, error, message):
    """Each message says what was given and what to give."""
    with pytest.raises(error, match=message) as raised:
        make()
    assert len(str(raised.value)) < 500


def arrays_of(size, first):
    """Columns whose numbers say which record they are."""
    return {"x": np.arange(first, first + size), "y": np.arange(2.0 * size).reshape(size, 2)}


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_parts_in_columns_are_batched_like_records(workers):
    """Batches taken straight from the columns of all parts are those of the records one by one."""
    parts = {"a": arrays_of(50, 0), "b": arrays_of(20, 1000), "c": arrays_of(7, 2000)}
    sampler = MixSampler(
        {name: len(part["x"]) for name, part in parts.items()},
        [5, 2, 1],
        when_exhausted="all",
        shuffle=True,
        seed=4,
    )
    by_column = DataLoader(
        data_source=parts, sampler=sampler, operations=[Batch(8)], worker_count=workers
    )
    by_record = DataLoader(
        data_source=parts, sampler=sampler, operations=[lambda record: record, Batch(8)]
    )
    assert MixedSource(parts).columns is not None
    for one, other in zip(by_column, by_record, strict=True):
        assert np.array_equal(one["x"], other["x"])
        assert np.array_equal(one["y"], other["y"])


@pytest.mark.parametrize(
    "other", [{"x": np.arange(3)}, {"x": np.arange(3), "y": np.zeros((3, 5))}, [1, 2, 3]]
)
def test_parts_with_other_columns_are_read_as_records(other):
    """Only columns that are alike in all parts are taken as columns."""
    source = MixedSource({"a": arrays_of(5, 0), "b": other})
    assert source.columns is None
    assert len(source.__getitems__([0, 1, 2, 3])) == 4


def test_a_feeder_tells_parts_as_the_iterator_does():
    """On devices, records and epochs are told by part, of the batch that was received."""
    import jax

    parts = {"a": np.arange(40), "b": np.arange(10)}
    sampler = MixSampler({"a": 40, "b": 10}, when_exhausted="repeat")
    loader = DataLoader(data_source=parts, sampler=sampler, operations=[Batch(10)])
    iterator = iter(loader)
    with iter(loader.to_device(jax.devices()[0])) as feeder:
        for _ in range(5):
            assert np.array_equal(next(feeder), next(iterator))
        assert feeder.part_epochs == iterator.part_epochs == {"a": 0, "b": 2}
        assert feeder.last_records()["b"].tolist() == iterator.last_records()["b"].tolist()


def weights_of(parts, generator):
    """Weights, a schedule or ramps for some parts."""
    stages = [
        (start, dict(zip(parts, generator.dirichlet([0.7] * len(parts)).tolist())))
        for start in (0, int(generator.integers(1, 20)), int(generator.integers(20, 60)))
    ]
    return [stages[0][1], stages, stages][generator.integers(3)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 150))]
)
def test_parts_that_come_and_go_in_random_histories_lose_and_repeat_nothing(seed):
    """Parts, schedules and numbers of shards change at equal steps: no record comes twice, and none
    is left out.
    """
    generator = np.random.default_rng(seed)
    seen, states = [], ()
    for _ in range(4):
        some = [
            str(name) for name in generator.permutation(list("abcde"))[: generator.integers(1, 6)]
        ]
        options = {
            "sizes": {name: 20 + ord(name) % 7 for name in some},
            "weights": weights_of(some, generator),
        }
        iterators = shards(
            int(generator.integers(1, 4)), states, strict=False, **options, when_exhausted="all"
        )
        seen += run(iterators, [int(generator.integers(0, 4))] * len(iterators))
        states = states_of(iterators)
    seen += [record for iterator in iterators for record in iterator]
    assert max(collections.Counter(seen).values()) == 1
    for name, size in options["sizes"].items():
        assert len(keys_of(seen, name)) == size
    assert all(
        sorted(keys_of(seen, name)) == list(range(len(keys_of(seen, name)))) for name in "abcde"
    )


@pytest.mark.slow
def test_a_mix_becomes_longer_after_shards_changed_at_its_former_end():
    """What former shards left of the mix comes first, in the same order; then the new records."""

    def mixed(sizes, index, count):
        parts = {
            name: MapDataset.range(100 * number, 100 * number + size)
            for number, (name, size) in enumerate(sizes.items())
        }
        stream = MapDataset.mix(parts, when_exhausted="all").to_iter_dataset(
            shard_options=ShardOptions(index, count)
        )
        return iter(stream)

    for steps in [(1, 2, 0), (3, 6, 0), (6, 6, 5), (0, 6, 0)]:
        first = [mixed({"a": 17}, index, 3) for index in range(3)]
        seen = run_values(first, steps)
        second = [mixed({"a": 17}, index, 2) for index in range(2)]
        for iterator in second:
            iterator.set_states([former.get_state() for former in first])
        seen += run_values(second, (4, 3) if sum(steps) < 10 else (0, 0))
        third = [mixed({"a": 17, "b": 9}, index, 2) for index in range(2)]
        states = [former.get_state() for former in second]
        for iterator in third:
            iterator.set_states(states, strict=False)
        assert sorted([*seen, *third[0], *third[1]]) == [*range(17), *range(100, 109)]


def run_values(iterators, steps):
    """So many elements of each."""
    return [
        value
        for iterator, count in zip(iterators, steps)
        for value in itertools.islice(iterator, count)
    ]


def chain_of(sizes, weights, after, shards=1):
    """Iterators of a chain after a mix of numbers, a hundred for each part."""
    parts = {
        name: MapDataset.range(100 * ord(name), 100 * ord(name) + size)
        for name, size in sizes.items()
    }
    stream = after(MapDataset.mix(parts, weights, when_exhausted="all").to_iter_dataset())
    return [iter(stream.shard(ShardOptions(index, shards))) for index in range(shards)]


def gone_on(former, now):
    """The iterators of now, which go on after former ones with another mix."""
    states = [iterator.get_state() for iterator in former]
    for iterator in now:
        iterator.set_states(states, strict=False)
    return now


@pytest.mark.slow
def test_a_mix_becomes_longer_inside_the_last_window_of_the_former_one():
    """The end of the former mix cut that window short: it is finished as it was begun, and then the
    new records come.
    """
    for after in (
        lambda s: s.window_shuffle(7, seed=1),
        lambda s: s.filter(lambda x: True).window_shuffle(7, seed=1),
    ):
        for steps in (10, 15, 16, 17):
            first = chain_of({"a": 17}, None, after)
            (whole,) = chain_of({"a": 17}, None, after)
            seen = run_values(first, [steps])
            (now,) = gone_on(first, chain_of({"a": 17, "b": 9}, None, after))
            left = list(now)
            assert sorted([*seen, *left]) == [*range(9700, 9717), *range(9800, 9809)]
            if steps > 14:
                assert [*seen, *left[: 17 - steps]] == list(whole)


def test_records_that_shards_had_taken_apart_stay_where_they_were_when_a_mix_is_changed():
    """Also after the next number of shards, which has not come to them."""
    sizes = {"a": 26, "b": 5, "c": 25}

    def after(stream):
        return stream.flat_map(lambda x: [10 * x + copy for copy in range(4)])

    first = chain_of(sizes, {"a": 1, "b": 1, "c": 10}, after, 2)
    seen = run_values(first, (5, 23))
    second = gone_on(first, chain_of(sizes, {"a": 1, "b": 1, "c": 10}, after))
    third = gone_on(second, chain_of(sizes, {"a": 2, "b": 4, "c": 1}, after))
    (whole,) = chain_of(sizes, None, after)
    assert sorted([*seen, *third[0]]) == sorted(whole)


def test_a_mix_is_changed_again_at_the_same_place():
    """A window that was begun since the first change comes as it would have."""
    sizes = {"a": 20, "b": 20}

    def after(stream):
        return stream.filter(lambda x: x != 9800).window_shuffle(4, seed=1)

    iterators = chain_of(sizes, None, after, 2)
    seen = run_values(iterators, (4, 4))
    iterators = gone_on(iterators, chain_of(sizes, {"a": 1, "b": 3}, after, 2))
    seen += run_values(iterators, (1, 0))
    iterators = gone_on(iterators, chain_of(sizes, {"a": 3, "b": 1}, after, 2))
    assert sorted([*seen, *iterators[0], *iterators[1]]) == [*range(9700, 9720), *range(9801, 9820)]


def test_another_change_of_parts_at_the_same_position_replaces_the_first():
    """The state names one change at a position, and the parts of the replaced one are
    never drawn.
    """
    mix = MixSampler({"a": 50, "b": 50}, when_exhausted="repeat")
    for added in "cd":
        mix = MixSampler({"a": 50, added: 50}, when_exhausted="repeat").resumed(mix.saved, 10, True)
    assert [change.position for change in mix.saved.own_changes] == [0, 10]
    assert {mix.part_at(position)[0] for position in range(10, 20)} == {"a", "d"}


def test_a_part_that_a_window_of_rows_needs_cannot_be_removed():
    """The error names it."""

    def after(stream):
        return stream.filter(lambda x: True).window_shuffle(4, seed=1)

    first = chain_of({"a": 20, "b": 20}, None, after)
    run_values(first, [5])
    with pytest.raises(CheckpointError, match="part 'b' was removed from the mix"):
        gone_on(first, chain_of({"a": 20}, None, after))
