"""`tf.train.SequenceExample`, and features with defaults, rows of different lengths and sparse
values.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.example_messages import by_protobuf, sequence_by_protobuf
from support.pipelines import tries

from headrace import RaggedFeature, SparseFeature, TFRecordDataSource, load
from headrace.errors import SourceError
from headrace.formats.example import Decoder, decode_example
from headrace.formats.example_writer import encode_example
from headrace.formats.tfrecord import framed

kinds = (
    st.binary(max_size=20),
    st.floats(width=32, allow_nan=False),
    st.integers(-(2**63), 2**63 - 1),
)
sequences = st.one_of(*(st.lists(st.lists(kind, max_size=4), max_size=5) for kind in kinds))
features = st.one_of(*(st.lists(kind, min_size=1, max_size=5) for kind in kinds))


def plain(values):
    """The steps of a feature list as lists of Python values."""
    return [[step] if isinstance(step, bytes) else list(step) for step in values]


@tries(60)
@given(
    st.dictionaries(st.sampled_from("abc"), features, max_size=3),
    st.dictionaries(st.sampled_from("xyz"), sequences, max_size=3),
)
def test_sequence_examples_are_those_of_protobuf(record, lists):
    """What the library writes is read, and what is written here are the library's bytes."""
    data = sequence_by_protobuf(record, lists)
    assert encode_example(record, lists) == data
    found = decode_example(data)
    assert list(found) == [*record, *lists]
    assert {name: plain(found[name]) for name in lists} == lists
    assert {name: np.asarray(found[name]).ravel().tolist() for name in record} == record


def test_steps_of_one_length_are_one_array():
    """Others are a list of arrays; byte strings are a list; the arrays cannot be written to."""
    lists = {
        "same": [[1, 2], [3, 4]],
        "ragged": [[1], [], [2, 3]],
        "frames": [b"a", b"b"],
        "tags": [[b"a", b"b"], [b"c"]],
        "none": [],
    }
    found = decode_example(encode_example({"id": 7}, lists))
    assert (found["id"].tolist(), found["same"].tolist(), found["same"].dtype) == (
        [7],
        [[1, 2], [3, 4]],
        np.int64,
    )
    assert [(step.tolist(), step.dtype) for step in found["ragged"]] == [
        ([1], np.int64),
        ([], np.int64),
        ([2, 3], np.int64),
    ]
    assert (found["frames"], found["tags"], found["none"]) == (
        [b"a", b"b"],
        [[b"a", b"b"], [b"c"]],
        [],
    )
    assert not found["same"].flags.writeable


def test_sequences_say_what_comes():
    """The type is that of one step; only what is named is returned."""
    lists = {
        "box": np.arange(6, dtype=np.float32).reshape(3, 2),
        "label": [1, 2, 3],
        "words": [["a"], ["b", "c"]],
        "ids": [[1], [], [2, 3]],
        "frames": ["x", "é"],
        "none": [],
        "more": [5],
    }
    data = encode_example({"id": 7, "more": 8}, lists)
    wanted = {
        "box": (np.float32, (2,)),
        "label": np.int8,
        "words": list,
        "ids": (np.int64, (None,)),
        "frames": str,
        "none": (np.float32, (2, 2)),
    }
    found = decode_example(data, {"more": np.int64}, wanted)
    assert list(found) == ["more", *wanted]
    assert found["more"] == 8
    assert (found["box"].tolist(), found["box"].shape) == ([[0, 1], [2, 3], [4, 5]], (3, 2))
    assert (found["label"].tolist(), found["label"].dtype) == ([1, 2, 3], np.int8)
    assert (found["words"], found["frames"]) == ([[b"a"], [b"b", b"c"]], ["x", "é"])
    assert [step.tolist() for step in found["ids"]] == [[1], [], [2, 3]]
    assert (found["none"].shape, found["none"].dtype) == ((0, 2, 2), np.float32)
    assert decode_example(data, sequences={"label": np.int64})["label"].tolist() == [1, 2, 3]
    assert list(decode_example(data, {"id": np.int64})) == ["id"]


def test_a_feature_that_is_missing_has_its_default():
    """Also one without a value; a default fills the shape, or is an array of the shape, and cannot
    be written to.
    """
    data = by_protobuf({"label": [3], "empty": []})
    wanted = {
        "label": (np.int32, (), -1),
        "weight": (np.float32, (), 1),
        "empty": (np.int64, (2,), 7),
        "box": (np.float32, (2, 2), [[1, 2], [3, 4]]),
        "ids": (np.int64, (None,), []),
        "name": (str, (), "nobody"),
        "image": (bytes, (), b""),
        "tags": (str, (2,), "none"),
        "size": (np.int64, 2, 0),
    }
    found = decode_example(data, wanted)
    assert list(found) == list(wanted)
    assert (found["label"], found["weight"], found["weight"].dtype) == (3, 1, np.float32)
    assert (found["empty"].tolist(), found["box"].tolist(), found["ids"].tolist()) == (
        [7, 7],
        [[1, 2], [3, 4]],
        [],
    )
    assert (found["name"], found["image"], found["tags"].tolist()) == (
        "nobody",
        b"",
        ["none", "none"],
    )
    assert (found["size"].tolist(), found["box"].flags.writeable) == ([0, 0], False)
    found = decode_example(
        encode_example({name: [] for name in wanted}), {"weight": (np.float32, (), 2)}
    )
    assert found["weight"] == 2


