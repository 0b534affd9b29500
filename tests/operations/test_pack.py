"""Packing: documents of unequal length as rows of one length."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter
from itertools import islice, pairwise
from typing import NamedTuple

import grain
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import chosen, plain, tries

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    IndexSampler,
    MapDataset,
    MapTransform,
    Pack,
    RandomMapTransform,
    ShardOptions,
)
from headrace.errors import CheckpointError, LengthsError, PackError
from headrace.operations.packing import rules

NO_SHARDING = headrace.NoSharding()
STRATEGIES = ("best_fit", "first_fit", "next_fit", "concat_then_split")


def _documents(lengths, first=1):
    """Arrays of these lengths, no two of which have a token in common."""
    ends = np.cumsum([first, *lengths])
    return [np.arange(start, stop, dtype=np.int32) for start, stop in pairwise(ends)]


def _random(count, mean=20, seed=0):
    return _documents(np.random.default_rng(seed).exponential(mean, count).astype(int))


def _loader(documents, *operations, shuffle=False, num_epochs=1, shard=NO_SHARDING, **more):
    sampler = IndexSampler(
        len(documents), shuffle=shuffle, seed=0, num_epochs=num_epochs, shard_options=shard
    )
    return DataLoader(data_source=documents, sampler=sampler, operations=operations, **more)


def _rows(documents, *operations, **more):
    return list(_loader(documents, *operations, **more))


def _segments(row, leaf="tokens"):
    """The segments of a row, without the padding."""
    ids = row[f"{leaf}_segment_ids"]
    return [row[leaf][ids == number].tolist() for number in range(1, ids.max(initial=0) + 1)]


def _tokens(rows, leaf="tokens"):
    return Counter(
        token for row in rows for token in row[leaf][row[f"{leaf}_segment_ids"] > 0].tolist()
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("max_segments", [None, 3])
def test_every_token_comes_once_in_rows_of_one_length(strategy, max_segments):
    """Nothing is lost or repeated, segments are numbered from 1 without a gap, and padding stands
    at the end.
    """
    documents = _random(100)
    rows = _rows(documents, Pack(32, strategy, window=17, max_segments=max_segments, pad_value=-7))
    assert _tokens(rows) == Counter(np.concatenate(documents).tolist())
    for row in rows:
        tokens, ids, positions = (
            row[name] for name in ("tokens", "tokens_segment_ids", "tokens_positions")
        )
        assert {(array.shape, str(array.dtype)) for array in row.values()} == {((32,), "int32")}
        used = int((ids > 0).sum())
        assert used
        assert (ids[:used] > 0).all()
        assert (tokens[used:] == -7).all()
        assert (positions[used:] == 0).all()
        assert set(np.diff(ids[:used])) <= {0, 1}
        assert ids[0] == 1
        assert max_segments is None or ids.max() <= max_segments
        starts = np.flatnonzero(np.diff(ids[:used], prepend=0))
        assert (positions[:used] == np.arange(used) - starts[ids[:used] - 1]).all()


def test_documents_stay_whole_where_they_fit():
    """Best fit, first fit and next fit split only documents that are longer than a row."""
    documents = _random(100)
    for strategy in ("best_fit", "first_fit", "next_fit"):
        segments = [
            tuple(segment)
            for row in _rows(documents, Pack(32, strategy, 30))
            for segment in _segments(row)
        ]
        assert {
            tuple(document.tolist()) for document in documents if 0 < len(document) <= 32
        } <= set(segments)


def test_best_fit_fills_99_percent_of_rows():
    """With 1,000 documents of a quarter of a row, and at most 16 of them in one."""
    for seed in range(3):
        draw = np.random.default_rng(seed)
        for lengths in (
            draw.exponential(500, 1000),
            draw.uniform(1, 1000, 1000),
            draw.lognormal(5.7, 1, 1000),
        ):
            lengths = np.minimum(lengths.astype(np.int64) + 1, 2048)
            for most in (16, None):
                plan = Pack(2048, max_segments=most).plan(lengths)
                assert lengths.sum() / plan.rows / 2048 > 0.99
                assert most is None or all(
                    len(plan.row(row).documents) <= most for row in range(plan.rows)
                )


def test_best_fit_fills_all_rows_with_so_few_documents():
    """The long ones are spread over the rows, so that each row has its share of short ones."""
    plan = Pack(11, max_segments=3).plan([5, 2, 5, 6, 1, 2])
    assert [len(plan.row(row).documents) for row in range(plan.rows)] == [3, 3]


def test_rows_stand_in_the_order_of_the_documents_that_they_began_with():
    """And documents in a row in the order in which they came, whatever the strategy put there
    first.
    """
    documents = _documents([3, 7, 1, 8, 2])
    rows = [list(map(len, _segments(row))) for row in _rows(documents, Pack(10))]
    assert rows == [[3, 7], [1], [8, 2]]
    rows = [list(map(len, _segments(row))) for row in _rows(documents, Pack(10, "first_fit"))]
    assert rows == [[3, 7], [1, 8], [2]]
    rows = [
        list(map(len, _segments(row))) for row in _rows(documents, Pack(10, "concat_then_split"))
    ]
    assert rows == [[3, 7], [1, 8, 1], [1]]


@tries(60)
@given(
    lengths=st.lists(st.integers(0, 25), max_size=40),
    most=st.sampled_from([None, 1, 3]),
    window=st.sampled_from([7, 100]),
)
def test_next_fit_keeps_documents_in_their_order(lengths, most, window):
    """A row ends where the next piece has no room, at `max_segments`, and at the end of a window; a
    long document is split.
    """
    documents = _documents(lengths)
    expected = []
    for start in range(0, len(documents), window):
        row = []
        for document in documents[start : start + window]:
            for piece in (document[at : at + 10].tolist() for at in range(0, len(document), 10)):
                if row and (sum(map(len, row)) + len(piece) > 10 or len(row) == most):
                    expected.append(row)
                    row = []
                row.append(piece)
        expected += [row] if row else []
    assert (
        not documents
        or [
            _segments(row)
            for row in _rows(documents, Pack(10, "next_fit", window, max_segments=most))
        ]
        == expected
    )


def test_next_fit_looks_at_all_leaves():
    """A document begins a row if one of its leaves has no room, though the others have."""
    documents = [
        {"x": np.full(x, number), "y": np.full(y, number)}
        for number, (x, y) in enumerate([(2, 1), (2, 4), (2, 1)])
    ]
    rows = _rows(documents, Pack({"x": 8, "y": 4}, "next_fit"))
    assert [[len(part) for part in _segments(row, "y")] for row in rows] == [[1], [4], [1]]
    assert [[len(part) for part in _segments(row, "x")] for row in rows] == [[2], [2], [2]]


def test_no_row_holds_documents_of_two_windows():
    """And the last, shorter window is packed, too."""
    documents = _documents([1] * 10)
    rows = _rows(documents, Pack(8, window=4))
    assert [row["tokens_segment_ids"].max() for row in rows] == [4, 4, 2]


def test_documents_without_a_token_make_nothing():
    """A window of such documents has no row; beside others they have no segment."""
    rows = _rows(_documents([0, 0, 0, 2, 0, 1]), Pack(4, window=3))
    assert [_segments(row) for row in rows] == [[[1, 2], [3]]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_documents_that_are_too_long_are_split_cut_or_refused(strategy):
    """As `too_long` says."""
    documents = _documents([2, 9, 3])
    split = _rows(documents, Pack(4, strategy))
    assert _tokens(split) == Counter(range(1, 15))
    cut = _rows(documents, Pack(4, strategy, too_long="cut"))
    assert _tokens(cut) == Counter([1, 2, 3, 4, 5, 6, 12, 13, 14])
    with pytest.raises(
        PackError, match=r"9 tokens in leaf \['tokens'\], over length=4.*too_long='split'"
    ) as caught:
        _rows(documents, Pack(4, strategy, too_long="error"))
    assert "record key 1 " in caught.value.__notes__[0]


def test_bos_begins_segments_or_rows():
    """It is put before them, and all tokens stay; with `bos_replaces` it takes the place of a
    token.
    """
    documents = _documents([3, 7])
    for at, replaces, expected in (
        ("segments", False, [[[99, 1, 2, 3]], [[99, 4, 5, 6, 7]], [[99, 8, 9, 10]]]),
        ("rows", False, [[[99, 1, 2, 3], [4]], [[99, 5, 6, 7, 8]], [[99, 9, 10]]]),
        ("segments", True, [[[99, 2, 3], [99, 5]], [[99, 7, 8, 9, 10]]]),
        ("rows", True, [[[99, 2, 3], [4, 5]], [[99, 7, 8, 9, 10]]]),
    ):
        rows = _rows(
            documents, Pack(5, "concat_then_split", bos=99, bos_at=at, bos_replaces=replaces)
        )
        assert [_segments(row) for row in rows] == expected
    pack = Pack(5, pad_value={"x": -1}, bos={"x": 0})
    (row,) = _rows([{"x": document, "mask": document} for document in documents[:1]], pack)
    assert (row["x"].tolist(), row["mask"].tolist()) == ([0, 1, 2, 3, -1], [1, 2, 3, 0, 0])


def test_eos_ends_documents():
    """It stands after the last token of each, once however often a document is split, and one that
    is cut has it too.
    """
    documents = _documents([3, 7])
    for settings, expected in (
        ({}, [[[1, 2, 3, 98], [4]], [[5, 6, 7, 8, 9]], [[10, 98]]]),
        ({"bos": 99}, [[[99, 1, 2, 3, 98]], [[99, 4, 5, 6, 7]], [[99, 8, 9, 10, 98]]]),
        (
            {"bos": 99, "bos_at": "rows"},
            [[[99, 1, 2, 3, 98]], [[99, 4, 5, 6, 7]], [[99, 8, 9, 10, 98]]],
        ),
        ({"bos": 99, "too_long": "cut"}, [[[99, 1, 2, 3, 98]], [[99, 4, 5, 6, 98]]]),
    ):
        rows = _rows(documents, Pack(5, "concat_then_split", eos=98, **settings))
        assert [_segments(row) for row in rows] == expected
    with pytest.raises(
        PackError, match=r"7 tokens in leaf \['tokens'\], over length=8 with bos and eos"
    ):
        _rows(documents, Pack(8, bos=1, eos=2, too_long="error"))
    assert len(_rows(documents, Pack(9, bos=1, eos=2, too_long="error"))) == 2


@pytest.mark.one_in(3)
@pytest.mark.parametrize("strategy", ["best_fit", "first_fit", "concat_then_split"])
@tries(150)
@given(data=st.data())
def test_first_and_end_tokens_are_put_beside_all_tokens(strategy, data):
    """Each token comes once and in order, with `bos` and `eos` where they belong, in rows that are
    planned alike.
    """
    lengths = data.draw(
        st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=12)
    )
    bos, eos = (
        {} if not data.draw(st.booleans()) else {"x": token, "y": token} for token in (-1, -2)
    )
    if data.draw(st.booleans()):
        bos.pop("y", None)
    at, most = (
        data.draw(st.sampled_from(["segments", "rows"])),
        data.draw(st.sampled_from([None, 1, 3])),
    )
    room = {"x": data.draw(st.integers(3, 9)), "y": data.draw(st.integers(3, 9))}
    puts = {"bos": bos or None, "eos": eos or None, "bos_at": at}
    pack = Pack(room, strategy, 100, max_segments=most, pad_value=-9, meta_features=["id"], **puts)
    documents = [
        {"x": 1 + np.arange(x), "y": 1 + np.arange(y), "id": n} for n, (x, y) in enumerate(lengths)
    ]
    rows = _rows(documents, pack)
    found = {name: [[] for _ in documents] for name in "xy"}
    for row in rows:
        for name in "xy":
            ids, tokens = row[f"{name}_segment_ids"], row[name]
            assert (tokens[ids == 0] == -9).all()
            starts_row = True
            for segment in (
                range(1, len(row["id"]) + 1) if most is None else range(1, ids.max(initial=0) + 1)
            ):
                piece = tokens[ids == segment].tolist()
                assert row[f"{name}_positions"][ids == segment].tolist() == list(range(len(piece)))
                if not piece:
                    continue
                wanted = name in bos and (at == "segments" or starts_row)
                assert (piece[0] == -1) == wanted
                assert piece[wanted:], "no first token stands alone"
                assert -2 not in piece[:-1], "nothing follows an end token"
                found[name][row["id"][segment - 1]] += piece[wanted:]
                starts_row = False
    for number, document in enumerate(documents):
        for name in "xy":
            end = [-2] if name in eos and len(document[name]) else []
            expected = document[name].tolist() + end
            # else the rest of a document may go to an earlier row
            in_order = strategy == "concat_then_split"
            assert (
                found[name][number] == expected
                if in_order
                else sorted(found[name][number]) == sorted(expected)
            )
    plan = pack.plan({name: [len(document[name]) for document in documents] for name in "xy"})
    assert plan.rows == len(rows)
    for number, row in enumerate(rows):
        pieces = plan.row(number)
        again = pack.row([documents[one] for one in pieces.documents], pieces)
        assert {name: np.asarray(leaf).tolist() for name, leaf in again.items()} == {
            name: np.asarray(leaf).tolist() for name, leaf in row.items()
        }
        for spans in pieces.spans:
            assert all(0 <= start <= stop <= length for start, stop, length in spans)


def test_several_leaves_are_packed_together():
    """A document has the same segment id in all leaves, each of which has its own length; tokens
    may be vectors.
    """
    documents = [
        {
            "inputs": np.full(2 + i, i, np.uint16),
            "deep": {"targets": np.full((5 - i, 3), i, np.float32)},
        }
        for i in range(5)
    ]
    rows = _rows(documents, Pack({"inputs": 8, "deep": {"targets": 6}}, "first_fit"))
    assert [row["inputs"].dtype for row in rows] == [np.uint16] * len(rows)
    assert list(rows[0]) == ["inputs", "inputs_segment_ids", "inputs_positions", "deep"]
    assert list(rows[0]["deep"]) == ["targets", "targets_segment_ids", "targets_positions"]
    assert rows[0]["deep"]["targets"].shape == (6, 3)
    assert [
        np.unique(row["inputs_segment_ids"][row["inputs_segment_ids"] > 0]).size for row in rows
    ] == [2, 2, 1]
    found = Counter()
    for row in rows:
        inner = row["deep"]
        for number in range(1, row["inputs_segment_ids"].max() + 1):
            (document,) = set(row["inputs"][row["inputs_segment_ids"] == number].tolist())
            targets = inner["targets"][inner["targets_segment_ids"] == number]
            assert (targets == document).all()
            assert targets.shape == (5 - document, 3)
            found[document] += 1
    assert found == Counter(range(5))


def test_meta_features_are_passed_along_by_segment():
    """The value of segment i stands at i - 1; with max_segments, rows can be batched."""
    documents = [
        {"x": np.full(2, i), "id": i, "name": f"n{i}", "pair": np.array([i, i])} for i in range(5)
    ]
    pack = Pack({"x": 6}, max_segments=4, pad_value=-1, meta_features=["id", "name", "pair"])
    first, second = _rows(documents, pack)
    assert first["id"].tolist() == [0, 1, 2, -1]
    assert first["name"].tolist() == ["n0", "n1", "n2", None]
    assert second["pair"].tolist() == [[3, 3], [4, 4], [-1, -1], [-1, -1]]
    (batch,) = _rows(documents, pack, Batch(2))
    assert batch["id"].shape == (2, 4)
    first, second = _rows(documents, Pack(6, meta_features=["id", "name", "pair"]))
    assert (first["id"].tolist(), second["id"].tolist()) == ([0, 1, 2], [3, 4])


BAD = {
    "length=0 must be at least 1": lambda: Pack(0),
    "length='4' is a str": lambda: Pack({"x": "4"}),
    "window=0 must be at least 1": lambda: Pack(4, window=0),
    "max_segments=-1 must be at least 1": lambda: Pack(4, max_segments=-1),
    "strategy='worst' is not a known value. Use \"best_fit\" or": lambda: Pack(4, "worst"),
    "too_long='drop' is not a known value": lambda: Pack(4, too_long="drop"),
    "length=2 leaves no room for a token beside bos and eos": lambda: Pack(2, bos=1, eos=2),
    "bos_at='x' is not a known value": lambda: Pack(4, bos_at="x"),
    "pad_value='x' is not valid. Pass a number": lambda: Pack(4, pad_value="x"),
    "meta_features='id' is not a list": lambda: Pack(4, meta_features="id"),
}


@pytest.mark.parametrize("message", BAD)
def test_arguments_out_of_range_are_refused(message):
    """When the operation is made, with what was given and what is allowed."""
    with pytest.raises((TypeError, ValueError)) as caught:
        BAD[message]()
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


X = np.arange(3)
UNFIT = {
    "is 'text', a str, but only arrays": (["text"], Pack(4)),
    "is [1, 2], a list, but only arrays": ([{"x": [1, 2]}], Pack(4)),
    "an element is None": ([{"x": X}, None], Pack(4)),
    "is None, a NoneType": ([{"x": X}, {"x": None}], Pack(4)),
    "is 3, an int": ([{"x": X, "id": 3}], Pack(4)),
    "of dtype <U1 and shape (1,)": ([np.array(["a"])], Pack(4)),
    "the first has ['x'], but this one has ['x'], ['y']": ([{"x": X}, {"x": X, "y": X}], Pack(4)),
    "an element is a ndarray, but the first element is a dict": ([{"x": X}, X], Pack(4)),
    "is float64[3] in one document, but int64[…] in the first": ([X, X + 0.5], Pack(4)),
    "meta_features has 'id', but elements have no such key": (
        [{"x": X}],
        Pack(4, meta_features=["id"]),
    ),
    "['y'], which elements do not have, or which is in meta_features": (
        [{"x": X}],
        Pack({"x": 4, "y": 4}),
    ),
    "leaf ['y'] has no length": ([{"x": X, "y": X}], Pack({"x": 4})),
    "pad_value= is a dict with ['y'], which elements do not have": (
        [{"x": X}],
        Pack(4, pad_value={"y": 4}),
    ),
    "pad_value=-1 does not fit leaf ['tokens'] of dtype uint8": (
        [X.astype(np.uint8)],
        Pack(4, pad_value=-1),
    ),
    "bos=300 does not fit": ([X.astype(np.uint8)], Pack(4, bos=300)),
    "bos=1 would be added to each of ['x'], ['y']": ([{"x": X, "y": X}], Pack(4, bos=1)),
    "elements have a leaf ['x_positions'], which is also a name that Pack adds": (
        [{"x": X, "x_positions": X}],
        Pack(4),
    ),
    "elements have a leaf ['x_segment_ids'], which is also": (
        [{"x": X, "x_segment_ids": X}],
        Pack(4),
    ),
    "elements are empty dicts": ([{}], Pack(4)),
    "leaf ['tokens'] is [], a list": ([[]], Pack(4)),
    "elements have ['x'], and meta_features names all of it": (
        [{"x": X}],
        Pack(4, meta_features=["x"]),
    ),
    "has the shapes () and (2,)": (
        [{"x": X, "m": 1}, {"x": X, "m": X[:2]}],
        Pack(4, meta_features=["m"]),
    ),
    "only arrays can be packed": ([np.ma.masked_array(X)], Pack(4)),
}


@pytest.mark.parametrize("message", UNFIT)
def test_what_cannot_be_packed_is_refused(message):
    """With an error that names the leaf and what to do, and is short."""
    documents, pack = UNFIT[message]
    with pytest.raises(PackError) as caught:
        _rows(
            [*documents, documents[0]][: len(documents)],
            MapTransform(lambda element: element),
            pack,
        )
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


def test_an_error_names_the_document_at_fault():
    """By its record key, however many wait with it to be packed."""
    documents = [X, X, X, "text", X]
    for more in ([], [Filter(lambda element: True)]):
        with pytest.raises(PackError) as caught:
            _rows(documents, *more, Pack(4))
        assert "record key 3 at position 3" in caught.value.__notes__[0]


def _grain(kind, documents, length, **options):
    dataset = grain.MapDataset.source(documents).to_iter_dataset(grain.ReadOptions(num_threads=0))
    return list(kind(dataset, length_struct=length, **options))


def _same(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert mine.keys() == other.keys()
        for name in mine:
            assert mine[name].dtype == other[name].dtype
            assert mine[name].tolist() == other[name].tolist(), name


@pytest.mark.parametrize("length", [{"x": 24}, {"x": 24, "y": 20}])
def test_segments_and_positions_are_those_of_grain(length):
    """First fit and concat-then-split give Grain's rows, of one leaf and of several."""
    rng = np.random.default_rng(3)
    documents = [
        {name: rng.integers(1, 99, rng.integers(1, most)) for name, most in length.items()}
        for _ in range(60)
    ]
    theirs = _grain(
        grain.experimental.FirstFitPackIterDataset,
        documents,
        length,
        num_packing_bins=60,
        shuffle_bins=False,
    )
    _same(_rows(documents, Pack(length, "first_fit")), theirs)
    theirs = _grain(
        grain.experimental.FirstFitPackIterDataset,
        documents,
        length,
        num_packing_bins=60,
        shuffle_bins=False,
        max_sequences_per_bin=2,
    )
    _same(_rows(documents, Pack(length, "first_fit", max_segments=2)), theirs)
    theirs = _grain(grain.experimental.ConcatThenSplitIterDataset, documents, length)
    _same(_rows(documents, Pack(length, "concat_then_split")), theirs)


