"""Batches by budget of datasets with random access: whatever made their elements, and whatever
comes after.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest

import headrace
from headrace import MapDataset, ShardOptions
from headrace.errors import LengthsError

LENGTHS = np.clip(np.random.default_rng(0).lognormal(3, 1, 60).astype(int), 1, 64)
RECORDS = [
    {"tokens": np.full(length, number + 1), "id": number} for number, length in enumerate(LENGTHS)
]


def drawn_rows(batches):
    """The number of each record, and what was drawn for it."""
    return [
        (number, drawn)
        for batch in batches
        for number, drawn, length in zip(
            batch["id"].tolist(), batch["drawn"].tolist(), batch["lengths"]
        )
        if length
    ]


def drawn(record, rng):
    """A random map."""
    return {**record, "drawn": rng.integers(1 << 40)}


RECORD_CHAINS = {
    "as they are": lambda records: records.random_map(drawn),
    "drawn, shuffled": lambda records: records.random_map(drawn).shuffle(),
    "shuffled, drawn": lambda records: records.shuffle().random_map(drawn),
    "shuffled in windows, drawn": lambda records: (
        records.window_shuffle(9).random_map(drawn).block_shuffle(5)
    ),
    "two epochs of them": lambda records: records.shuffle().repeat(2).random_map(drawn),
    "one epoch twice": lambda records: (
        records.shuffle().repeat(2, reseed_each_epoch=False).random_map(drawn)
    ),
    "a slice of these": lambda records: records.shuffle(reseed_each_epoch=False)[5:40:3].random_map(
        drawn
    ),
    "mixed until one ends": lambda records: MapDataset.mix(
        [records[:9], records[9:]], [0.7, 0.3]
    ).random_map(drawn),
    "drawn, mixed until all end": lambda records: MapDataset.mix(
        [records[:9].shuffle().random_map(drawn), records[9:].random_map(drawn)],
        when_exhausted="all",
    ),
    "one after another": lambda records: MapDataset.concatenate(
        [records[:9].random_map(drawn), records.random_map(drawn)]
    ),
    "chosen": lambda records: MapDataset.select_from_datasets(
        [records, records[5:]], [(0, 3), (1, 4), (0, 70)]
    ).random_map(drawn),
    "zipped": lambda records: MapDataset.zip([records.shuffle().random_map(drawn), records]).map(
        lambda pair: pair[0]
    ),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", RECORD_CHAINS)
def test_each_epoch_of_batches_has_the_same_records_and_draws_anew(name):
    """Whatever made the elements: those of the first epoch, at whose indices random maps draw, come
    in all.
    """
    elements = RECORD_CHAINS[name](MapDataset.source(RECORDS).seed(3))
    batches = elements.budget_batch(128, pad_to=3, lengths=lambda record: len(record["tokens"]))

    epochs = [
        drawn_rows(batches[index] for index in range(len(batches) * e, len(batches) * (e + 1)))
        for e in range(3)
    ]
    assert drawn_rows(batches.repeat(3).to_iter_dataset()) == [
        row for epoch in epochs for row in epoch
    ]
    assert Counter(epochs[0]) == Counter(
        (element["id"], int(element["drawn"])) for element in elements
    )
    for epoch in epochs:
        assert sorted(number for number, _ in epoch) == sorted(number for number, _ in epochs[0])
    assert not {*epochs[0]} & {*epochs[1]}
    assert not {*epochs[1]} & {*epochs[2]}


@pytest.mark.long
@pytest.mark.parametrize("name", RECORD_CHAINS)
@pytest.mark.one_in(4)
def test_batches_of_any_chain_go_on_with_other_shards(name):
    """From any steps of three shards to two: each element once an epoch, as it was drawn; equal
    shapes at each step.
    """
    elements = RECORD_CHAINS[name](MapDataset.source(RECORDS).seed(3))
    batches = elements.budget_batch(
        128, pad_to=3, lengths=lambda record: len(record["tokens"])
    ).map(lambda batch: batch)

    def streams(shards):
        return [
            batches.repeat(2).to_iter_dataset(shard_options=ShardOptions(shard, shards))
            for shard in range(shards)
        ]

    whole = Counter(drawn_rows(batch for stream in streams(1) for batch in stream))
    for steps in ((0, 0, 0), (1, 1, 1), (2, 0, 1), (3, 3, 2)):
        found, states = [], []
        for stream, taken in zip(streams(3), steps):
            iterator = iter(stream)
            found += islice(iterator, taken)
            states.append(iterator.get_state())
        rest = []
        for stream in streams(2):
            iterator = iter(stream)
            iterator.set_states(states)
            rest.append(list(iterator))
        assert all(
            len({batch["mask"].shape for batch in step}) == 1 for step in zip(*rest, strict=True)
        )
        assert Counter(drawn_rows([*found, *rest[0], *rest[1]])) == whole


@pytest.mark.slow
def test_maps_and_filters_of_batches_leave_shapes_equal_in_all_epochs():
    """On several shards, repeated after them; the same at each index; at any step on
    other shards.
    """

    def stream(shard, shards):
        batches = MapDataset.source(RECORDS).seed(3).budget_batch(128, pad_to=3, lengths=LENGTHS)
        batches = batches.random_map(
            lambda batch, rng: {**batch, "drawn": rng.integers(1000)}
        ).filter(len)
        return batches.repeat(2).to_iter_dataset(shard_options=ShardOptions(shard, shards))

    for steps in zip(*(list(stream(shard, 3)) for shard in range(3)), strict=True):
        assert len({batch["mask"].shape for batch in steps}) == 1
    found, states = [], []
    for shard in range(3):
        iterator = iter(stream(shard, 3))
        found += [next(iterator) for _ in range(7)]
        states.append(iterator.get_state())
    for shard in range(2):
        iterator = iter(stream(shard, 2))
        iterator.set_states(states)
        found += list(iterator)
    rows = (row for batch in found for row in zip(batch["id"].tolist(), batch["lengths"]))
    assert Counter(number for number, length in rows if length) == Counter([*range(60)] * 2)
    dataset = MapDataset.source(RECORDS).budget_batch(128, pad_to=3, lengths=LENGTHS, seed=0)
    drawn = dataset.seed(1).random_map(lambda batch, rng: rng.integers(1000)).repeat(2)
    assert list(drawn.to_iter_dataset()) == [drawn[index] for index in range(len(drawn))]


def test_an_element_of_a_chain_that_is_longer_than_its_length_says_is_named_by_its_record():
    """By its index, for which the length was passed, and by its record, however it was shuffled and
    mixed.
    """
    records = MapDataset.source(RECORDS).seed(1)
    elements = MapDataset.mix(
        {"a": records[:20].shuffle(), "b": records[20:].shuffle()}, when_exhausted="all"
    )
    lengths = [len(element["tokens"]) for element in elements]
    index = next(index for index, element in enumerate(elements) if element["id"] == 23)
    lengths[index] -= 1
    with pytest.raises(
        LengthsError,
        match=rf"element {index} \(record 23 of b\) is {LENGTHS[23]} long, but its length was",
    ):
        list(elements.budget_batch(128, pad_to=(64,), lengths=lengths, seed=0))


def test_a_chain_takes_lengths_that_were_measured(tmp_path):
    """From the file of its source, in any order; or from that of its own elements, after a map."""
    records = [np.full(1 + number % 4, number, np.int32) for number in range(11)]
    dataset = MapDataset.source(records)
    twice = dataset.map(lambda tokens: np.repeat(tokens, 2))
    for name, of in (("source", records), ("elements", twice)):
        headrace.measure_lengths(of, len, tmp_path / name, progress=False)
    for chain, name in (
        (dataset, "source"),
        (dataset[3:].shuffle(seed=1), "source"),
        (twice, "elements"),
    ):
        batches = list(chain.budget_batch(24, pad_to=2, lengths=tmp_path / name, seed=0))
        assert sum(int(batch["lengths"].sum()) for batch in batches) == sum(map(len, chain))
    with pytest.raises(
        LengthsError, match="is missing or damaged, or does not contain lengths of this source"
    ):
        dataset.budget_batch(24, lengths=tmp_path / "elements")
    with pytest.raises(
        LengthsError, match="is missing or damaged, or does not contain lengths of this source"
    ):
        twice.budget_batch(24, lengths=tmp_path / "source")
