"""Packed rows dealt to shards by cost: the rows of one shard, the same global batches, elastic,
resumed.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
import pytest

import headrace
from headrace import (
    Balance,
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    MapDataset,
    MixSampler,
    Pack,
    ShardOptions,
    WeightedSampler,
)
from headrace.errors import CheckpointError, LengthsError, PackError

RECORDS, GLOBAL, ROW = 90, 12, 64
LENGTHS = np.clip(np.random.default_rng(2).lognormal(3, 1, RECORDS), 0, 150).astype(np.int64)
LENGTHS[[4, 30]] = 0
DOCUMENTS = [np.full(length, key, np.int32) for key, length in enumerate(LENGTHS.tolist())]
COST = headrace.attention(3, 1)
SETTINGS = {
    "best_fit": {},
    "first_fit": {"strategy": "first_fit", "max_segments": 3},
    "concat": {"strategy": "concat_then_split", "window": 17},
    "cut": {"too_long": "cut", "window": 200},
}


def _loader(
    shard=0,
    shards=1,
    *,
    name="best_fit",
    balance=None,
    plain=False,
    size=None,
    after=(),
    epochs=2,
    **options,
):
    """Batches of 12 rows of all shards together."""
    balance = None if plain else balance or Balance(LENGTHS, COST)
    sampler = IndexSampler(RECORDS, ShardOptions(shard, shards), True, epochs, 5, balance=balance)
    pack = Pack(ROW, **{"window": 25, **SETTINGS[name]})
    batch = Batch(GLOBAL // shards if size is None else size)
    return DataLoader(
        data_source=DOCUMENTS, sampler=sampler, operations=[pack, *after, batch], **options
    )


def _rows(batches):
    """Each row as bytes."""
    return [row.tobytes() for batch in batches for row in np.stack([*batch.values()][:3], axis=1)]


def _resumed(loader, states):
    with iter(loader) as iterator:
        iterator.set_states(states)
        yield from iterator


def _brute_cost(batch):
    """Of each row of a batch, by counting tokens of each segment."""
    return [
        sum(3 * int(n) + int(n) ** 2 for n in np.bincount(row)[1:])
        for row in batch["tokens_segment_ids"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("shards", [1, 2, 3, 7])
@pytest.mark.one_in(6)
def test_shards_get_the_rows_of_one_shard_dealt_by_their_cost(name, shards):
    """As if the rows of one shard were records whose costs are counted: the same ones at each step
    of each shard.
    """
    total = 14 if shards == 7 else GLOBAL
    plain = list(_loader(name=name, plain=True, size=total))
    records = [dict(zip(batch, leaves)) for batch in plain for leaves in zip(*batch.values())]
    costs = np.concatenate([_brute_cost(batch) for batch in plain])
    for shard in range(shards):
        found = list(_loader(shard, shards, name=name, size=total // shards))
        expected = headrace.load(
            records,
            num_epochs=1,
            shard_options=ShardOptions(shard, shards),
            batch_size=total // shards,
            balance=Balance(costs),
        )
        assert [_rows([batch]) for batch in found] == [_rows([batch]) for batch in expected]
        loader = _loader(shard, shards, name=name, size=total // shards)
        assert len(loader) == len(found)
        for step, batch in enumerate(found):
            documents = dict.fromkeys(batch["tokens"][batch["tokens_segment_ids"] > 0].tolist())
            assert dict.fromkeys(loader.records_at(step).tolist()) == documents


@pytest.mark.slow
@pytest.mark.parametrize(("shards", "others"), [(3, 2)])
def test_global_batches_stay_what_they_are_on_other_shards(shards, others):
    """From whole batches on, each step has the rows that it had."""
    expected = [sorted(_rows([batch])) for batch in _loader(plain=True)]
    iterators = [iter(_loader(shard, shards)) for shard in range(shards)]
    for step in range(len(expected) - 1):
        states = [iterator.get_state() for iterator in iterators]
        again = [list(_resumed(_loader(shard, others), states)) for shard in range(others)]
        assert [sorted(_rows(batches)) for batches in zip(*again)][
            : len(expected) - 1 - step
        ] == expected[step:-1]
        for iterator in iterators:
            next(iterator)


class _Noise(headrace.RandomMapTransform):
    def random_map(self, element, rng):
        if isinstance(element, dict):
            return {**element, "noise": rng.integers(1 << 40)}
        return element + rng.integers(1 << 20, size=len(element)) * 1000


def _noisy(shard, shards, plain=False):
    balance = None if plain else Balance(LENGTHS, COST)
    sampler = IndexSampler(RECORDS, ShardOptions(shard, shards), True, 2, 5, balance=balance)
    operations = [_Noise(), Pack(ROW, window=25), _Noise(), Batch(GLOBAL // shards)]
    return DataLoader(data_source=DOCUMENTS, sampler=sampler, operations=operations)


def test_random_operations_draw_the_same_numbers_on_any_number_of_shards():
    """For documents those of one shard without balance; for rows the same on all numbers of shards,
    and others each.
    """
    one = list(_noisy(0, 1))
    plain = list(_noisy(0, 1, plain=True))
    assert [batch["tokens"].tolist() for batch in one] == [
        batch["tokens"].tolist() for batch in plain
    ]
    drawn = Counter(
        (row.tobytes(), noise)
        for batch in one
        for row, noise in zip(batch["tokens"], batch["noise"])
    )
    assert len({noise for _, noise in drawn}) == len(drawn)
    streams = [batch for shard in range(3) for batch in _noisy(shard, 3)]
    assert drawn == Counter(
        (row.tobytes(), noise)
        for batch in streams
        for row, noise in zip(batch["tokens"], batch["noise"])
    )


def test_find_and_traces_know_the_rows():
    """Every document of both epochs is in the row that `find` names; traces and `last_records` name
    segments.
    """
    loaders = [_loader(shard, 2) for shard in range(2)]
    streams = [list(loader) for loader in loaders]
    for epoch in range(2):
        for key in range(RECORDS):
            places = []
            for shard, loader in enumerate(loaders):
                try:
                    places.append((shard, *loader.find(key, epoch)))
                except LookupError:
                    continue
            assert len(places) == (LENGTHS[key] > 0)
            for shard, step, row in places:
                assert key in streams[shard][step]["tokens"][row]
    with pytest.raises(LookupError, match="epoch 2 is after the last one"):
        loaders[0].find(3, 2)
    iterator = iter(loaders[1])
    batch = next(iterator)
    assert iterator.last_records().tolist() == loaders[1].records_at(0).tolist()
    for used in headrace.trace(loaders[1], 0, shards=2).records:
        tokens = batch["tokens"][used.row][batch["tokens_segment_ids"][used.row] == used.segment]
        assert tokens.tolist() == [used.key] * (used.tokens[0].stop - used.tokens[0].start)


def test_an_iterator_tells_the_epoch_of_its_documents():
    """That of the first document of the row before."""
    iterator = iter(_loader(size=1, name="concat"))
    epochs = [iterator.epoch for _ in iterator]
    assert epochs == sorted(epochs)
    assert {*epochs} == {0, 1}


def test_a_loop_for_each_epoch_packs_it_alone():
    """Its windows begin with it, as without balance; a state of one goes on on other shards."""
    plain = [[sorted(_rows([batch])) for batch in epoch] for epoch in _loader(plain=True).epochs(2)]
    loops = [_loader(shard, 3).epochs(2) for shard in range(3)]
    for number in range(2):
        epochs = [next(loop) for loop in loops]
        assert sorted(_rows([next(epoch) for epoch in epochs])) == plain[number][0]
        states = [loop.get_state() for loop in loops]
        others = [_loader(shard, 2).epochs(2) for shard in range(2)]
        for loop in others:
            loop.set_states(states)
        rest = [list(next(loop)) for loop in others]
        assert sorted(_rows(chain(*rest))) == sorted(chain(*plain[number][1:]))
        assert sorted(_rows(batch for epoch in epochs for batch in epoch)) == sorted(
            chain(*plain[number][1:])
        )
        if number == 0:
            assert [len(list(loop)) for loop in others] == [1, 1]


@pytest.mark.slow
def test_mixes_and_weighted_records_are_packed_and_balanced():
    """As one shard packs them without balance; of a mix, `records_at` tells the keys by part."""
    parts = {"web": DOCUMENTS, "books": DOCUMENTS[:40]}
    costs = Balance({"web": LENGTHS, "books": LENGTHS[:40]}, COST)

    def mixed(shard, shards, balance):
        sampler = MixSampler(
            parts, {"web": 0.6, "books": 0.4}, shuffle=True, seed=1, balance=balance
        )
        return parts, sampler, shard, shards

    def weighted(shard, shards, balance):
        balance = balance and Balance(LENGTHS, COST)
        return (
            DOCUMENTS,
            WeightedSampler(LENGTHS % 7, 70, num_epochs=2, balance=balance),
            shard,
            shards,
        )

    def loader(source, sampler, shard, shards):
        operations = [Pack(ROW, window=20), Batch(GLOBAL // shards)]
        options = ShardOptions(shard, shards)
        return DataLoader(
            data_source=source, sampler=sampler, operations=operations, shard_options=options
        )

    for make in (mixed, weighted):
        plain = [sorted(_rows([batch])) for batch in loader(*make(0, 1, None))]
        iterators = [iter(loader(*make(shard, 3, costs))) for shard in range(3)]
        assert [sorted(_rows(next(iterator) for iterator in iterators)) for _ in range(2)] == plain[
            :2
        ]
        states = [iterator.get_state() for iterator in iterators]
        rest = [
            batch
            for shard in range(2)
            for batch in _resumed(loader(*make(shard, 2, costs)), states)
        ]
        assert sorted(_rows(rest)) == sorted(chain(*plain[2:]))
    found = loader(*mixed(0, 2, costs)).records_at(1)
    batch = list(loader(*mixed(0, 2, costs)))[1]
    tokens = {*batch["tokens"][batch["tokens_segment_ids"] > 0].tolist()}
    assert {*found["web"].tolist(), *found["books"].tolist()} == tokens


@pytest.mark.slow
def test_operations_after_the_rows_need_the_size_of_a_global_batch_if_they_leave_some_out():
    """As with records; what is left comes once, on other shards, too. So do rows of which one
    fails.
    """
    keep = {"after": [Filter(lambda row: row["tokens"].sum() % 3)], "size": 2}
    with pytest.raises(ValueError, match="global_batch"):
        _loader(0, 2, **keep)
    keep["balance"] = Balance(LENGTHS, COST, global_batch=GLOBAL)
    expected = sorted(_rows(_loader(plain=True, after=keep["after"], size=2)))
    iterators = [iter(_loader(shard, 3, **keep)) for shard in range(3)]
    seen = [next(iterator) for iterator in iterators]
    states = [iterator.get_state() for iterator in iterators]
    rest = [batch for shard in range(2) for batch in _resumed(_loader(shard, 2, **keep), states)]
    assert sorted(_rows([*seen, *rest])) == expected

    def fails(row):
        if row["tokens"][0] % 3 == 0:
            raise ValueError("it fails")
        return row

    failing = {"size": 1, "balance": keep["balance"], "on_error": "skip", "after": [fails]}
    found = [batch for shard in range(2) for batch in _loader(shard, 2, **failing)]
    whole = [batch for batch in _loader(plain=True, size=1) if batch["tokens"][0, 0] % 3]
    assert sorted(_rows(found)) == sorted(_rows(whole))


def test_several_leaves_of_one_length_are_packed():
    """As without balance; leaves of other lengths are an error that names the record."""
    records = [
        {"tokens": document, "loss": document % 2 == 0, "id": key}
        for key, document in enumerate(DOCUMENTS)
    ]

    def loader(shard, shards, records, **balance):
        pack = Pack(
            ROW,
            window=25,
            max_segments=4,
            meta_features=["id"],
            bos={"tokens": 7},
            pad_value={"tokens": -1},
        )
        shard_options = ShardOptions(shard, shards)
        return headrace.load(
            records,
            transformations=[pack],
            batch_size=4,
            num_epochs=1,
            shard_options=shard_options,
            **balance,
        )

    balance = {"balance": COST, "lengths": LENGTHS}
    plain, found = list(loader(0, 1, records)), list(loader(0, 1, records, **balance))
    assert [{name: leaf.tolist() for name, leaf in batch.items()} for batch in plain] == [
        {name: leaf.tolist() for name, leaf in batch.items()} for batch in found
    ]
    sharded = [batch for shard in range(3) for batch in loader(shard, 3, records, **balance)]
    assert sorted(_rows(sharded)) == sorted(_rows(plain))
    records[17] = {**records[17], "loss": records[17]["loss"][:-1]}
    with pytest.raises(
        PackError, match=rf"document 17 has {LENGTHS[17] - 1} tokens in leaf \['loss'\]"
    ):
        list(loader(0, 1, records, **balance))


def test_lengths_that_lie_are_an_error_that_names_the_record():
    """Rows are planned from them."""
    lie = LENGTHS.copy()
    lie[50] += 1
    with pytest.raises(
        PackError, match=f"document 50 has {LENGTHS[50]} tokens .* but {lie[50]} were planned"
    ):
        list(_loader(balance=Balance(lie)))


@pytest.mark.parametrize(
    ("lengths", "rows"),
    [([5], [[0] * 5]), ([0, 0], []), ([20, 30], [[0] * 16, [0] * 4 + [1] * 12, [1] * 16, [1] * 2])],
    ids=["one", "no tokens", "all longer than a row"],
)
def test_odd_documents(lengths, rows):
    """One, nothing in them, more than a row."""
    documents = [np.full(length, key) for key, length in enumerate(lengths)]

    def loader(shard):
        return headrace.load(
            documents,
            transformations=[Pack(16, "concat_then_split", window=4)],
            batch_size=2,
            num_epochs=1,
            balance=True,
            shard_options=ShardOptions(shard, 2),
        )

    found = [
        row[ids > 0].tolist()
        for shard in range(2)
        for batch in loader(shard)
        for row, ids in zip(batch["tokens"], batch["tokens_segment_ids"])
    ]
    assert sorted(found) == sorted(rows)


def _refused(*operations, epochs=1, **pack):
    sampler = IndexSampler(RECORDS, ShardOptions(0, 2), num_epochs=epochs, balance=Balance(LENGTHS))
    pack = Pack(**{"length": ROW, "window": 25, **pack})
    return DataLoader(
        data_source=DOCUMENTS, sampler=sampler, operations=[*operations, pack, Batch(3)]
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: _refused(Filter(len)),
            LengthsError,
            r"before Pack\(64, 'best_fit', window=25\) changes the number of records\. Read a headrace\.Subset",
        ),
        (lambda: _refused(FlatMap(lambda x: [x])), LengthsError, "changes the number"),
        (lambda: _refused(Batch(2)), LengthsError, "changes the number"),
        (lambda: _refused(epochs=None), ValueError, r"sampler never ends\. Pass num_epochs="),
        (
            lambda: _refused(length={"a": 4, "b": 9}),
            LengthsError,
            r"MapDataset…pack\(…, lengths=…\)",
        ),
        (lambda: _refused(too_long="error"), PackError, "too_long='error'"),
        (lambda: _refused(Pack(9)), ValueError, r"shards before Pack\(64, 'best_fit'"),
    ],
    ids=["filter", "flat map", "batch", "endless", "leaves", "too long", "twice"],
)
def test_what_cannot_be_planned_is_refused(make, error, message):
    """With the remedy, when the loader is made."""
    with pytest.raises(error, match=message) as told:
        make()
    assert len(str(told.value)) < 500


def test_a_state_needs_the_lengths_the_packing_and_the_balance_that_it_had():
    """Others would make other rows, or deal them otherwise."""
    iterator = iter(_loader(0, 2))
    next(iterator)
    for other in ({"name": "concat"}, {"balance": Balance(LENGTHS)}, {"plain": True}):
        with pytest.raises(CheckpointError):
            iter(_loader(0, 2, **other)).set_state(iterator.get_state())


def _chain(shard, shards, cost=COST, **options):
    packed = MapDataset.source(DOCUMENTS).shuffle(seed=3).pack(ROW, window=25)
    rows = packed.map(lambda row: {**row, "sum": row["tokens"].sum()}).shuffle(seed=4).repeat(2)
    shard_options = ShardOptions(shard, shards)
    balance = {"balance": cost} if cost is not None else {}
    return rows.to_iter_dataset(shard_options=shard_options, **balance, **options).batch(
        GLOBAL // shards
    )


@pytest.mark.one_in(2)
@pytest.mark.long
@pytest.mark.parametrize("shards", [2, 3])
def test_packed_chains_are_balanced_by_the_segments_of_their_rows(shards):
    """The same global batches as without; sums are closer; at any step on other shards. In later
    epochs, too.
    """
    plain = list(_chain(0, 1, None))
    streams = [list(_chain(shard, shards)) for shard in range(shards)]
    worst = worst_in_turn = 0
    for step, batch in enumerate(plain[:-1]):
        batches = [stream[step] for stream in streams]
        assert sorted(_rows(batches)) == sorted(_rows([batch]))
        worst += max(sum(_brute_cost(each)) for each in batches)
        costs = _brute_cost(batch)
        worst_in_turn += max(sum(costs[shard::shards]) for shard in range(shards))
    assert worst < worst_in_turn
    iterators = [iter(_chain(shard, shards)) for shard in range(shards)]
    for step in range(4):
        states = [iterator.get_state() for iterator in iterators]
        again = [list(_resumed(_chain(shard, 4), states)) for shard in range(4)]
        assert sorted(_rows(chain(*again))) == sorted(_rows(plain[step:]))
        for iterator in iterators:
            next(iterator)


def test_packed_datasets_are_sources_that_are_balanced():
    """Of a loader; costs of one's own for rows are taken as they are."""
    packed = MapDataset.source(DOCUMENTS).pack(ROW, window=25)
    costs = [_brute_cost({name: leaf[None] for name, leaf in row.items()})[0] for row in packed]
    own = {"balance": Balance(costs)}
    for shard in range(2):
        options = {"batch_size": 6, "num_epochs": 1, "shard_options": ShardOptions(shard, 2)}
        found = [_rows([batch]) for batch in headrace.load(packed, balance=COST, **options)]
        assert found == [_rows([batch]) for batch in headrace.load(packed, **own, **options)]
        stream = packed.to_iter_dataset(shard_options=ShardOptions(shard, 2), **own).batch(6)
        assert found == [_rows([batch]) for batch in stream]


