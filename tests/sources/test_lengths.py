"""Lengths of records are known before any is read, and costs follow from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import headrace
from headrace.common.costs import as_lengths, costs_of, length_of_field
from headrace.errors import LengthsError
from headrace.sources.lengths import lengths_of


class Bare:
    """A user's source without any optional member."""

    def __init__(self, records):
        self.records = records

    def __len__(self):
        return len(self.records)

    def __getitem__(self, key):
        return self.records[key]


class Pair(NamedTuple):
    x: list
    y: int


ARRAYS = [np.zeros(3), np.zeros(0), np.zeros(5)]


def test_lengths_are_those_that_the_source_tells():
    """As int64, read-only, one for each record."""
    found = lengths_of(headrace.MemorySource(ARRAYS))
    assert found.tolist() == [3, 0, 5]
    assert found.dtype == np.int64
    assert not found.flags.writeable
    assert lengths_of(ARRAYS).tolist() == [3, 0, 5]
    assert lengths_of([{"x": one, "id": 1} for one in ARRAYS]).tolist() == [3, 0, 5]


def test_lengths_may_be_an_array():
    """Of any whole numbers; no source needs to know any."""
    for given in ([1, 2, 3], np.array([1.0, 2.0, 3.0]), np.array([1, 2, 3], np.uint8)):
        assert lengths_of(Bare("abc"), given).tolist() == [1, 2, 3]


def test_lengths_by_name_are_those_of_a_field():
    """Of an array, a list or a text its length; a number is the length itself."""
    records = [{"x": one, "ids": [1] * 4, "n": 7, "text": "äb", "in": {"n": key}} for key, one in enumerate(ARRAYS)]
    assert lengths_of(records, "x").tolist() == [3, 0, 5]
    assert lengths_of(records, "ids").tolist() == [4] * 3
    assert lengths_of(records, "n").tolist() == [7] * 3
    assert lengths_of(records, "text").tolist() == [3] * 3
    assert lengths_of(records, "in/n").tolist() == [0, 1, 2]
    columns = {"x": np.zeros((3, 6)), "n": np.array([4, 0, 9])}
    assert lengths_of(columns, "x").tolist() == [6] * 3
    assert lengths_of(columns, "n").tolist() == [4, 0, 9]
    assert lengths_of([Pair([1, 2], 9)], "x").tolist() == [2]


def test_lengths_may_be_a_function_of_a_record():
    """It is called for each, in the order of keys."""
    assert lengths_of(Bare(["a", "abc"]), len).tolist() == [1, 3]
    assert lengths_of(Bare(["a"] * 2500), len).tolist() == [1] * 2500


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "Bare does not tell the lengths of its records; pass lengths="),
        ("x", "lengths='x': Bare does not tell lengths of that name; it tells none by name. Pass an array"),
        ([1, 2, 3], r"an array of shape \(3,\) for 2 records; pass one length for each record, shape \(2,\)"),
        ([1, -2], r"record 1 has length -2; lengths are whole numbers in \[0, 2\^62\)"),
        ([1, np.nan], "record 1 has length nan"),
        ([1, np.inf], "record 1 has length inf"),
        ([1.5, 1], "record 0 has length 1.5"),
        (lambda record: -1, "record 0 has length -1"),
        (lambda record: np.nan, "record 0 has length nan"),
        (lambda record: None, "record 0 has length None"),
    ],
)
def test_lengths_that_cannot_be_are_refused(given, message):
    """With the value, the limit and the remedy."""
    with pytest.raises(LengthsError, match=message) as caught:
        lengths_of(Bare(["a", "b"]), given)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("given", [["a", "b"], {"x": [1, 2]}, True, b"ab", [True, False], [[1], [2, 3]]])
def test_what_is_no_length_at_all_is_refused(given):
    """By its kind."""
    with pytest.raises(TypeError, match="pass an array"):
        lengths_of(Bare(["a", "b"]), given)


def test_several_arrays_of_a_record_must_be_chosen_from():
    """The message names them."""
    with pytest.raises(LengthsError, match=r"lengths of 2 arrays of a record, x, y; pass lengths='x' or another"):
        lengths_of([{"x": np.zeros(2), "y": np.zeros(3)}])
    with pytest.raises(LengthsError, match="record 1 has no field 'x', it has y; name a field of all records"):
        lengths_of([{"x": 1}, {"y": 2}], "x")
    with pytest.raises(LengthsError, match="record 0 has no field 'x', it is an int"):
        length_of_field(3, "x", record=0)
    assert length_of_field({"x": None}, "x", record=0) == 0


def test_no_records_have_no_lengths():
    """An empty array is a right answer."""
    assert lengths_of(Bare([]), []).shape == (0,)
    assert lengths_of(Bare([]), len).shape == (0,)
    assert costs_of(as_lengths([], 0)).shape == (0,)


def test_costs_are_a_function_of_lengths():
    """By default the length; attention costs its square, too."""
    lengths = as_lengths([0, 1, 10], 3)
    assert costs_of(lengths).tolist() == [0, 1, 10]
    assert costs_of(lengths, headrace.attention(2, 0.5)).tolist() == [0, 2.5, 70]
    assert costs_of(lengths, np.sqrt)[1] == 1
    assert costs_of(np.array([1 << 61]), headrace.attention(1, 1))[0] > 1e36


@pytest.mark.parametrize(
    ("cost", "error", "message"),
    [
        (3, TypeError, "cost=3 is an int; pass a function of an array of lengths"),
        (lambda lengths: "x", TypeError, "it must give a number for each"),
        (lambda lengths: 1.0, LengthsError, r"an array of shape \(\) for lengths of shape \(2,\)"),
        (lambda lengths: lengths * np.nan, LengthsError, "cost gave nan for length 1; costs are finite"),
        (lambda lengths: -lengths, LengthsError, "cost gave -1.0 for length 1"),
    ],
)
def test_costs_that_cannot_be_are_refused(cost, error, message):
    """With the first length that has one."""
    with pytest.raises(error, match=message):
        costs_of(np.array([1, 2]), cost)


@pytest.mark.parametrize(
    ("numbers", "error"),
    [((-1, 1), ValueError), ((0, 0), ValueError), ((np.nan, 1), ValueError), (("1", 1), TypeError)],
)
def test_attention_takes_two_numbers(numbers, error):
    """Neither negative, not both 0."""
    with pytest.raises(error, match="attention: a="):
        headrace.attention(*numbers)