def test_bos_is_that_of_grain():
    """With `bos_replaces=True` it does what REPLACE_FIRST_TOKEN_WITH_BOS does."""
    documents = [{"x": document} for document in _random(40)]
    replace = grain.experimental.BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS
    theirs = _grain(
        grain.experimental.ConcatThenSplitIterDataset,
        [document for document in documents if len(document["x"])],
        {"x": 100},
        bos_handling=replace,
        bos_features=["x"],
        bos_token_id=7,
    )
    _same(_rows(documents, Pack(100, "concat_then_split", bos=7, bos_replaces=True)), theirs)


PIPELINES = {
    "rows": [Pack(32, window=13)],
    "batches": [Pack(32, "concat_then_split", window=13, max_segments=4), Batch(3)],
    "filter, batches": [
        Filter(lambda x: len(x) % 3 > 0),
        Pack(32, "first_fit", window=7),
        Batch(4),
    ],
    "pack of packs": [
        Pack(32, window=5),
        MapTransform(lambda row: row["tokens"][row["tokens_segment_ids"] > 0]),
        Pack(70, window=3),
    ],
}


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PIPELINES)
@tries(15)
@given(
    steps=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    again=st.lists(st.integers(0, 3), min_size=2, max_size=2),
)
def test_every_token_comes_once_however_often_the_shards_change(name, steps, again):
    """3 shards, then 2, then 1, each left at a step of its own."""
    documents = _random(40)
    operations = PIPELINES[name]

    def run(shards, states, counts):
        found, left = [], []
        for shard in range(shards):
            iterator = iter(
                _loader(documents, *operations, shuffle=True, shard=ShardOptions(shard, shards))
            )
            if states:
                iterator.set_states(states)
            found += list(islice(iterator, counts[shard] if counts else None))
            left.append(iterator.get_state())
        return found, left

    first, states = run(3, None, steps)
    second, states = run(2, states, again)
    third, _ = run(1, states, None)
    kept = [document for document in documents if "filter" not in name or len(document) % 3]
    assert _tokens([*first, *second, *third]) == Counter(np.concatenate(kept).tolist())


