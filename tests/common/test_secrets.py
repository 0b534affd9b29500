"""Credentials in URLs and options are shown nowhere: not in messages, tracebacks, reprs, logs,
states, plans or reports.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
import traceback
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.indexed_files import examples, json_lines, tar
from support.pipelines import chosen

import headrace
from headrace.common.messages import first_few, short_repr, shorten
from headrace.common.redaction import redacted, redacted_error, without_secrets
from headrace.conversion.labels import labelled
from headrace.conversion.target import Target
from headrace.errors import ConversionError, HeadraceError, SourceError
from headrace.files.opened import stamp_of
from headrace.files.paths import find_files
from headrace.files.remote.hot import HOT
from headrace.files.remote.store import close_stores
from headrace.files.storage_options import storage_options_of
from headrace.sources import (
    ArrayRecordDataSource,
    HDF5Source,
    ImageFolderDataSource,
    JsonLinesDataSource,
    LitDataSource,
    MdsSource,
    MegatronSource,
    NpzSource,
    ParquetDataSource,
    TarDataSource,
    TextLinesSource,
    TfdsDataSource,
    TFRecordDataSource,
    TokenSource,
)
from headrace.tools.command_line import main

# fsspec's FTP, half made
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SECRET = "hush" + "9hush"
"""Put together, so that a traceback, which prints lines of this file, does not have it."""


def files():
    """Good files by name."""
    table = pa.BufferOutputStream()
    pq.write_table(pa.table({"key": np.arange(20)}), table)
    keys = range(20)
    return {
        "a.jsonl": json_lines(keys),
        "a.tfrecord": examples(keys),
        "a.tar": tar(keys),
        "a.parquet": table.getvalue().to_pybytes(),
    }


class _Answers(http.server.BaseHTTPRequestHandler):
    """Good files under `/`, and each status under its number; it says what it was asked, as real
    stores do.
    """

    files: dict[str, bytes]

    def do_GET(self):
        path = self.path.partition("?")[0]
        name = path.rpartition("/")[2]
        status, content = 200 if name in self.files else 404, self.files.get(name, b"")
        if found := re.match(r".*/(\d{3})/", path):
            status = int(found[1])
            content = f"<Error><AWSAccessKeyId>{SECRET}</AWSAccessKeyId>{self.path} {self.headers}</Error>".encode()
        start, stop = 0, len(content)
        if status == 200 and (asked := self.headers.get("Range")):
            first, last = asked.removeprefix("bytes=").split("-")
            start, stop, status = int(first), min(int(last) + 1, len(content)), 206
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        for name, value in {"ETag": '"1"', "Content-Length": stop - start}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[start:stop])

    do_HEAD = do_PUT = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def host():
    """Host and port of a server that answers."""
    handler = type("Answers", (_Answers,), {"files": files()})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    address = f"127.0.0.1:{server.server_address[1]}"
    stamp_of(f"http://{address}/a.tar")  # what the library opens once in a process is open now
    yield address
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def closed_afterwards():
    """No connection stays."""
    yield
    close_stores()
    HOT.clear()


def urls(host, place):
    """One file's URL with a secret in each place where there may be one."""
    return {
        "user": f"http://user:{SECRET}@{host}/{place}",
        "token as user": f"http://{SECRET}@{host}/{place}",
        "api key": f"http://{host}/{place}?id=7&api_key={SECRET}",
        "signature": f"http://{host}/{place}?X-Amz-Signature={SECRET}&X-Amz-Credential={SECRET}",
        "s3": f"s3://AK:{SECRET}/{SECRET}@bucket/{place}",
        "gs": f"gs://AK:{SECRET}@bucket/{place}",
        "ftp": f"ftp://user:{SECRET}@127.0.0.1:1/{place}",
        "webdav": f"webhdfs://user:{SECRET}@127.0.0.1:1/{place}",
        "unknown": f"nosuch://user:{SECRET}@host/{place}",
        "pattern": f"s3://AK:{SECRET}@bucket/*/{place}",
    }


KINDS = list(urls("", ""))


def options(host, tmp_path):
    """What leads to the server, with a secret of its own."""
    keys = {
        "access_key_id": "a",
        "secret_access_key": SECRET,
        "region": "us-east-1",
        "endpoint": f"http://{host}",
    }
    return {**keys, "tries": 1, "timeout": 1, "cache_dir": str(tmp_path / "cache")}


