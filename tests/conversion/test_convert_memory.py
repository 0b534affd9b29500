"""What a conversion holds in memory at a time. In: records that are large. Out: no more than a few
of them.
"""

from __future__ import annotations

import gzip
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
from support.conversions import convert, write_tfrecord

from headrace.conversion.inputs import from_files

LARGE = 200_000


@contextmanager
def _peak_below(count):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < count
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.tfrecord", pytest.param("a.jsonl.gz", marks=pytest.mark.slow)])
def test_a_few_large_records_are_in_memory_at_a_time(name, tmp_path, monkeypatch):
    """However many there are, and also where the first ones tell the columns; with small ones
    before them, too.
    """
    monkeypatch.setattr(from_files, "CHUNK_BYTES", LARGE)
    records = [b'"x"'] * 100 + [b'"%s"' % (b"y" * LARGE)] * 100
    if name.endswith("gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"\n".join(records)))
    else:
        write_tfrecord(tmp_path / name, records)
    for to in ("array_record", "parquet"):  # what it imports counts elsewhere
        convert([{"x": 1}], tmp_path / f"imports {to}", to)
    with _peak_below(40 * LARGE):
        assert convert(tmp_path / name, tmp_path / "out").records == 200
    with _peak_below(40 * LARGE):
        rows = convert(
            tmp_path / name, tmp_path / "rows", "parquet", decode="bytes", transform=_row
        )
        assert rows.records == 200


def _row(record):
    return {"bytes": record, "array": np.zeros(len(record) // 8)}