def test_a_state_between_windows_goes_on_with_another_window():
    """Within one it is refused, as its rows could not be told."""
    documents = _documents([2] * 8)
    iterator = iter(_loader(documents, Pack(4, window=4)))
    states = [(len(list(islice(iterator, 1))), iterator.get_state())[1] for _ in range(2)]
    other = iter(_loader(documents, Pack(4, window=2)))
    with pytest.raises(CheckpointError, match="batch_sizes"):
        other.set_state(states[0])
    other.set_state(states[1])
    assert _tokens(other) == Counter(range(9, 17))


def test_batches_of_rows_may_change_their_size_within_a_window():
    """Not the window: what is left of it could not be told, be it this shard's or that of a former
    one.
    """
    documents = _documents([3] * 24)

    def begin(window, size, shard=NO_SHARDING):
        return iter(_loader(documents, Pack(4, window=window), Batch(size), shard=shard))

    iterator = begin(6, 2)
    next(iterator)
    state, rest = (
        iterator.get_state(),
        [row for batch in iterator for row in batch["tokens"].tolist()],
    )
    other = begin(6, 5)
    other.set_state(state)
    assert [row for batch in other for row in batch["tokens"].tolist()] == rest
    with pytest.raises(CheckpointError, match="batch_sizes: number 0 changed"):
        begin(7, 2).set_state(state)

    states = []
    for shard in range(2):
        iterator = begin(6, 2, ShardOptions(shard, 2))
        next(iterator)
        states.append(iterator.get_state())
    iterator = begin(6, 5)
    iterator.set_states(states)
    state = iterator.get_state()
    with pytest.raises(CheckpointError, match="batch_sizes"):
        begin(7, 5).set_state(state)
    other = begin(6, 3)
    other.set_state(state)
    assert Counter(_tokens(other)) == Counter(_tokens(iterator))