def told_by(error):
    """All that anybody may see of an exception and of those that led to it."""
    yield "".join(traceback.format_exception(error))
    while error is not None:
        yield from (
            str(error),
            repr(error),
            *map(str, error.args),
            *getattr(error, "__notes__", ()),
        )
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


READERS = {
    "JsonLinesDataSource": (JsonLinesDataSource, "a.jsonl"),
    "TFRecordDataSource": (TFRecordDataSource, "a.tfrecord"),
    "TarDataSource": (TarDataSource, "a.tar"),
    "TextLinesSource": (TextLinesSource, "a.txt"),
    "ParquetDataSource": (ParquetDataSource, "a.parquet"),
    "ArrayRecordDataSource": (ArrayRecordDataSource, "a.array_record"),
    "ArrayRecord range": (
        lambda url, **more: ArrayRecordDataSource(f"{url}[0:9]", **more),
        "a.array_record",
    ),
    "TokenSource": (TokenSource, "a.npy"),
    "MegatronSource": (MegatronSource, "a.bin"),
    "ImageFolderDataSource": (ImageFolderDataSource, "images"),
    "MdsSource": (MdsSource, "mds"),
    "LitDataSource": (LitDataSource, "litdata"),
    "HDF5Source": (HDF5Source, "a.h5"),
    "NpzSource": (NpzSource, "a.npz"),
    "TfdsDataSource": (lambda url, **more: TfdsDataSource("mnist", "train", url, **more), "data"),
    "convert": (
        lambda url, **more: _convert(
            url, Path(more["storage_options"]["cache_dir"], "out"), **more
        ),
        "a.jsonl",
    ),
    "convert to": (lambda url, **more: _convert([b"one"], url, **more), "out"),
    "verify": (lambda url, **more: headrace.verify(url, **more), "out"),
}


def _convert(source, target, **more):
    return headrace.convert(source, target, workers=0, progress=False, **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "reader", chosen(READERS, "JsonLinesDataSource", "ParquetDataSource", "TfdsDataSource")
)
def test_no_error_tells_a_secret(reader, kind, host, tmp_path, caplog, capfd):
    """Nor do the library's exceptions that it is chained to, a log, a warning, or what
    is printed.
    """
    if reader == "TfdsDataSource" and kind not in ("s3", "unknown"):
        pytest.skip("TFDS datasets are folders, which HTTP does not have")
    read, name = READERS[reader]
    told = []
    for status in ("", "403/", "404/", "500/"):
        if status and (reader == "TfdsDataSource" or kind not in ("user", "api key", "s3")):
            continue
        url = urls(host, status + ("damaged." + name if not status else name))[kind]
        with warnings.catch_warnings(record=True) as warned, caplog.at_level("DEBUG", "headrace"):
            warnings.simplefilter("always")
            try:
                read(url, storage_options=options(host, tmp_path))
            except Exception as error:
                told += told_by(error)
            told += [str(one.message) for one in warned]
    assert told
    assert SECRET not in "\n".join([*told, caplog.text, *capfd.readouterr()])


@pytest.mark.parametrize("kind", ["user", "token as user", "api key", "signature"])
@pytest.mark.parametrize(
    "reader", ["JsonLinesDataSource", "TFRecordDataSource", "TarDataSource", "ParquetDataSource"]
)
def test_a_source_that_reads_tells_no_secret(reader, kind, host, tmp_path):
    """In its repr, its fingerprint, a loader's repr, state, statistics, trace and cache; and states
    go on.
    """
    read, name = READERS[reader]
    given = options(host, tmp_path)
    source = read(urls(host, name)[kind], storage_options=given)
    loader = headrace.DataLoader(
        data_source=source, sampler=headrace.IndexSampler(20, num_epochs=1, seed=1)
    )
    with iter(loader) as iterator:
        assert next(iterator) is not None
        told = [
            repr(source),
            str(source.fingerprint),
            repr(loader),
            repr(iterator),
            str(iterator.stats()),
        ]
        told += [str(iterator.get_state())]
    told += [str(headrace.trace(loader, 0)), repr(storage_options_of(given))]
    told += [str(path) for path in (tmp_path / "cache").rglob("*")]
    assert SECRET not in "\n".join(map(str, told))
    other = read(urls(host, name)["api key" if kind == "user" else "user"], storage_options=given)
    assert other.fingerprint == source.fingerprint


