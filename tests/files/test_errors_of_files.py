"""Damaged files, and stores that are not there. In: bytes and URLs. Out: a `SourceError` that names
them, never another.
"""

from __future__ import annotations

import struct
import traceback
from contextlib import suppress
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.conversions import convert

import headrace
from headrace.errors import MissingExtraError, SourceError
from headrace.files.remote import store
from headrace.files.storage_options import storage_options_of

datasets = import_module("datasets")  # a folder of ours has that name, too


@pytest.fixture(scope="module", autouse=True)
def opened_once():
    """What the libraries of stores open once in a process is open before the first test."""
    for url in ("http://127.0.0.1:1/x", "webhdfs://127.0.0.1:1/x"):
        with suppress(SourceError):
            headrace.JsonLinesDataSource(url, storage_options={"tries": 1, "timeout": 1})
    store.close_stores()


def npy(descr="'<u2'", shape="(3,)", header=None, version=(1, 0)):
    """A `.npy` file with a header of one's own."""
    text = (header or f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n").encode()
    return (
        b"\x93NUMPY"
        + bytes(version)
        + struct.pack("<H" if version == (1, 0) else "<I", len(text))
        + text
        + bytes(64)
    )


HEADERS = {
    "a list": npy(header="[1, 2]\n"),
    "not closed": npy(header="{'descr': \n"),
    "other keys": npy(header="{'a': 1}\n"),
    "other type": npy("'zz'"),
    "objects": npy("'|O'"),
    "no type": npy("None"),
    "negative": npy(shape="(-3,)"),
    "beyond 64 bits": npy(shape="(99999999999999999999999,)"),
    "beyond memory": npy(shape="(4611686018427387904,)"),
    "product beyond": npy(shape="(4294967296, 4294967296)"),
    "beyond the file": npy(shape="(1000000,)"),
    "thousands of digits": npy(shape=f"({'9' * 6000},)"),
    "fractions": npy(shape="(3.0,)"),
    "truth": npy(shape="(True,)"),
    "text": npy(shape="('a',)"),
    "nested": npy(header="(" * 5000 + ")" * 5000 + "\n"),
    "version": npy(version=(9, 9)),
    "longer than the file": b"\x93NUMPY\x02\0\xff\xff\xff\xff{}",
    "not UTF-8": b"\x93NUMPY\x03\0" + struct.pack("<I", 2) + b"\xff\xfe",
    "cut off": b"\x93NUMPY",
    "empty": b"",
}


@pytest.mark.one_in(11)
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_of_npy_that_cannot_be_is_an_error_that_names_the_file(header, tmp_path):
    """NumPy takes it for a piece of Python: it raises what its parser raises, and what too large
    numbers do.
    """
    path = tmp_path / "a.npy"
    path.write_bytes(HEADERS[header])
    for use in (
        lambda: headrace.TokenSource(path),
        lambda: convert(path, tmp_path / "out"),
        lambda: convert(path, tmp_path / "out", "parquet"),
    ):
        with pytest.raises(SourceError, match=r"a\.npy") as caught:
            use()
        assert len(str(caught.value)) < 500


def test_an_archive_of_numpy_under_the_name_of_an_array_is_told_as_such(tmp_path):
    """`np.load` gives something else for it, whatever its name is."""
    with open(tmp_path / "a.npy", "wb") as file:
        np.savez(file, x=np.arange(3))
    for to in ("array_record", "parquet", "tokens"):
        with pytest.raises(SourceError, match=r"is an archive of arrays \(\.npz\)\. Save each"):
            convert(tmp_path / "a.npy", tmp_path / "out", to)


def test_columns_of_one_name_are_an_error(tmp_path):
    """A record is a dict, which holds one of them; so is a struct in it."""
    columns = [pa.array([1, 2]), pa.array([3, 4])]
    inner = pa.StructArray.from_arrays(columns, names=["a", "a"])
    for name, table in {
        "flat": pa.table(columns, names=["a", "a"]),
        "deep": pa.table({"x": pa.ListArray.from_arrays([0, 1, 2], inner)}),
    }.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table, path)
        for use in (
            headrace.ParquetDataSource,
            lambda path: convert(path, tmp_path / "out"),
            lambda path: convert(path, tmp_path / "out", "parquet"),
        ):
            with pytest.raises(
                SourceError,
                match=(
                    rf"{name}\.parquet: several columns, or fields of one struct, have the same "
                    rf"name, 'a'"
                ),
            ):
                use(path)


@pytest.mark.parametrize("kept", [0, 1, 8, 100, -8, -1])
def test_a_parquet_file_that_is_cut_off_is_an_error_where_its_columns_are_asked_for(kept, tmp_path):
    """`to="parquet"` reads the schema first, by another way."""
    pq.write_table(pa.table({"a": list(range(100))}), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data[:kept])
    with pytest.raises(SourceError, match=r"a\.parquet(:| is not a Parquet file)"):
        convert(tmp_path / "a.parquet", tmp_path / "out", "parquet")


@pytest.fixture
def saved(tmp_path):
    """A dataset on disk, and its one file of rows."""
    rows = {
        "x": list(range(50)),
        "t": [f"text {n}" for n in range(50)],
        "l": [[n] * (n % 3) for n in range(50)],
    }
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "hf")
    return tmp_path / "hf", next((tmp_path / "hf").glob("*.arrow"))


