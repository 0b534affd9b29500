"""pack, a method of both kinds of datasets: the same rows, at an index and in a stream, before and
after other methods.
"""

from __future__ import annotations

import numpy as np
import pytest

import headrace
from headrace import MapDataset, Pack, ShardOptions
from headrace.errors import LengthsError, PackError
from headrace.operations.packing.pieces import Pieces
from headrace.operations.packing.rules import Rules
from headrace.operations.packing.settings import Settings

RANDOM = np.random.default_rng(0)
DOCUMENTS = [
    np.full(size, number, np.int32) for number, size in enumerate(RANDOM.integers(1, 12, 60))
]
PAIRS = [
    {"x": document, "y": document[:3], "id": number} for number, document in enumerate(DOCUMENTS)
]


def tokens(rows, leaf="tokens"):
    """All tokens that are no padding."""
    return sorted(
        np.concatenate([row[leaf][row[f"{leaf}_segment_ids"] > 0] for row in rows]).tolist()
    )


def everything(documents=DOCUMENTS):
    """All tokens there are."""
    return sorted(np.concatenate(documents).tolist())


@pytest.mark.one_in(6)
@pytest.mark.parametrize("strategy", ["best_fit", "first_fit", "next_fit", "concat_then_split"])
def test_a_row_at_an_index_is_that_of_the_operation(strategy):
    """Of a loader, of a stream, and of a stream of the packed dataset; and many at a time."""
    shuffled = MapDataset.source(DOCUMENTS).shuffle(1)
    packed = shuffled.pack(16, strategy, window=20)
    of_operation = list(shuffled.to_iter_dataset().pack(16, strategy, window=20))
    assert len(packed) == len(of_operation)
    np.testing.assert_equal([packed[index] for index in range(len(packed))], of_operation)
    np.testing.assert_equal(packed[range(len(packed))], of_operation)
    np.testing.assert_equal(list(packed), of_operation)
    np.testing.assert_equal(list(packed.to_iter_dataset().mp_prefetch(1)), of_operation)
    loader = headrace.load(
        DOCUMENTS,
        shuffle=True,
        seed=1,
        num_epochs=1,
        transformations=[Pack(16, strategy, window=20)],
    )
    np.testing.assert_equal(list(loader), of_operation)