@pytest.mark.slow
def test_errors_while_records_are_read_tell_no_secret(host, tmp_path):
    """A worker's error, its traceback of the other process included."""
    url = urls(host, "a.jsonl")["user"]
    source = JsonLinesDataSource(url, storage_options=options(host, tmp_path))
    source._stamps = (source._stamps[0]._replace(modified="another"),)
    loader = headrace.DataLoader(
        data_source=source, sampler=headrace.IndexSampler(20, num_epochs=1, seed=1), worker_count=1
    )
    with pytest.raises(SourceError) as caught:
        list(loader)
    assert SECRET not in "\n".join(told_by(caught.value))


def test_a_conversion_keeps_no_secret(host, tmp_path):
    """Its plan and its manifest name the file without it; the same file under another signature is
    the same conversion.
    """
    given = options(host, tmp_path)
    seen = []
    keep = Target.keep

    def kept(self, plan):
        seen.append(json.dumps(plan))
        keep(self, plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Target, "keep", kept)
        made = _convert(urls(host, "a.jsonl")["signature"], tmp_path / "out", storage_options=given)
    assert made.records == 20
    assert "a.jsonl" in seen[0]
    assert SECRET not in seen[0] + (tmp_path / "out" / "manifest.json").read_text() + repr(made)
    again = urls(host, "a.jsonl")["signature"].replace("Signature=", "Signature=other")
    assert _convert(again, tmp_path / "out", storage_options=given) == made


def test_names_in_a_plan_are_those_of_the_input():
    """Files whose URLs differ only in what is hidden keep a name each."""
    names = [f"http://host/a?token={number}" for number in range(3)] + ["/data/b"]
    assert list(labelled(names).values()) == names
    assert len(labelled(names)) == 4


@pytest.mark.parametrize(
    "name", ["../x.array_record", "/etc/x.array_record", "a/../../x.array_record", "..", "a\0b", ""]
)
@pytest.mark.parametrize("where", ["plan", "manifest"])
def test_names_in_a_plan_or_manifest_stay_in_the_target(where, name, tmp_path):
    """A forged one is an error, and nothing outside of the target is written, read or removed."""
    source, target = tmp_path / "in.jsonl", tmp_path / "deep" / "out"
    source.write_bytes(json_lines(range(9)))
    made = _convert(source, target)
    identity = json.loads((target / "manifest.json").read_text())
    if where == "manifest":
        identity["shards"][0]["files"][0]["name"] = name
        (target / "manifest.json").write_text(json.dumps(identity))
    else:
        (target / "manifest.json").unlink()
        (target / made.shards[0].name).unlink()
        (target / ".conversion").mkdir()
        parts = [{"name": str(source), "start": 0, "stop": None, "share": 1.0}]
        plan = {"identity": {each: identity[each] for each in ("source", "options")}}
        plan["shards"] = [{"name": name, "parts": parts}]
        (target / ".conversion" / "plan.json").write_text(json.dumps(plan))
    before = sorted(path for path in tmp_path.rglob("*") if target not in path.parents)
    with pytest.raises(ConversionError, match="of the target folder"):
        _convert(source, target)
    assert sorted(path for path in tmp_path.rglob("*") if target not in path.parents) == before


