"""Files of some kilobytes that unpack to gigabytes. In: such files. Out: an error before the memory
is full.
"""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest
from support.conversions import convert

from headrace.errors import ExpansionError
from headrace.files import streams
from headrace.files.streams import open_stream
from headrace.tools.command_line import main

zstd = streams.zstd_library()
PACKED = {"gz": gzip.compress, "zst": zstd.compress}
ZEROS = bytes(16 << 20)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(streams, "EXPECTED_BYTES", 1 << 20)


def tar():
    """A sample of zeros."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        info = tarfile.TarInfo("1.bin")
        info.size = len(ZEROS)
        file.addfile(info, io.BytesIO(ZEROS))
    return out.getvalue()


@pytest.mark.parametrize("kind", PACKED)
def test_no_more_is_unpacked_than_the_limit(kind, tmp_path):
    """However much is asked for at once; a limit that is larger lets all of it through."""
    path = tmp_path / f"a.{kind}"
    path.write_bytes(PACKED[kind](ZEROS))
    size = path.stat().st_size
    read = 0
    with (
        open_stream(str(path), "auto") as stream,
        pytest.raises(ExpansionError, match=rf"a\.{kind} has {size} bytes"),
    ):
        while found := stream.read1():
            read += len(found)
    most = max(1 << 20, 200 * size)
    assert most <= read <= most + (2 << 20)
    assert read < len(ZEROS)
    with open_stream(str(path), "auto", None, 1 << 20) as stream:
        assert stream.read() == ZEROS


@pytest.mark.slow
@pytest.mark.one_in(8)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b"1\n" * 600 + b'"' + ZEROS.replace(b"\0", b"x") + b'"'),
        ("a.csv", b"a\n" + ZEROS.replace(b"\0", b"x")),
        ("a.tar", tar()),
    ],
)
def test_a_conversion_ends_at_such_a_file(name, content, kind, on_error, tmp_path):
    """Whether damage is left out or not; it goes on with a larger limit."""
    path = tmp_path / f"{name}.{kind}"
    path.write_bytes(PACKED[kind](content))
    with pytest.raises(ExpansionError, match=r"unpacks to more than max_expansion=200 times"):
        convert(path, tmp_path / "out", on_error=on_error)
    assert convert(path, tmp_path / "out", on_error=on_error, max_expansion=10**6).records == (
        601 if "jsonl" in name else 1
    )


def test_the_command_has_the_limit_as_an_option(tmp_path, capsys):
    """And its error names that."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (8 << 20) + b"]"))
    assert main(["convert", str(path), str(tmp_path / "out"), "--workers", "0"]) != 0
    assert "--max-expansion" in capsys.readouterr().err
    assert (
        main(
            [
                "convert",
                str(path),
                str(tmp_path / "out"),
                "--workers",
                "0",
                "--max-expansion",
                "5000",
            ]
        )
        == 0
    )


def test_what_compresses_well_is_read_up_to_a_gigabyte(monkeypatch, tmp_path):
    """Small files of zeros are no danger."""
    monkeypatch.undo()
    assert streams.EXPECTED_BYTES == 1 << 30
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (8 << 20) + b"]"))
    assert convert(path, tmp_path / "out").records == 1


def test_a_limit_is_a_positive_number(tmp_path):
    """Else it is told when the conversion begins."""
    with pytest.raises(ValueError, match="max_expansion=0 must be at least 1"):
        convert([b"a"], tmp_path / "out", max_expansion=0)
