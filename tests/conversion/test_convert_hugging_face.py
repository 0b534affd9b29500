"""Columns of Hugging Face datasets in Parquet. In: features. Out: files whose columns have the
types that were declared.
"""

from __future__ import annotations

import datetime
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.conversions import convert

from headrace.sources import HuggingFaceDataSource

datasets = import_module("datasets")  # a folder of ours has that name, too
Value, List = datasets.Value, datasets.Sequence
DECLARED = {
    "small": (Value("int8"), 1, "int8"),
    "when": (Value("timestamp[ms]"), None, "timestamp[ms]"),
    "label": (datasets.ClassLabel(names=["a", "b"]), 1, "int64"),
    "ragged": (List(Value("uint16")), [1, 2], "list<element: uint16>"),
    "day": (Value("date32"), datetime.date(2026, 1, 2), "date32[day]"),
}
ODD = {
    "half": (Value("float16"), 0.5, "float"),
    "halves": (List(Value("float16")), [0.5], "list<element: float>"),
    "image": (
        datasets.Array2D((2, 2), "float32"),
        [[0.5, 1.0], [2.0, 0.25]],
        "list<element: list<element: float>>",
    ),
    "cube": (
        datasets.Array3D((1, 2, 1), "uint8"),
        [[[1], [2]]],
        "list<element: list<element: list<element: uint8>>>",
    ),
    "pair": (List(Value("int16"), length=2), [1, 2], "list<element: int16>"),
    "inside": (
        {"h": Value("float16"), "n": Value("int8")},
        {"h": 0.5, "n": 3},
        "struct<h: float, n: int8>",
    ),
}


def types_of(columns, tmp_path, form=None, rows=5):
    """The types of a converted dataset's columns; the values are held against those
    that went in.
    """
    features = datasets.Features({name: kind for name, (kind, _, _) in columns.items()})
    row = {name: value for name, (_, value, _) in columns.items()}
    dataset = datasets.Dataset.from_list([row] * rows, features=features).with_format(form)
    convert(dataset, tmp_path / "out", "parquet")
    table = pa.concat_tables(map(pq.read_table, sorted((tmp_path / "out").glob("*.parquet"))))
    assert table.to_pylist() == [row] * rows
    return {field.name: str(field.type) for field in table.schema}


@pytest.mark.parametrize("form", [None, "numpy"])
@pytest.mark.parametrize("odd", ODD)
def test_a_column_that_parquet_does_not_keep_costs_no_other_its_type(odd, form, tmp_path):
    """The types of all came from the values: int8 became int64, and a column without
    values none.
    """
    columns = {**DECLARED, odd: ODD[odd]}
    assert types_of(columns, tmp_path, form) == {
        name: kind for name, (_, _, kind) in columns.items()
    }


def test_a_column_of_an_unknown_type_is_told_by_its_values_alone(monkeypatch, tmp_path):
    """As one of a type that a later version of `datasets` brings."""
    plain = HuggingFaceDataSource.arrow_schema.fget
    without = property(
        lambda source: (schema := plain(source)).remove(schema.get_field_index("label"))
    )
    monkeypatch.setattr(HuggingFaceDataSource, "arrow_schema", without)
    columns = {**DECLARED, "label": (Value("int8"), 1, "int64")}
    assert types_of(columns, tmp_path) == {name: kind for name, (_, _, kind) in columns.items()}
    assert types_of(columns, tmp_path / "numpy", np.__name__)["label"] == "int8"