def test_a_plan_reads_no_other_files_than_the_source(tmp_path):
    """One that was forged to name another file is an error."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_bytes(json_lines(range(9)))
    (tmp_path / "private.jsonl").write_bytes(json_lines(range(3)))
    made = _convert(source, target)
    identity = json.loads((target / "manifest.json").read_text())
    (target / "manifest.json").unlink()
    (target / made.shards[0].name).unlink()
    (target / ".conversion").mkdir()
    parts = [{"name": str(tmp_path / "private.jsonl"), "start": 0, "stop": None, "share": 1.0}]
    plan = {"identity": {each: identity[each] for each in ("source", "options")}}
    plan["shards"] = [{"name": made.shards[0].name, "parts": parts}]
    (target / ".conversion" / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(ConversionError, match=r"an unfinished conversion of .*but the source"):
        _convert(source, target)


@pytest.mark.long
@pytest.mark.parametrize("command", ["convert", "verify"])
def test_commands_print_no_secret(command, host, tmp_path, capfd):
    """On standard output or error."""
    told = []
    for url in urls(host, "404/a.jsonl").values():
        arguments = (
            [url, str(tmp_path / "out"), "--workers", "0"] if command == "convert" else [url]
        )
        try:
            main([command, *arguments])
        except Exception as error:
            told += told_by(error)
    assert SECRET not in "\n".join([*told, *capfd.readouterr()])


@pytest.mark.usefixtures("host")  # opens what the library for stores opens once in a process
@pytest.mark.parametrize("kind", KINDS)
def test_values_in_messages_tell_no_secret(kind):
    """However short they are cut, alone or in containers, as objects, bytes or paths."""
    url = urls("host:80", "a" * 30)[kind]

    class Holds:
        def __repr__(self):
            return f"Holds(url={url!r}, more={'x' * 999})"

    values = [
        url,
        url.encode(),
        [url] * 3,
        {"url": url},
        (url, {url}),
        Holds(),
        partial(len, url),
        ValueError(url),
    ]
    for value in values:
        for limit in range(9, 300, 7):
            assert SECRET[:6] not in short_repr(value, limit) + shorten(value, limit) + first_few(
                [value, value]
            )
    assert redacted(redacted(url)) == redacted(url)
    with pytest.raises(HeadraceError) as caught:
        find_files(url, ("*",), {"tries": 1, "timeout": 0.2, "endpoint": "http://127.0.0.1:1"})
    assert SECRET not in "\n".join(told_by(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/a.parquet",
        "hf://datasets/me/data@main/a.parquet",
        "abfs://container@account.dfs.core.windows.net/a",
        "https://host:8080/images/a@2x.png",
        "https://host/a.npy?id=7&page=2",
        "/data/what?=1",
        "me@host.org: tokens=7, key=3; token: 5",
    ],
)
def test_what_is_no_secret_is_shown(text):
    """Messages must still name the file."""
    assert redacted(text) == text


def test_options_are_hidden_by_name_and_value():
    """In a library's text, and where options are shown as a dict."""
    given = [("secret", SECRET), ("client_options", {"token": SECRET + "2"}), ("region", "eu")]
    text = f"denied for {SECRET} and {SECRET}2 in eu; password: abc; Authorization: Bearer xyz"
    assert (
        redacted_error(text, given)
        == "denied for *** and *** in eu; password: ***; Authorization: ***"
    )
    assert SECRET not in short_repr({"aws_secret_access_key": SECRET, "token": SECRET})
    with pytest.raises(TypeError) as caught:
        storage_options_of([("secret_access_key", f"s3://a:{SECRET}@b")])
    assert SECRET not in str(caught.value)


def test_a_chained_exception_without_secrets_stays_itself():
    """Only one that tells a secret is replaced, by one of the same name."""
    error = OSError(2, "No such file", "/data/a")
    assert without_secrets(error) is error
    told = without_secrets(ValueError(f"http://u:{SECRET}@h"))
    assert (type(told).__name__, str(told)) == ("ValueError", "http://***@h")


@pytest.mark.parametrize(
    "where", ["?k%65y=", "?a=1#access_token=", "#id_token=", "?bearer=", "?a=1&pw=", "?%74oken="]
)
def test_parameters_of_other_ways_to_sign_are_hidden(where):
    """In the fragment, where OAuth has them, too, and whatever letters of the name are written as
    numbers.
    """
    url = f"https://host/a.npy{where}{SECRET}"
    for text in (redacted(url), shorten(OSError(2, f"cannot open {url}", url)), short_repr(url)):
        assert SECRET not in text
        assert "https://host/a.npy" in text


@pytest.mark.parametrize("options", [SECRET, [("token", SECRET)], {5: SECRET}, (SECRET,)])
def test_options_of_a_wrong_type_are_not_shown(options):
    """What was given in their place may be a credential."""
    with pytest.raises(TypeError, match="Pass a dict") as raised:
        storage_options_of(options)
    assert SECRET not in str(raised.value)