def test_a_step_that_is_missing_has_the_default():
    """A feature list that is missing has no steps then."""
    data = sequence_by_protobuf({}, {"x": [[1, 2], [], [3, 4]]})
    found = decode_example(data, sequences={"x": (np.int64, (2,), -1), "y": (np.float32, (3,), 0)})
    assert (found["x"].tolist(), found["y"].shape) == ([[1, 2], [-1, -1], [3, 4]], (0, 3))


def test_texts_have_shapes():
    """`bytes` and `str` with a shape are arrays of objects."""
    data = encode_example({"words": ["a", "é", "", "d"]})
    found = decode_example(data, {"words": (str, (2, None))})["words"]
    assert (found.dtype, found.tolist()) == (object, [["a", "é"], ["", "d"]])
    assert decode_example(data, {"words": (bytes, 4)})["words"].tolist() == [
        b"a",
        "é".encode(),
        b"",
        b"d",
    ]


@tries(30)
@given(st.lists(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3), max_size=3))
def test_rows_of_different_lengths_come_back(nested):
    """By their lengths and by their splits, once and twice nested."""
    rows = [row for outer in nested for row in outer]
    record = {
        "values": [value for row in rows for value in row],
        "outer": [len(outer) for outer in nested],
        "inner": [len(row) for row in rows],
    }
    record |= {
        f"{name}_splits": np.cumsum([0, *record[name]]).tolist() for name in ("outer", "inner")
    }
    wanted = {
        "twice": RaggedFeature(np.int32, "values", row_lengths=["outer", "inner"]),
        "splits": RaggedFeature(np.int32, "values", row_splits=("outer_splits", "inner_splits")),
        "rows": RaggedFeature(np.int32, "values", row_lengths="inner"),
    }
    found = decode_example(by_protobuf(record), wanted)
    for name in ("twice", "splits"):
        assert [[row.tolist() for row in outer] for outer in found[name]] == nested
    assert [row.tolist() for row in found["rows"]] == rows
    assert all(row.dtype == np.int32 for row in found["rows"])


def test_sparse_features_are_dense_arrays():
    """Indices are in one feature, value by value, or in one for each axis; the shape may be stored,
    too.
    """
    dense = np.zeros((3, 4), np.float32)
    dense[[2, 0], [1, 3]] = [0.5, 2]
    record = {
        "values": [0.5, 2.0],
        "places": [2, 1, 0, 3],
        "row": [2, 0],
        "column": [1, 3],
        "shape": [3, 4],
    }
    wanted = {
        "one": SparseFeature(np.float32, "places", "values", (3, 4)),
        "each": SparseFeature(np.float32, ["row", "column"], "values", "shape"),
        "line": SparseFeature(np.float32, "row", "values", 3, fill=-1),
    }
    found = decode_example(by_protobuf(record), wanted)
    np.testing.assert_array_equal(found["one"], dense)
    np.testing.assert_array_equal(found["each"], dense)
    assert (found["line"].tolist(), found["line"].dtype) == ([2, -1, 0.5], np.float32)
    none = by_protobuf({"values": [], "places": []})
    assert decode_example(none, {"one": wanted["one"]})["one"].tolist() == np.zeros((3, 4)).tolist()


@pytest.mark.parametrize(
    ("features", "sequences", "text"),
    [
        (
            {"x": np.int64},
            None,
            r"x is a feature list of the example, not a feature\. Name it in sequences=",
        ),
        (
            None,
            {"label": np.int64},
            r"label is a feature of the example, not a feature list\. Name it in features=",
        ),
        (
            {"none": np.int64},
            None,
            r"no feature none: it has only .*label.*\(dtype, shape, default\)",
        ),
        (None, {"none": np.int64}, r"no feature list none: it has only both, x"),
        (
            None,
            {"x": (np.int64, (2,))},
            r"step 1 of feature 'x' contains 1 numbers, .*sequences={'x': \(np.int64, \(None",
        ),
        (
            None,
            {"x": bytes},
            r"step 0 of feature 'x' contains numbers \(int64\), not bytes\. .*sequences=",
        ),
        (
            {"text": (bytes, (3,))},
            None,
            r"contains 2 byte strings, which do not fill the shape \(3,\)\. .*\(bytes, \(None,\)\)",
        ),
        ({"bad": str}, None, r"which is not a text in UTF-8\. Pass features={'bad': bytes}"),
        (
            {"r": RaggedFeature(int, "v", row_lengths="label")},
            None,
            r"'r': the row lengths in 'label' are \[3\], but 'v'",
        ),
        (
            {"r": RaggedFeature(int, "v", row_splits="v")},
            None,
            r"'r': the row splits in 'v' are \[1, 2\], but 'v' has 2",
        ),
        ({"r": RaggedFeature(int, "v", row_splits="none")}, None, r"no feature none"),
        (
            {"s": SparseFeature(int, "v", "v", 2)},
            None,
            r"'s': the index \(2,\) is outside the shape \(2,\)\. Pass at least shape=\(3,\)",
        ),
        (
            {"s": SparseFeature(int, "v", "v", (2, 2))},
            None,
            r"'s': 'v' has 2 values, .* for each of the 2 axes\. But \['v'\] has \[2\]",
        ),
        ({"s": SparseFeature(int, "same", "v", 9)}, None, r"'s': the index \(5,\) occurs twice"),
    ],
)
def test_features_that_are_otherwise_are_an_error(features, sequences, text):
    """The message names the feature, what it has, and the remedy."""
    record = {
        "label": 3,
        "text": ["a", "b"],
        "bad": b"\xff",
        "v": [1, 2],
        "same": [5, 5],
        "both": 1,
    }
    data = encode_example(record, {"x": [[1, 2], [3]], "both": [1]})
    with pytest.raises(SourceError, match=text) as caught:
        decode_example(data, features, sequences)
    assert len(str(caught.value)) < 500


