"""Join two sources by a field: the pairs, the errors, and the digests that are stored
beside files.
"""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import tries
from support.source_conformance import SourceConformance

from headrace import JoinedByKey, JsonLinesDataSource, MapDataset, ParquetDataSource
from headrace.errors import SourceError
from headrace.sources.joined import digests


class TestJoined(SourceConformance):
    def open(self, folder, count):
        left = [{"id": f"{key // 2}", "x": np.int64(key)} for key in range(count)]
        right = [{"id": f"{key}", "y": np.arange(key)} for key in reversed(range(count))]
        return JoinedByKey(left, right, on="id")

    def expected_record(self, key):
        return {"id": f"{key // 2}", "x": np.int64(key), "y": np.arange(key // 2)}


class TestJoinedFiles(SourceConformance):
    on_files = True

    def write(self, folder, count):
        pq.write_table(
            pa.table({"id": [key * 3 for key in range(count)], "x": range(count)}),
            folder / "left.parquet",
        )
        rows = [{"id": key * 3, "text": "é" * key} for key in reversed(range(count + 5))]
        (folder / "right.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def open(self, folder, count):
        return JoinedByKey(
            ParquetDataSource(folder / "left.parquet"),
            JsonLinesDataSource(folder / "right.jsonl"),
            on="id",
        )

    def expected_record(self, key):
        return {"id": np.int64(3 * key), "x": np.int64(key), "text": "é" * key}


VALUES = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["a", "b", "", "é", "1"]),
    st.sampled_from([b"a", b"", b"1"]),
    st.none(),
)


def same(one, other):
    """True for values that are joined."""
    return one is not None and type(one) is type(other) and one == other


@tries(200)
@given(
    st.lists(VALUES, min_size=1, max_size=8),
    st.lists(
        VALUES,
        min_size=1,
        max_size=8,
        unique_by=lambda value: (type(value), value) if value is not None else object(),
    ),
    st.sampled_from(["inner", "left"]),
)
def test_the_pairs_are_those_of_a_nested_loop(lefts, rights, how):
    """For integers, texts, bytes and None, with values that come several times on the left."""
    left = [{"id": value, "x": place} for place, value in enumerate(lefts)]
    right = [{"id": value, "y": place} for place, value in enumerate(rights)]
    expected, pairs = [], 0
    for record in left:
        partners = [other for other in right if same(record["id"], other["id"])]
        pairs += len(partners)
        if partners or how == "left":
            expected.append({**record, "y": partners[0]["y"] if partners else None})
    if not pairs:
        with pytest.raises(
            ValueError,
            match="no record of the left source has a value of 'id' that the right source has",
        ):
            JoinedByKey(left, right, on="id", how=how)
        return
    joined = JoinedByKey(left, right, on="id", how=how)
    assert [joined[key] for key in range(len(joined))] == expected
    keys = np.arange(len(joined))[::-1]
    assert joined.__getitems__(keys) == expected[::-1]


def test_the_only_match_may_be_the_first_record_of_the_right_source():
    """Its index is 0, which is not the absence of a match."""
    joined = JoinedByKey([{"id": 4}, {"id": 5}], [{"id": 5, "y": 1}, {"id": 6, "y": 2}], on="id")
    assert list(joined) == [{"id": 5, "y": 1}]


def test_columns_of_integers_are_joined_as_values_are():
    """Signed and unsigned: -1 is not 2**64 - 1."""
    left = {"id": np.array([-1, 5, 7]), "x": np.arange(3)}
    right = [{"id": 2**64 - 1, "y": 0}, {"id": 5, "y": 1}]
    assert [record["y"] for record in JoinedByKey(left, right, on="id")] == [1]
    both = {"id": np.array([2**64 - 1, 5], np.uint64), "y": np.arange(2)}
    assert [int(record["id"]) for record in JoinedByKey(left, both, on="id")] == [5]
    zero = {"id": np.array([-1, 0, 1]), "x": np.arange(3)}
    assert [int(record["id"]) for record in JoinedByKey(zero, [{"id": 0, "y": 1}], on="id")] == [0]


def test_a_join_of_chains_has_maps_shuffles_and_filters_of_both():
    """Elements that a filter has dropped have no partner; with how="left" they stay None, as in the
    chain itself.
    """
    images = MapDataset.range(20).shuffle(seed=1).map(lambda key: {"id": key, "image": key * 10})
    captions = (
        MapDataset.range(10)
        .filter(lambda key: key % 2)
        .map(lambda key: {"id": key, "text": str(key)})
    )
    joined = images.join(captions, on="id")
    assert [(r["id"], r["text"]) for r in joined] == [
        (each["id"], str(each["id"])) for each in images if each["id"] < 10 and each["id"] % 2
    ]
    dropped = MapDataset.range(4).map(lambda key: {"id": key}).filter(lambda each: each["id"] != 1)
    left = dropped.join([{"id": 0, "y": "zero"}, {"id": 1, "y": "one"}], on="id", how="left")
    assert [left[key] for key in range(4)] == [
        {"id": 0, "y": "zero"},
        None,
        {"id": 2, "y": None},
        {"id": 3, "y": None},
    ]


def test_digests_of_files_are_stored_and_made_again_if_a_file_changes(tmp_path, monkeypatch):
    """The second join reads no values; one after a change does, and has the new pairs."""
    read = []
    monkeypatch.setattr(
        digests,
        "_read",
        lambda source, name, real=digests._read: read.append(name) or real(source, name),
    )

    def write(first):
        (tmp_path / "x.jsonl").write_text(
            "".join(json.dumps({"id": i + first, "x": i}) + "\n" for i in range(5))
        )

    def joined():
        return [
            record["y"]
            for record in JoinedByKey(JsonLinesDataSource(tmp_path / "x.jsonl"), right, on="id")
        ]

    right = {"id": np.arange(3), "y": np.arange(3) * 10}
    write(1)
    assert joined() == joined() == [10, 20]
    assert read == ["id"]
    assert any(".joined.headrace-index" in name for name in os.listdir(tmp_path))
    write(2)
    os.utime(tmp_path / "x.jsonl", (1, 1))  # as if written at another time
    assert joined() == [20]
    assert read == ["id", "id"]


def test_a_pickle_has_the_pairs_and_no_values(tmp_path):
    """A worker joins nothing again."""
    lines = "".join(json.dumps({"id": f"{'x' * 200}{i}", "x": i}) + "\n" for i in range(100))
    (tmp_path / "x.jsonl").write_text(lines)
    source = JsonLinesDataSource(tmp_path / "x.jsonl")
    joined = JoinedByKey(source, [{"id": f"{'x' * 200}5", "y": 1}], on="id")
    copy = pickle.loads(pickle.dumps(joined))
    assert copy[0]["y"] == 1
    assert copy.fingerprint == joined.fingerprint


def test_fingerprints_and_provenance_name_both_sides():
    """Another right source, another field or another way is another stream."""
    left = {"id": np.arange(4), "other": np.arange(4)[::-1].copy(), "x": np.arange(4)}
    right = {"id": np.arange(3), "y": np.arange(3)}
    variants = [
        JoinedByKey(left, right, on="id"),
        JoinedByKey(left, {"id": np.arange(3), "y": np.arange(3) + 1}, on="id"),
        JoinedByKey(left, right, on="id", how="left"),
        JoinedByKey(left, {"other": np.arange(3), "y": np.arange(3)}, on="other"),
    ]
    assert len({json.dumps(each.fingerprint) for each in variants}) == 4
    joined = variants[2]
    assert [(used.source is joined.left, used.key) for used in joined.made_of(2)] == [
        (True, 2),
        (False, 2),
    ]
    assert len(joined.made_of(3)) == 1
    assert repr(joined).startswith("JoinedByKey(4 records, ")


def test_a_value_that_changed_after_the_join_is_noticed():
    """The pair would be wrong."""
    right = [{"id": 1, "y": 1}]
    joined = JoinedByKey([{"id": 1, "x": 0}], right, on="id")
    right[0]["id"] = 2
    with pytest.raises(
        SourceError,
        match=r"record 0 of the left source has id=1, and its partner has 2: one source",
    ):
        joined[0]


@pytest.mark.parametrize(
    ("left", "right", "options", "error", "text"),
    [
        (
            [{"id": 1}],
            [{"id": 1}, {"id": 2}, {"id": 1}],
            {},
            SourceError,
            r"records 0 and 2 of the right source both have id",
        ),
        (
            [{"id": 1}],
            [{"id": "1"}],
            {},
            ValueError,
            r"no record .* Their first records are \{'id': 1\} and \{'id': '1'\}",
        ),
        (
            [{"id": 1.5}],
            [{"id": 1}],
            {},
            SourceError,
            r"record 0 has id=1\.5, a float, which cannot be compared",
        ),
        (
            [{"id": True}],
            [{"id": 1}],
            {},
            SourceError,
            r"record 0 has id=True, a bool, which cannot be compared",
        ),
        (
            [{"id": 2**64}],
            [{"id": 1}],
            {},
            SourceError,
            r"has id=18446744073709551616\. Only integers from -2\*\*63 to",
        ),
        (
            [{"key": 1}],
            [{"id": 1}],
            {},
            SourceError,
            r"record 0 has no field 'id': it has only key",
        ),
        (
            [3],
            [{"id": 1}],
            {},
            SourceError,
            r"record 0 is an int, so it has no field 'id'\. Make all",
        ),
        (
            [{"id": 1, "x": 0}],
            [{"id": 1, "x": 1}],
            {},
            SourceError,
            r"both sources have the fields x. Rename or remove",
        ),
        ([{"id": 1}], [{"id": 1}], {"how": "outer"}, ValueError, r"how='outer' is not supported"),
        ([{"id": 1}], [{"id": 1}], {"on": ["id"]}, TypeError, r"on=\['id'\] is not a string"),
    ],
)
def test_a_join_that_cannot_be_made_says_why(left, right, options, error, text):
    """With the records, and what to change."""
    with pytest.raises(error, match=text):
        JoinedByKey(left, right, **{"on": "id", **options})
