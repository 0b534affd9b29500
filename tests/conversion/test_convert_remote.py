"""`headrace.convert` from stores to stores."""

from __future__ import annotations

import logging
import tempfile

import pytest
from support.conversions import RECORDS, content, convert, write_tfrecords
from support.remote_store import BUCKET, Faults, moto_server, options, proxy_to, put

import headrace
from headrace.conversion.target import target_at
from headrace.errors import ConversionError
from headrace.files.opened import open_file
from headrace.files.paths import file_system_of
from headrace.files.storage_options import storage_options_of

URL = f"s3://{BUCKET}"


@pytest.fixture(scope="module")
def upstream():
    """A store with an empty bucket."""
    with moto_server() as address:
        put(address, "", b"")
        with proxy_to(address) as proxy:  # what the library opens once in a process is open now
            file_system_of(URL, storage_options_of(options(proxy))).is_file(f"{URL}/x")
        yield address


def whole(url, name, storage):
    """All bytes of a file in a store."""
    file = open_file(f"{url}/{name}", storage_options_of(storage))
    try:
        return file.read(0, file.size)
    finally:
        file.close()


@pytest.mark.long
def test_a_store_gets_what_a_folder_gets(upstream, tmp_path):
    """With workers, and a store that answers every seventh request with an error; and it is
    verified there.
    """
    write_tfrecords(tmp_path / "in")
    for path in (tmp_path / "in").iterdir():
        put(upstream, f"in/{path.name}", path.read_bytes())
    convert(tmp_path / "in", tmp_path / "here" / "out", shards=2)
    with proxy_to(upstream) as proxy:
        proxy.faults = Faults(error=7)
        storage = options(proxy, cache_dir=str(tmp_path / "cache"), cache_bytes=2**24, timeout=5)
        made = convert(f"{URL}/in", f"{URL}/out", shards=2, workers=1, storage_options=storage)
        assert made.records == len(RECORDS)
        for name, data in content(tmp_path / "here" / "out").items():
            if name != "manifest.json":  # other paths and times of the input
                assert whole(f"{URL}/out", name, storage) == data
        assert headrace.verify(f"{URL}/out", storage) == []
        target = target_at(f"{URL}/out", storage_options_of(storage))
        assert target.names_in(".conversion") == []
        assert convert(f"{URL}/in", f"{URL}/out", shards=2, storage_options=storage) == made
        put(upstream, "out/out-00001-of-00002.array_record", b"damaged")
        assert headrace.verify(f"{URL}/out", storage) == [
            "out-00001-of-00002.array_record has 7 bytes, not 131,072"
        ]


def test_a_conversion_to_a_store_that_was_stopped_goes_on(tmp_path):
    """What is there stays; another conversion is refused, as in a folder."""
    url = f"memory://{tmp_path.name}"
    convert([{"x": 1}], f"{url}/rows", "parquet")
    convert(f"{url}/rows", tmp_path / "rows", "parquet", source_format="parquet")
    assert headrace.ParquetDataSource(tmp_path / "rows")[0] == {"x": 1}

    def fail(record):
        raise KeyError(record)

    with pytest.raises(KeyError):
        convert(RECORDS, f"{url}/out", shards=2, transform=fail)
    convert(RECORDS, f"{url}/out", shards=2)
    with pytest.raises(ConversionError, match="differs in: shards"):
        convert(RECORDS, f"{url}/out", shards=3)
    assert headrace.verify(f"{url}/out") == []
    with pytest.raises(ConversionError, match=r"has no manifest\.json"):
        headrace.verify(f"{url}/nowhere")


@pytest.mark.slow
def test_a_pipeline_of_beam_writes_to_a_store(tmp_path, monkeypatch, caplog):
    """As it has to on several machines."""
    pytest.importorskip("apache_beam", reason="apache-beam is not installed")
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    write_tfrecords(tmp_path / "in")
    url = f"memory://{tmp_path.name}/out"
    assert convert(tmp_path / "in", url, runner="DirectRunner").records == len(RECORDS)
    assert headrace.verify(url) == []