def test_a_name_that_two_have_must_be_named():
    """One dict cannot have both; the remedy works."""
    data = encode_example({"both": 1}, {"both": [2, 3]})
    with pytest.raises(
        SourceError, match=r"a feature and a feature list of the same name, both\. Choose"
    ):
        decode_example(data)
    assert decode_example(data, {"both": np.int64}) == {"both": 1}
    assert decode_example(data, sequences={"both": np.int64})["both"].tolist() == [2, 3]
    with pytest.raises(TypeError, match="features= and sequences= both name both"):
        Decoder({"both": np.int64}, {"both": np.int64})


@pytest.mark.parametrize(
    ("features", "sequences"),
    [
        ({"x": (np.int64, (None, None))}, None),
        ({"x": (np.int8, (), 300)}, None),
        ({"x": (np.int64, (2,), [1, 2, 3])}, None),
        ({"x": (np.int64, (None,), 0)}, None),
        ({"x": (str, (), b"x")}, None),
        ({"x": SparseFeature(str, "i", "v", 3)}, None),
        ({"x": SparseFeature(np.int8, "i", "v", 3, fill=300)}, None),
        ({"x": SparseFeature(np.int8, "i", "v", 3, fill=None)}, None),
        ({"x": SparseFeature(np.int8, "i", "v", (3, -1))}, None),
        ({"x": RaggedFeature(object, "v", row_lengths="n")}, None),
        (None, {"x": RaggedFeature(int, "v", row_lengths="n")}),
        (None, [1]),
    ],
)
def test_types_that_mean_nothing_are_refused(features, sequences):
    """When the decoder is made; it names the argument."""
    with pytest.raises(TypeError, match="features" if sequences is None else "sequences"):
        Decoder(features, sequences)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RaggedFeature(int, "v"),
        lambda: RaggedFeature(int, "v", row_lengths="n", row_splits="s"),
        lambda: RaggedFeature(int, "v", row_lengths=3),
        lambda: SparseFeature(int, [], "v", 3),
        lambda: SparseFeature(int, "i", 7, 3),
        lambda: SparseFeature(int, "i", ["v"], 3),
        lambda: RaggedFeature(int, ["v"], row_lengths="n"),
    ],
)
def test_names_that_are_none_are_refused(make):
    """With the name of the class."""
    with pytest.raises(TypeError, match=r"(Ragged|Sparse)Feature.* Pass"):
        make()


@pytest.mark.parametrize(
    "steps", [5, "text", {"a": 1}, np.array(3), [[1], [0.5]], [b"x", 1], [None]]
)
def test_steps_that_cannot_be_stored_are_refused(steps):
    """No list of steps, steps of several kinds, other objects."""
    with pytest.raises(TypeError, match="'x'"):
        encode_example({}, {"x": steps})


def test_a_source_of_sequence_examples(tmp_path):
    """With all features or some; another request is another source."""
    records = [encode_example({"id": n}, {"x": np.full((n, 2), n)}) for n in range(1, 5)]
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(map(framed, records)))
    every = TFRecordDataSource(path, decode=True)
    assert every[2]["x"].tolist() == [[3, 3]] * 3
    wanted = {
        "features": {"id": np.int64, "weight": (np.float32, (), 1)},
        "sequences": {"x": (np.uint8, (2,))},
    }
    source = pickle.loads(pickle.dumps(TFRecordDataSource(path, **wanted)))
    (first, *_) = load(source, num_epochs=1)
    assert (first["x"].dtype, first["x"].shape, first["weight"]) == (np.uint8, (first["id"], 2), 1)
    others = [
        {"features": wanted["features"]},
        {"sequences": wanted["sequences"]},
        {
            "features": {"id": np.int64, "weight": (np.float32, (), 2)},
            "sequences": wanted["sequences"],
        },
    ]
    sources = [TFRecordDataSource(path, **other) for other in [wanted, {"decode": True}, *others]]
    fingerprints = {str(source.fingerprint) for source in sources}
    assert len(fingerprints) == 5
