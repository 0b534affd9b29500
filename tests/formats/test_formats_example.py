"""`tf.train.Example`: read and written like the protobuf library does it, without its schema."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.example_messages import by_protobuf
from support.pipelines import tries

from headrace import TFRecordDataSource, load
from headrace.errors import SourceError
from headrace.formats.example import Decoder, decode_example
from headrace.formats.example_writer import encode_example
from headrace.formats.tfrecord import framed


def plain(value):
    """A feature as a list of Python values."""
    return (
        [value]
        if isinstance(value, bytes)
        else list(value)
        if isinstance(value, list)
        else value.tolist()
    )


values = st.one_of(
    st.lists(st.binary(max_size=200), min_size=1, max_size=4),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
    st.lists(st.integers(0, 300), min_size=1, max_size=40),
)


@tries(60)
@given(st.dictionaries(st.text(min_size=1, max_size=5), values, min_size=1, max_size=4))
def test_examples_are_those_of_protobuf(record):
    """What the library writes is read, and what is written here are the library's bytes."""
    data = by_protobuf(record)
    assert encode_example(record) == data
    found = decode_example(data)
    assert {name: plain(value) for name, value in found.items()} == record
    assert list(found) == list(record)


def test_numbers_that_are_not_packed_are_read():
    """Old writers, and those of proto2, give each number a field of its own."""
    # feature "x": int64_list with the fields 1: 5 and 1: 300, one by one; "y": float_list with 1:
    # 0.5
    numbers = b"\x08\x05\x08\xac\x02"
    floats = b"\x0d" + np.float32(0.5).tobytes()
    entries = b"".join(
        bytes([10, len(entry)]) + entry
        for entry in (
            b"\x0a\x01x\x12" + bytes([len(numbers) + 2, 26, len(numbers)]) + numbers,
            b"\x0a\x01y\x12" + bytes([len(floats) + 2, 18, len(floats)]) + floats,
        )
    )
    found = decode_example(bytes([10, len(entries)]) + entries)
    assert (found["x"].tolist(), found["y"].tolist()) == ([5, 300], [0.5])


def test_numbers_are_arrays_and_one_byte_string_is_bytes():
    """However many numbers there are, they have one axis, their stored dtype, and cannot be written
    to.
    """
    found = decode_example(
        encode_example({"i": 3, "f": 0.5, "b": b"x", "t": ["a", "é"], "m": np.ones((2, 3), bool)})
    )
    assert (found["i"].dtype, found["i"].shape, found["f"].dtype, found["f"].shape) == (
        np.int64,
        (1,),
        np.float32,
        (1,),
    )
    assert (found["b"], found["t"], found["m"].tolist()) == (b"x", [b"a", "é".encode()], [1] * 6)
    assert not found["i"].flags.writeable
    assert not found["f"].flags.writeable


def test_features_say_what_comes():
    """Only these, as bytes, lists, scalars and arrays of a shape."""
    data = encode_example(
        {"image": b"x", "label": 3, "box": [1, 2, 3, 4], "tags": ["a", "b"], "none": []}
    )
    wanted = {
        "label": np.int32,
        "box": ("float32", (2, None)),
        "tags": list,
        "image": bytes,
        "none": (np.int64, (None,)),
    }
    found = decode_example(data, wanted)
    assert list(found) == list(wanted)
    assert (found["label"], found["label"].dtype, found["image"], found["tags"]) == (
        3,
        np.int32,
        b"x",
        [b"a", b"b"],
    )
    assert (found["box"].tolist(), found["box"].dtype, found["none"].shape) == (
        [[1, 2], [3, 4]],
        np.float32,
        (0,),
    )