@pytest.mark.slow
def test_packed_rows_are_a_dataset_like_any_other():
    """Shuffled anew each epoch, batched, sharded and resumed, with a length that is known."""
    packed = MapDataset.source(DOCUMENTS).pack(16)
    assert tokens(packed) == everything()
    epochs = [
        packed.shuffle(1).repeat(2)[range(start, start + len(packed))] for start in (0, len(packed))
    ]
    assert tokens(epochs[0]) == tokens(epochs[1]) == everything()
    batches = packed.shuffle(1).batch(4)
    stream = batches.to_iter_dataset()
    assert len(stream) == len(batches) == -(-len(packed) // 4)
    iterator = iter(stream)
    first = [next(iterator) for _ in range(3)]
    again = iter(stream.mp_prefetch(1))
    again.set_state(iterator.get_state())
    np.testing.assert_equal([*first, *again], [batches[index] for index in range(len(batches))])
    shards = [
        list(packed.to_iter_dataset(shard_options=ShardOptions(index, 3))) for index in range(3)
    ]
    assert tokens([row for shard in shards for row in shard]) == everything()


def test_epochs_before_a_pack_are_packed_each_in_its_order():
    """And epochs after it have the same rows."""
    twice = MapDataset.source(DOCUMENTS).shuffle(1).repeat(2).pack(16, window=60)
    assert tokens(twice) == everything([*DOCUMENTS, *DOCUMENTS])
    packed = MapDataset.source(DOCUMENTS).shuffle(1).pack(16)
    np.testing.assert_equal(packed[3 + len(packed)], packed[3])
    np.testing.assert_equal(packed[-1], packed[len(packed) - 1])


def test_several_datasets_and_leaves_are_packed_by_their_lengths():
    """Mixed, concatenated, sliced, in windows; with leaves of different lengths, and features
    passed along.
    """
    some, others = MapDataset.source(DOCUMENTS[:40]), MapDataset.source(DOCUMENTS[40:])
    for joined in (
        MapDataset.mix([some.shuffle(1), others], when_exhausted="all"),
        MapDataset.concatenate([some, others.window_shuffle(5, seed=1)]),
    ):
        assert tokens(joined.seed(1).pack(16)) == everything()
    packed = MapDataset.source(PAIRS)[::-1].pack({"x": 16, "y": 8}, meta_features=["id"])
    assert tokens(packed, "x") == everything()
    assert tokens(packed, "y") == everything([document[:3] for document in DOCUMENTS])
    assert sorted(np.concatenate([row["id"] for row in packed]).tolist()) == list(range(60))


def test_lengths_may_be_told_where_a_map_hides_them():
    """An error says so where they are needed; what is not as long as told is one, too."""
    doubled = MapDataset.source(DOCUMENTS).map(lambda document: document * 2)
    with pytest.raises(PackError, match="lengths="):
        doubled.pack(16)
    packed = doubled.pack(16, lengths=[len(document) for document in DOCUMENTS])
    assert tokens(packed) == [2 * token for token in everything()]
    with pytest.raises(PackError, match="lengths"):
        list(doubled.pack(16, lengths=[11] * 60))
    with pytest.raises(ValueError, match="never ends"):
        MapDataset.source(DOCUMENTS).repeat().pack(16)


def test_apply_packs():
    """As the methods do."""
    pack = Pack(16, window=20)
    dataset = MapDataset.source(DOCUMENTS)
    rows = list(dataset.pack(16, window=20))
    np.testing.assert_equal(list(dataset.apply([pack])), rows)
    np.testing.assert_equal(list(dataset.to_iter_dataset().apply(pack)), rows)


@pytest.mark.parametrize("count", [2, 4])
def test_lengths_are_as_many_as_there_are_documents(count):
    """Fewer would leave documents out, and more would ask for some that are not there."""
    documents = MapDataset.source([np.arange(3)] * 3).map(np.negative)
    with pytest.raises(PackError, match=f"{count} lengths, but the dataset has 3 elements"):
        documents.pack(4, lengths=[3] * count)


def test_lengths_may_be_a_function_a_field_or_a_file(tmp_path):
    """All make the rows that the lengths themselves make."""
    dataset = MapDataset.source(DOCUMENTS)
    rows = list(dataset.pack(16, window=20))
    headrace.measure_lengths(DOCUMENTS, len, tmp_path / "lengths", progress=False)
    for lengths in (len, tmp_path / "lengths"):
        np.testing.assert_equal(list(dataset.pack(16, window=20, lengths=lengths)), rows)
    records = MapDataset.source([{"x": document, "id": 7} for document in DOCUMENTS])
    by_name = records.pack({"x": 16}, window=20, lengths="x", meta_features=["id"])
    assert [row["x"].tolist() for row in by_name] == [row["tokens"].tolist() for row in rows]


@pytest.mark.parametrize(
    ("lengths", "error", "match"),
    [
        ([3, np.nan, 1], LengthsError, "record 1 has length nan"),
        ([3, 1.5, 1], LengthsError, "record 1 has length 1.5"),
        ([3, -1, 1], LengthsError, "record 1 has length -1"),
        ([[3], [1], [1]], LengthsError, r"shape \(3, 1\)"),
        (["a", "b", "c"], TypeError, r"integers or floats\. Pass an"),
        ({"x": [3, 1, 1], "y": [1]}, PackError, "1 lengths, but leaf"),
    ],
)
def test_lengths_that_cannot_be_are_refused(lengths, error, match):
    """Before anything is packed; none is rounded."""
    documents = MapDataset.source([np.arange(3)] * 3)
    with pytest.raises(error, match=match):
        documents.pack(4, lengths=lengths)


def test_a_pack_after_a_filter_is_refused():
    """Nobody knows which documents come."""
    with pytest.raises(PackError, match=r"which may leave elements out\. Pack the stream"):
        MapDataset.source(DOCUMENTS).filter(len).pack(16, lengths=len)


class _ChunkRules(Rules):
    """Rules by which each row has a chunk of one document, half of which is also in the
    next row.
    """

    def pieces(self, lengths, rows=None):
        """Return the pieces, a row for each."""
        length = self.capacity[0]
        counts = np.where(lengths[:, 0] > 0, np.maximum(-(-2 * lengths[:, 0] // length) - 1, 1), 0)
        documents = np.repeat(np.arange(len(lengths)), counts)
        starts = (np.arange(len(documents)) - np.repeat(np.cumsum(counts) - counts, counts))[
            :, None
        ] * (length // 2)
        return Pieces(
            documents,
            starts,
            np.minimum(starts + length, lengths[documents]),
            1 + np.arange(len(documents)),
        )


class _ChunkSettings(Settings):
    """Settings with these rules."""

    def rules(self, packed):
        """Return the rules."""
        return _ChunkRules(**vars(super().rules(packed)))


class Chunks(Pack):
    """Split documents into overlapping chunks."""

    def __init__(self, length, window=4):
        super().__init__(length, window=window)
        self.settings = _ChunkSettings(**vars(self.settings))


@pytest.mark.slow
def test_an_operation_whose_rows_are_planned_from_lengths_is_one_class():
    """A subclass of `Pack` with its own rules works in streams, with random access, planned on
    shards, and after a resume.
    """
    expected = []
    for document in DOCUMENTS:
        stops = range(8, max(len(document) + 4, 9), 4) if len(document) else ()
        expected += [document[stop - 8 : stop].tolist() for stop in stops]
    dataset = MapDataset.source(DOCUMENTS)
    planned, stream = dataset.apply(Chunks(8)), dataset.to_iter_dataset().apply(Chunks(8))
    assert len(planned) == len(expected)
    assert [row["tokens"][row["tokens_segment_ids"] > 0].tolist() for row in stream] == expected
    np.testing.assert_equal([planned[index] for index in range(len(planned))], list(stream))
    iterator = iter(stream)
    first = [next(iterator) for _ in range(7)]
    again = iter(dataset.to_iter_dataset().apply(Chunks(8)).mp_prefetch(1))
    again.set_state(iterator.get_state())
    np.testing.assert_equal([*first, *again], list(stream))
    lengths = np.array([len(document) for document in DOCUMENTS])
    options = {
        "num_epochs": 1,
        "transformations": [Chunks(8)],
        "balance": True,
        "lengths": lengths,
        "batch_size": 1,
    }
    shards = [
        list(headrace.load(DOCUMENTS, shard_options=ShardOptions(index, 2), **options))
        for index in range(2)
    ]
    found = sorted(batch["tokens"][0].tolist() for shard in shards for batch in shard)
    assert found == sorted(row["tokens"].tolist() for row in stream)