def test_a_random_map_after_a_pack_draws_for_each_row():
    """Rows of one window have other random numbers, which no worker count changes."""
    noise = RandomMapTransform(lambda row, rng: rng.random())
    rows = _rows(_documents([3] * 12), Pack(4, window=6), noise)
    assert len(set(rows)) == 12


def test_a_batch_of_rows_can_have_another_size():
    """`with_batch_size` is about the Batch, not the Pack before it."""
    one = _loader(_documents([3] * 12), Pack(4, window=6), Batch(2)).with_batch_size(4)
    assert [len(batch["tokens"]) for batch in one] == [4, 4, 4]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("max_segments", [None, 2])
def test_a_plan_tells_the_rows_before_anything_is_read(strategy, max_segments):
    """Their number, and of each the documents and what of them, as packing itself finds it."""
    documents = [
        {"x": x, "y": {"z": x[: len(x) // 2]}, "id": number} for number, x in enumerate(_random(50))
    ]
    length = {"x": 32, "y": {"z": 20}}
    pack = Pack(length, strategy, window=8, max_segments=max_segments, meta_features=["id"])
    lengths = {
        "x": [len(document["x"]) for document in documents],
        "y": {"z": [len(d["y"]["z"]) for d in documents]},
    }
    plan = pack.plan(lengths)
    rows = _rows(documents, pack)
    assert plan.rows == len(rows)
    for number in [*range(plan.rows), 3, 0]:
        pieces = plan.row(number)
        row = pack.row([documents[document] for document in pieces.documents], pieces)
        assert plain(row) == plain(rows[number])


@pytest.mark.parametrize("strategy", ["best_fit", "first_fit", "next_fit"])
def test_a_plan_looks_for_places_once(strategy, monkeypatch):
    """In whatever process a row is asked for, and however many windows there are: what was found is
    kept, and goes along.
    """
    plan = Pack(16, strategy, window=8, max_segments=3).plan(
        [len(document) for document in _random(50)]
    )
    expected = [plan.row(number).documents.tolist() for number in range(plan.rows)]
    again = pickle.loads(pickle.dumps(plan))
    monkeypatch.setattr(rules, "FITS", {})
    assert [again.row(number).documents.tolist() for number in range(again.rows)] == expected


def test_a_plan_of_one_leaf_takes_plain_lengths():
    """As sources of tokens tell them."""
    documents = _random(20)
    lengths = [len(document) for document in documents]
    for pack in (Pack(16, window=6), Pack({"tokens": 16}, window=6)):
        assert pack.plan(lengths).rows == len(_rows(documents, Pack(16, window=6)))
    with pytest.raises(IndexError, match="row 99 does not exist: the documents make 36 rows"):
        pack.plan(lengths).row(99)
    with pytest.raises(PackError, match="over length=2"):
        Pack(2, too_long="error").plan(lengths)
    with pytest.raises(PackError, match="1 lengths, but leaf"):
        Pack(4).plan({"x": [1, 2], "y": [1]})
    for bad in ({"x": [[1]], "y": [[1]]}, {"x": [-1], "y": [2]}):
        with pytest.raises(LengthsError, match=r"lengths of leaf \['x'\]: "):
            Pack(4).plan(bad)
    with pytest.raises(PackError, match=r"names several keys\. Pass lengths= a dict"):
        Pack({"x": 2, "y": 2}).plan(lengths)


def test_sources_in_memory_know_their_lengths():
    """Of arrays and of the arrays in dicts; for what else is in memory there are none."""
    x = _random(5)
    expected = [len(one) for one in x]
    assert headrace.MemorySource(x).lengths.tolist() == expected
    lengths = headrace.MemorySource([{"a": {"x": one}, "id": 1} for one in x]).lengths
    assert lengths["a"]["x"].tolist() == expected
    assert lengths.keys() == {"a"}
    assert headrace.MemorySource({"x": np.zeros((2, 3)), "id": np.zeros(2)}).lengths[
        "x"
    ].tolist() == [3, 3]
    assert headrace.MemorySource([1, 2]).lengths is None
    assert headrace.MemorySource([x[0], None]).lengths is None
    assert headrace.MemorySource([{"x": x[0]}, {}]).lengths is None


def test_documents_that_are_not_as_planned_are_refused():
    """Longer or shorter: with the document, its leaf and both lengths, and what to pass. Nothing of
    it is cut in silence.
    """
    plan = Pack(8).plan([4, 4])
    for length in (3, 5):
        with pytest.raises(
            PackError,
            match=rf"document 1 has {length} tokens in leaf \['tokens'\], but 4 were planned",
        ):
            Pack(8).row([np.arange(4), np.arange(length)], plan.row(0))
    cut = Pack(3, too_long="cut").plan([4, 4])
    assert Pack(3, too_long="cut").row([np.arange(4)], cut.row(1))["tokens"].tolist() == [0, 1, 2]
    both = {"x": np.arange(4), "y": np.arange(4)}
    with pytest.raises(
        PackError,
        match=(
            r"lengths of 2 leaves, but the documents have \['x'\], \['y'\], \['z'\]\. Pass "
            r"lengths= as"
        ),
    ):
        Pack(8).row([{**both, "z": both["x"]}] * 2, Pack(8).plan({"x": [4, 4], "y": [4, 4]}).row(0))


def test_one_length_of_each_document_is_that_of_all_its_leaves():
    """Tokens and their mask, for example; another length of one of them is an error
    that names it.
    """
    both = [{"x": np.arange(4), "y": np.arange(4) > 1}, {"x": np.arange(3), "y": np.arange(3) > 1}]
    for pack in (Pack(8, eos={"x": 9, "y": 0}), Pack(8)):
        plan = pack.plan([4, 3])
        for number, streamed in enumerate(_loader(both, pack)):
            planned = plan.row(number)
            row = pack.row([both[at] for at in planned.documents], planned)
            assert {name: leaf.tolist() for name, leaf in row.items()} == {
                name: leaf.tolist() for name, leaf in streamed.items()
            }
        assert plan.rows == number + 1
    with pytest.raises(
        PackError, match=r"document 1 has 2 tokens in leaf \['y'\], but 3 were planned"
    ):
        Pack(8).row([both[0], {"x": np.arange(3), "y": np.arange(2) > 1}], plan.row(0))


def test_operations_that_pack_otherwise_are_told_apart_in_a_state():
    """Another length or strategy is another stream."""
    state = iter(_loader([X] * 4, Pack(4))).get_state()
    for other in (Pack(5), Pack(4, "first_fit"), Pack(4, max_segments=2), Pack(4, bos=1)):
        with pytest.raises(CheckpointError, match="operations"):
            iter(_loader([X] * 4, other)).set_state(state)
    for one, other in (
        (Pack(4, bos=1), Pack(4, bos=1, bos_replaces=True)),
        (Pack(4, bos=1), Pack(4, bos=1, eos=2)),
    ):
        with pytest.raises(CheckpointError, match="operations"):
            iter(_loader([X] * 4, other)).set_state(iter(_loader([X] * 4, one)).get_state())
    numpys = Pack(np.int64(4), max_segments=np.int64(2))  # the same stream
    assert repr(numpys.identity_parameters()) == repr(Pack(4, max_segments=2).identity_parameters())
    assert {"bos_replaces", "eos"}.isdisjoint(Pack(4).identity_parameters())
    assert repr(Pack(4)) == "Pack(4, 'best_fit', window=1000)"
    assert headrace.Pack is Pack


class Pair(NamedTuple):
    """A document as a named tuple."""

    inputs: np.ndarray
    targets: np.ndarray


@dataclasses.dataclass
class Text:
    """A document as a dataclass, with another inside."""

    name: str
    pair: Pair


def _pairs(kind):
    documents = _random(60, mean=5)
    pairs = [{"inputs": one, "targets": -one} for one in documents]
    if kind == "named tuple":
        return pairs, [Pair(**pair) for pair in pairs]
    return (
        [{"name": str(number), "pair": pair} for number, pair in enumerate(pairs)],
        [Text(str(number), Pair(**pair)) for number, pair in enumerate(pairs)],
    )


@pytest.mark.parametrize("worker_count", chosen([0, 1], 0))
@pytest.mark.parametrize("kind", ["named tuple", "dataclass"])
def test_documents_with_fields_are_packed_as_the_dicts_of_these(kind, worker_count):
    """Named tuples and dataclasses, also inside one another; rows are dicts, the same
    as of dicts.
    """
    as_dicts, as_fields = _pairs(kind)
    pack = Pack(32, window=20, meta_features=["name"] if kind == "dataclass" else ())
    expected, found = (
        list(map(plain, _rows(given, pack, worker_count=worker_count)))
        for given in (as_dicts, as_fields)
    )
    assert found == expected
    assert len(found) > 5


def test_named_tuples_are_packed_by_plan_too():
    """Their lengths are known before they are read; settings name their fields."""
    as_dicts, as_fields = _pairs("named tuple")
    one, other = (
        headrace.MapDataset.source(given).pack(
            {"inputs": 32, "targets": 32}, pad_value={"targets": 9}
        )
        for given in (as_dicts, as_fields)
    )
    assert (len(one), plain(one[2])) == (len(other), plain(other[2]))


def test_a_named_tuple_that_is_passed_along_stays_what_it_is():
    """What is among the meta features is not taken apart."""
    documents = [{"tokens": np.arange(3), "meta": Pair(number, number)} for number in range(3)]
    (row,) = _rows(documents, Pack(16, meta_features=["meta"]))
    assert list(row["meta"]) == [Pair(0, 0), Pair(1, 1), Pair(2, 2)]


def test_documents_that_are_tuples_of_arrays_are_told_how_to_get_names():
    """A plain tuple has none for its leaves."""
    with pytest.raises(
        PackError,
        match=r"a tuple of 2 arrays, whose leaves have no names\. Map it to a dict before Pack",
    ) as caught:
        _rows([(np.arange(3), np.arange(3))] * 3, Pack(8))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("planned", [False, True])
def test_rows_of_several_hosts_are_those_of_one_only_where_they_are_planned_before(planned):
    """A `Pack` packs each host's own documents; `MapDataset.pack` packs all, and hosts share the
    rows. None is lost.
    """
    documents = [np.full(number % 5 + 1, number) for number in range(1, 41)]

    def rows(shard):
        if planned:
            chain = MapDataset.source(documents).shuffle(seed=0).pack(8, window=5)
            return [row["tokens"].tolist() for row in chain.to_iter_dataset(shard_options=shard)]
        sampler = IndexSampler(40, shard, shuffle=True, seed=0, num_epochs=1)
        loader = DataLoader(data_source=documents, sampler=sampler, operations=[Pack(8, window=5)])
        return [row["tokens"].tolist() for row in loader]

    one, two = (
        rows(ShardOptions(0, 1)),
        [row for index in range(2) for row in rows(ShardOptions(index, 2))],
    )
    assert (sorted(one) == sorted(two)) is planned
    packed = [sorted(token for row in every for token in row if token) for every in (one, two)]
    assert packed[0] == packed[1] == sorted(np.concatenate(documents).tolist())