@pytest.mark.parametrize(
    ("features", "text"),
    [
        ({"label": np.int64, "x": bytes}, r"x: it has only box, label, text\. Leave"),
        ({"label": bytes}, "'label' contains numbers"),
        ({"text": np.int64}, "'text' contains bytes"),
        ({"text": bytes}, "2 byte strings, not one"),
        (
            {"box": np.int64},
            r"3 numbers, not one\. Pass features={'box': \(np\.int64, \(None,\)\)}",
        ),
        ({"box": (np.int64, (2, None))}, r"3 numbers, which do not fill the shape \(2, None\)"),
    ],
)
def test_features_that_are_otherwise_are_an_error(features, text):
    """The message names the feature and what it has."""
    data = encode_example({"label": 3, "box": [1, 2, 3], "text": ["a", "b"]})
    with pytest.raises(SourceError, match=text):
        decode_example(data, features)


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("stored", "wanted", "text"),
    [
        (2**40, np.int32, "the number 1099511627776, which does not fit int32. .*np.int64"),
        ([1, -1], (np.uint8, (2,)), "the number -1, which does not fit uint8"),
        (-1, np.uint64, "the number -1, which does not fit uint64"),
        (2, np.bool_, "the number 2, which does not fit bool"),
        (1.5, np.int32, "the number 1.5, which does not fit int32. .*np.float32"),
        (1e30, np.int64, "the number 1.0.*e.30, which does not fit int64"),
        (float("nan"), np.int32, "the number nan, which does not fit int32"),
        (1e6, np.float16, "the number 1000000.0, which does not fit float16"),
    ],
)
def test_a_number_that_the_wanted_dtype_cannot_hold_is_an_error(tmp_path, stored, wanted, text):
    """It names the record, the feature, the number and a dtype that can hold it."""
    values = (stored, [1, 1] if isinstance(stored, list) else 1)
    records = b"".join(framed(encode_example({"good": 1, "a": value})) for value in values)
    (tmp_path / "a.tfrecord").write_bytes(records)
    source = TFRecordDataSource(str(tmp_path / "a.tfrecord"), features={"a": wanted})
    assert np.all(source[1]["a"] == 1)
    with pytest.raises(SourceError, match=f"feature 'a' contains {text}") as caught:
        list(load(source, num_epochs=1))
    assert "record key 0" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def test_numbers_that_a_dtype_holds_are_converted():
    """Whole floats become integers, and floats may be rounded."""
    data = encode_example({"a": [1.0, -3.0], "b": 2**24 + 1, "c": float("inf"), "d": [0, 1]})
    wanted = {"a": (np.int8, (2,)), "b": np.float32, "c": np.float16, "d": (np.bool_, (2,))}
    found = decode_example(data, wanted)
    assert (found["a"].tolist(), found["b"], found["c"], found["d"].tolist()) == (
        [1, -3],
        2**24,
        np.inf,
        [False, True],
    )


@pytest.mark.parametrize("features", [[1], {"x": "no dtype"}, {"x": object}, {"x": (1, 2, 3)}])
def test_features_that_mean_nothing_are_refused(features):
    """When the decoder is made, not when it reads."""
    with pytest.raises(TypeError, match="features"):
        Decoder(features)


@pytest.mark.parametrize(
    "data", [b"hello", b"\x0a\xff", b"\x0a\x03\x0a\x01", bytes(20), b"\xff" * 20]
)
def test_other_bytes_are_an_error(data):
    """Bytes that are no example, and those of one that is cut off."""
    with pytest.raises(
        SourceError,
        match=r"tf\.train\.Example, or are damaged\. Pass .*leave out decode=, features=",
    ):
        decode_example(data)


@pytest.mark.parametrize(
    ("features", "text", "remedy"),
    [
        (
            {"few": (np.int64, (2,))},
            r"\{'few': \(np\.int64, \(None,\)\)\}",
            {"few": (np.int64, (None,))},
        ),
        ({"few": (np.int8, (3,))}, r"\{'few': \(np\.int64, \(3,\)\)\}", {"few": (np.int64, (3,))}),
        ({"few": bytes}, r"\{'few': \(np\.int64, \(None,\)\)\}", {"few": (np.int64, (None,))}),
        ({"texts": str}, r"\{'texts': \(str, \(None,\)\)\}", {"texts": (str, (None,))}),
        ({"texts": np.int64}, r"\{'texts': list\}", {"texts": list}),
        ({"odd": (str, (1,))}, r"\{'odd': \(bytes, \(1,\)\)\}", {"odd": (bytes, (1,))}),
        (
            {"none": np.int64},
            r"\{'none': \(np\.int64, \(\), default\)\}",
            {"none": (np.int64, (), 7)},
        ),
        (
            {"none": (np.int64, (2,))},
            r"\{'none': \(np\.int64, \(2,\), default\)\}",
            {"none": (np.int64, (2,), 7)},
        ),
        ({"none": str}, r"\{'none': \(str, \(\), default\)\}", {"none": (str, (), "")}),
    ],
)
def test_the_type_in_the_message_is_one_that_reads_the_feature(features, text, remedy):
    """Passing it as the message says gives the value."""
    data = encode_example({"few": [1, 2, 300], "texts": ["a", "b"], "odd": b"\xff"})
    empty = b"\n\x08\n\x06\n\x04none"  # a feature without a value
    with pytest.raises(SourceError, match=text):
        decode_example(data + empty, features)
    assert decode_example(data + empty, remedy).keys() == remedy.keys()


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)]
)
def test_any_bytes_are_decoded(kind):
    """Also a view of the memory of something else."""
    assert decode_example(kind(encode_example({"label": 3})))["label"].tolist() == [3]


@pytest.mark.parametrize("data", ["text", None, {"a": 1}])
def test_what_is_no_bytes_is_no_example(data):
    """It says what was passed."""
    with pytest.raises(TypeError, match=r"data=.* is .*\. Pass the bytes of a serialised"):
        decode_example(data)


def test_values_that_an_example_cannot_hold_are_refused():
    """Objects, complex numbers and integers of more than 64 bits."""
    for value in (None, {"a": 1}, 1j, 2**70, [b"x", 1]):
        with pytest.raises((TypeError, ValueError), match=r"feature 'x'|inhomogeneous"):
            encode_example({"x": value})