@pytest.mark.parametrize("file", ["state.json", "dataset_info.json"])
@pytest.mark.parametrize(
    "content", ["", "[]", "null", "{", "3", '{"_data_files": 3}', '{"_data_files": [{}]}', "\udcff"]
)
def test_descriptions_of_a_hugging_face_dataset_that_are_none_are_errors(
    content, file, saved, tmp_path
):
    """Or they are not needed."""
    (saved[0] / file).write_bytes(content.encode(errors="surrogateescape"))
    try:
        assert convert(saved[0], tmp_path / "out", "parquet").records == 50
    except SourceError as error:
        assert "cannot be read as a Hugging Face dataset on disk" in str(error)  # noqa: PT017


def test_bytes_of_a_hugging_face_file_that_were_changed_are_errors_or_values(saved, tmp_path):
    """Nowhere an error of Arrow's or of Python's; a file that is cut off is always one."""
    folder, path = saved
    data = path.read_bytes()
    for kept in (0, 4, 100, len(data) // 2, len(data) - 100):
        path.write_bytes(data[:kept])
        with pytest.raises(SourceError, match="Hugging Face dataset on disk"):
            convert(folder, tmp_path / "cut", "parquet")
    for place in range(0, len(data), 97):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x80]) + data[place + 1 :])
        with suppress(headrace.errors.HeadraceError):
            convert(folder, tmp_path / str(place), "parquet")


URLS = [
    *(
        "ftp://",
        "ftp://127.0.0.1:1/x.jsonl",
        "ftp://127.0.0.1:none/x.jsonl",
        "webhdfs://",
        "webhdfs://127.0.0.1:1/x.jsonl",
    ),
    *(
        "github://x",
        "nonsense://x/y.jsonl",
        "memory://a.jsonl",
        "s3://",
        "http://127.0.0.1:1/x.jsonl",
        "webhdfs://h:99999999/x.jsonl",
    ),
]


# fsspec's own, of an FTP that was never there
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("url", URLS)
def test_a_store_that_is_not_there_is_an_error_that_names_the_url(url):
    """File systems of fsspec take the host from the URL; what they raise is theirs."""
    with pytest.raises(
        (SourceError, MissingExtraError),
        match=url.partition("?")[0].replace(".", r"\.").rstrip("/"),
    ):
        headrace.JsonLinesDataSource(url, storage_options={"tries": 1, "timeout": 1})
    store.close_stores()


def test_each_host_has_a_store_of_its_own():
    """Of file systems that take the host from the URL: one for all would ask the first host for the
    second one's files.
    """
    options = storage_options_of(None)
    one, same, other = (
        store.store_of(f"webhdfs://{place}/x.jsonl", options)[0] for place in ("a:1", "a:1", "b:1")
    )
    assert one is same
    assert one is not other
    assert [found.system.url.partition("/webhdfs")[0] for found in (one, other)] == [
        "http://a:1",
        "http://b:1",
    ]
    store.close_stores()


@pytest.mark.parametrize("scheme", ["s3", "gs", "http"])
def test_options_of_connections_may_stand_anywhere(scheme):
    """Beside those of the store, or in a dict of their own."""
    for given in (
        {"allow_http": True},
        {"client_options": {"allow_http": True}},
        {"allow_http": False, "user_agent": "me"},
    ):
        options = storage_options_of(
            {"skip_signature": True, **given} if scheme != "http" else given
        )
        assert store.store_of(f"{scheme}://bucket/x", options)[1] == "x"
    store.close_stores()


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_panic_of_the_library_is_an_error(scheme):
    """It is no `Exception` of Python: `except Exception` does not catch it. Of an option that only
    the library knows.
    """
    with pytest.raises(
        SourceError, match="cannot be opened with this URL and these storage_options"
    ):
        headrace.JsonLinesDataSource(
            f"{scheme}://b/x", storage_options={"http2_max_frame_size": "7"}
        )


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "http"])
def test_options_of_connections_are_taken_beside_those_of_the_store(scheme):
    """`allow_http` among the store's made the library panic, by an exception that `except
    Exception` does not catch.
    """
    url = f"{scheme}://127.0.0.1/x.jsonl"
    for options in (
        {"allow_http": True},
        {"allow_http": "no way"},
        {"client_options": 3},
        {"user_agent": "me", "connect_timeout": "1s"},
    ):
        with pytest.raises(SourceError):
            headrace.JsonLinesDataSource(
                url, storage_options={"tries": 1, "timeout": 1, "skip_signature": True, **options}
            )
    store.close_stores()


def test_a_signature_that_a_store_repeats_is_hidden():
    """Though errors name the URL without it: the store's library tells it by itself, without the
    rest of the URL.
    """
    secret = "0123456789abcdef0123456789abcdef"

    def refuse(_, key):
        raise OSError(f"{key}: the signature {secret} is over")

    with pytest.raises(
        SourceError, match=r"the request failed \(tries: 1\): OSError: x\.jsonl: the signature"
    ) as caught:
        store.ask(
            f"https://a/x.jsonl?X-Amz-Signature={secret}", storage_options_of({"tries": 1}), refuse
        )
    told = "".join(traceback.format_exception(caught.value))
    assert secret not in told
    assert caught.value.__context__ is None
    store.close_stores()