@pytest.mark.parametrize("shards", [2, 3])
def test_mixes_of_packed_chains_are_balanced(shards):
    """By the segments of their rows, and the lengths of what is not packed; in later epochs of a
    part, too.
    """
    packed = MapDataset.source(DOCUMENTS).pack(ROW, window=25)
    few = MapDataset.source(DOCUMENTS[:30]).shuffle(seed=1).pack(ROW, window=9).repeat()
    mixed = MapDataset.mix({"packed": packed, "few": few}, {"packed": 0.4, "few": 0.6})
    assert len(mixed) > 2 * len(packed)

    def stream(shard, count, **balance):
        return mixed.to_iter_dataset(shard_options=ShardOptions(shard, count), **balance).batch(
            GLOBAL // count
        )

    plain = list(stream(0, 1))
    balanced = [list(stream(shard, shards, balance=COST)) for shard in range(shards)]
    worst = worst_in_turn = 0
    for batch, batches in zip(plain[:-1], zip(*balanced)):
        assert sorted(_rows(batches)) == sorted(_rows([batch]))
        costs = _brute_cost(batch)
        worst += max(sum(_brute_cost(each)) for each in batches)
        worst_in_turn += max(sum(costs[shard::shards]) for shard in range(shards))
    assert worst < worst_in_turn


def test_several_leaves_of_a_packed_chain_cost_together():
    """The costs of all their segments."""
    pairs = [
        {"a": np.ones(n, int), "b": np.ones(m, int)} for n, m in ((3, 1), (2, 4), (1, 1), (4, 4))
    ]
    lengths = {"a": [3, 2, 1, 4], "b": [1, 4, 1, 4]}
    packed = MapDataset.source(pairs).pack({"a": 5, "b": 6}, window=4, lengths=lengths)
    costs = [
        sum(int(n) ** 2 for leaf in "ab" for n in np.bincount(row[f"{leaf}_segment_ids"])[1:])
        for row in packed
    ]
    assert packed.packed_costs(headrace.attention(0, 1)).tolist() == costs


def test_a_stream_is_not_packed_after_it_was_dealt():
    """Pack before."""
    stream = MapDataset.source(DOCUMENTS).to_iter_dataset(
        shard_options=ShardOptions(0, 2), balance=True
    )
    with pytest.raises(ValueError, match=r"before Pack.*MapDataset…pack\(…, lengths=…\)"):
        next(iter(stream.pack(ROW).batch(3)))
