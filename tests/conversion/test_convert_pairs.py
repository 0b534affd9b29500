"""A column of Parquet has the type of its first values. In: all pairs of values. Out: the later one
as it was, or an error.
"""

from __future__ import annotations

import datetime
import io
import zoneinfo
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.conversions import convert
from support.pipelines import chosen

import headrace
from headrace.conversion import prepare
from headrace.conversion.outputs.arrow_values import holds
from headrace.conversion.outputs.parquet import ParquetOutput, schema_of
from headrace.errors import ConversionError

UTC, BERLIN = datetime.UTC, zoneinfo.ZoneInfo("Europe/Berlin")
FIVE_HOURS = datetime.timezone(datetime.timedelta(hours=5))

NUMBERS = [
    *(0, 5, -3, 300, 2**40, 2**53 + 1, 2**60 + 1, 2**63 + 5),
    *(2.0, 2.5, 0.1, 2.0**60, 1e300, float("inf"), -0.0),
    *(getattr(np, f"{sign}int{bits}")(3) for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(np.int64(2**53 + 1), np.int64(-(2**53) - 1), np.uint64(2**63 + 1)),
    *(kind(value) for kind in (np.float16, np.float32, np.float64) for value in (3, 0.1)),
    *map(Decimal, ("2", "2.5", "2.50", "2.125", "0.1", "12345678901234567890.5")),
]
TIMES = [
    datetime.date(2026, 1, 2),
    datetime.datetime(2026, 1, 2),
    datetime.datetime(2026, 7, 2, 3, 4, 5, 6),
    *(datetime.datetime(2026, 7, 2, 3, tzinfo=zone) for zone in (UTC, BERLIN, FIVE_HOURS)),
    datetime.datetime(1900, 1, 1, 0, 0, 0, 1),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    datetime.time(1, 2, 3, 4),
    datetime.time(1, 2, 3, tzinfo=UTC),
    datetime.timedelta(seconds=5, microseconds=7),
    datetime.timedelta(days=-1),
    *(np.datetime64("2026-01-02", unit) for unit in ("D", "s", "ms", "us", "ns")),
    np.datetime64("2026-01-02T00:00:00.000000001", "ns"),
    np.datetime64("2500-01-01", "s"),
    *(np.timedelta64(3, unit) for unit in ("s", "ms", "us", "ns")),
]
OTHERS = [
    None,
    True,
    False,
    np.bool_(True),
    "x",
    "2026-01-02",
    "3",
    np.str_("q"),
    b"x",
    b"\xff",
    bytearray(b"y"),
    np.bytes_(b"q"),
]
NESTED = [
    *(
        [],
        [1],
        [1, None],
        [0.1],
        ["x"],
        (1, 2),
        [[1]],
        [True],
        [datetime.date(2026, 1, 2)],
        [{"a": 1}],
    ),
    *(
        {"a": 1},
        {"a": 0.1},
        {"a": "x"},
        {"a": None},
        {"b": 1},
        {"a": 1, "b": 2},
        {"a": [1]},
        {"a": {"a": 1}},
    ),
    *(
        np.array([1, 2], dtype)
        for dtype in ("int8", "uint8", "int64", "float16", "float32", "float64", "datetime64[us]")
    ),
    *(
        np.array([True]),
        np.array(["a"]),
        np.array([0.1]),
        np.ones((2, 2)),
        np.full((1, 2), 0.1, np.float32),
        np.array(3),
    ),
]
VALUES = [*NUMBERS, *TIMES, *OTHERS, *NESTED]
FORMS = {
    "bare": lambda value: value,
    "in a list": lambda value: [value],
    "in a dict": lambda value: {"x": value},
    "deep": lambda value: [{"x": [None, value]}],
}


def meaning(value):
    """What a value is, in words and exact numbers that have one form: told otherwise than the
    package tells it.
    """
    if isinstance(value, np.ndarray):
        return (
            meaning(value[()]) if not value.ndim else ["list", *(meaning(item) for item in value)]
        )
    if isinstance(value, (list, tuple)):
        return ["list", *map(meaning, value)]
    if isinstance(value, dict):
        return {
            name: said
            for name, said in ((name, meaning(item)) for name, item in value.items())
            if said is not None
        }
    # pandas' own, of nanoseconds
    if hasattr(value, "to_numpy") and getattr(value, "tzinfo", None) is None:
        return meaning(value.to_numpy())
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return (
            f"{type(value).__name__} {value}"
            if np.datetime_data(value)[0] == "D"
            else _ticks(value)
        )
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return Fraction(value) if np.isfinite(float(value)) else float(value)
    if isinstance(value, datetime.datetime):
        return f"aware {value.isoformat()}" if value.tzinfo else _ticks(np.datetime64(value))
    if isinstance(value, datetime.timedelta):
        return _ticks(np.timedelta64(value))
    if isinstance(value, datetime.date):
        return f"datetime64 {value}"
    return bytes(value) if isinstance(value, bytearray) else value


def _ticks(value):
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[np.datetime_data(value)[0]]
    return type(value).__name__, Fraction(int(value.astype(np.int64)), per_second)


def column_of(values, output):
    """What a Parquet file gives for these values of its column."""
    file = io.BytesIO()
    writer = output.open(file)
    writer.extend(output.encode([{"a": value} for value in values]))
    writer.close()
    column = pq.read_table(io.BytesIO(file.getvalue()))["a"]
    if str(column.type).startswith(("timestamp[ns]", "duration[ns]")):  # Python has no nanoseconds
        return [
            None if is_none else value
            for value, is_none in zip(column.to_numpy(), column.is_null().to_pylist())
        ]
    return column.to_pylist()


def output_of(*values):
    """The output whose column has the type of these values; None if they have none."""
    try:
        return ParquetOutput(schema_of([{"a": value} for value in values]), {})
    except ConversionError:
        return None


def kept(values, output):
    """Whether values are what they were; False: they are refused, by the name of their column."""
    try:
        found = column_of(values, output)
    except ConversionError as error:
        message = str(error)
        found = None
    if found is None:
        assert "column 'a' has type " in message
        assert len(message) < 500
        return False
    assert list(map(meaning, found)) == list(map(meaning, values)), f"{values!r} became {found!r}"
    return True


@pytest.mark.one_in(18)
@pytest.mark.parametrize("form", chosen(FORMS, next(iter(FORMS)), "deep"))
@pytest.mark.parametrize("kind", ["numbers", "times", "others", "nested"])
def test_each_pair_of_values_comes_back_as_it_was_or_is_an_error(kind, form):
    """The first one tells the column's type; alone, and beside values that fit, in either order."""
    for first in {"numbers": NUMBERS, "times": TIMES, "others": OTHERS, "nested": NESTED}[kind]:
        output = output_of(FORMS[form](first))
        if output is not None:
            for later in VALUES:
                kept([FORMS[form](first), FORMS[form](later)], output)


@pytest.mark.long
def test_each_pair_that_tells_a_type_together_comes_back_or_is_an_error():
    """Both are among the first records: Arrow finds one type for a date and a time, and for times
    with and without a zone.
    """
    for first in VALUES:
        for second in VALUES:
            output = output_of(first, second)
            if output is not None:
                kept([first, second], output)
                kept([second, first], output)


def test_every_value_is_kept_beside_others_of_its_kind():
    """So that refusing all would not do."""
    never = [2**63 + 5, datetime.time(1, 2, 3, tzinfo=UTC)]
    refused = [
        value
        for value in (*NUMBERS, *TIMES, *OTHERS)
        if (output := output_of(value)) is None or not kept([value] * 2, output)
    ]
    assert refused == never


WIDER = [
    (0.5, 7),
    (0.5, np.float32(0.1)),
    (0.5, np.int8(3)),
    (7, 2.0),
    (7, Decimal("2")),
    (np.int64(1), np.int8(3)),
    (np.float32(1), np.float16(0.1)),
    (np.float32(1), 0.5),
    (np.float32(1), float("inf")),
    (Decimal("2.55"), Decimal("3.5")),
    (Decimal("2.55"), 3),
    (datetime.datetime(2026, 1, 2), np.datetime64("2026-01-02", "us")),
    (np.datetime64("2026-01-02", "s"), datetime.datetime(2026, 1, 2)),
    (np.datetime64("2026-01-02", "ns"), datetime.datetime(2026, 1, 2)),
    (
        datetime.datetime(2026, 1, 2, tzinfo=UTC),
        datetime.datetime(2026, 1, 2, tzinfo=zoneinfo.ZoneInfo("UTC")),
    ),
    ([0.5], [1]),
    ([0.5], np.array([1, 2])),
    ({"a": 0.5}, {"a": 1}),
    ({"a": 0.5, "b": 1}, {"a": 1}),
]


@pytest.mark.parametrize(("first", "later"), WIDER)
def test_a_value_that_a_wider_type_holds_exactly_is_taken(first, later):
    """As long as nothing is lost."""
    assert kept([first, later, None], output_of(first))


def test_what_is_no_number_is_kept():
    """It equals nothing, itself neither; "not a time" of NumPy is a missing value."""
    nan, nat = float("nan"), np.datetime64("NaT", "us")
    for kind in (float, np.float32, np.float16):
        assert [str(value) for value in column_of([kind(1), nan, None], output_of(kind(1)))] == [
            "1.0",
            "nan",
            "None",
        ]
    day = datetime.datetime(2026, 1, 2)
    assert column_of([day, nat], output_of(day)) == [day, None]
    assert not kept([7, nan], output_of(7))
    assert not kept([7, nat], output_of(7))


DAY = datetime.date(2026, 1, 2)
NOON = datetime.datetime(2026, 1, 2, 12)
LOST = [
    (DAY, NOON),
    (3, Decimal("2.5")),
    (NOON, NOON.replace(tzinfo=BERLIN)),
    (NOON.replace(tzinfo=UTC), NOON),
    (np.float32(1), 0.1),
]


@pytest.mark.parametrize(("first", "later"), LOST)
def test_a_conversion_names_record_and_column_of_a_later_value_that_would_change(
    first, later, monkeypatch, tmp_path
):
    """Or leaves it out, and counts it."""
    monkeypatch.setattr(prepare, "LOOKED_AT", 2)
    records = [{"a": first}, {"a": first}, {"a": first}, {"a": later}, {"a": None}]
    with pytest.raises(
        ConversionError,
        match=r"record 3: column 'a' has type.*in the first records, but a later record has.*Pass",
    ):
        convert(records, tmp_path / "out", "parquet")
    made = convert(records, tmp_path / "out", "parquet", on_error="skip")
    assert (made.records, made.shards[0].left_out) == (4, 1)
    assert len(headrace.ParquetDataSource(tmp_path / "out")) == 4


@pytest.mark.parametrize("form", FORMS)
def test_times_beside_numbers_of_numpy_have_no_one_type(form):
    """Arrow itself ends the process, with a segmentation fault."""
    for number in (np.int8(3), np.float32(3), np.bool_(True), np.str_(3)):
        with pytest.raises(ConversionError, match="the first 2 records"):
            schema_of(
                [{"a": FORMS[form](value)} for value in (np.datetime64("2026-01-02", "s"), number)]
            )
        with pytest.raises(ConversionError, match="the first 2 records"):
            schema_of(
                [
                    {"a": FORMS[form](np.array([value]))}
                    for value in (np.datetime64("2026-01-02", "s"), number)
                ]
            )


def test_a_large_integer_is_not_held_by_the_float_beside_it():
    """Whether or not Arrow itself refuses to make one of the other."""
    assert not holds(pa.array([2.0**53, 0.5]), [2**53 + 1, 0.5])
    assert holds(pa.array([2.0**53, 0.5]), [2**53, 0.5])
