"""Tar files that say what cannot be, or that go on after their end. In: bytes as real programs and
broken ones write them.

Out: an error that names the file, or samples that are whole and a count of what is left out.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import random
import subprocess
import tarfile

import pytest
from support.conversions import convert
from support.tars import samples_of, tar_of

import headrace
from headrace.errors import SourceError
from headrace.files.opened import open_file
from headrace.formats.index import index_of
from headrace.formats.tar import read_members
from headrace.sources.indexed.tar import TarDataSource

HOLE = 1 << 20
SPARSE = [("gnu", "0"), ("pax", "0.0"), ("pax", "0.1"), ("pax", "1.0")]


def sparse_tar(folder, form, version):
    """What `tar -S` makes of a whole file, one with 40 holes, and another whole one."""
    (folder / "a.txt").write_bytes(b"first")
    (folder / "z.txt").write_bytes(b"last")
    with open(folder / "b.bin", "wb") as file:
        for number in range(40):
            file.seek(number * HOLE)
            file.write(b"piece %d" % number + bytes(5000))
    options = [f"--format={form}", *([f"--sparse-version={version}"] if form == "pax" else [])]
    subprocess.run(
        ["tar", "-S", *options, "-cf", "x.tar", "a.txt", "b.bin", "z.txt"], cwd=folder, check=True
    )
    return folder / "x.tar"


@pytest.mark.parametrize(("form", "version"), SPARSE)
def test_sparse_members_are_errors_or_left_out_and_counted(form, version, tmp_path):
    """Their content does not lie in one piece; the members after them come as they are."""
    path = sparse_tar(tmp_path, form, version)
    with pytest.raises(SourceError, match=r"x\.tar: 'b\.bin' is a sparse file"):
        headrace.TarDataSource(path)
    told = []
    found = samples_of(path.read_bytes(), told.append)
    assert all(
        sample in ({"__key__": "a", "txt": b"first"}, {"__key__": "z", "txt": b"last"})
        for sample in found
    )
    assert "is a sparse file" in str(told[0])
    members = list(read_members(io.BytesIO(path.read_bytes()), "x.tar", on_damage=told.append))
    assert [member and (member.name, member.content) for member in members] == [
        ("a.txt", b"first"),
        None,
        ("z.txt", b"last"),
    ]


def test_a_conversion_counts_a_sparse_member(tmp_path):
    """It is in the receipt, and samples far from it are there."""
    data = tar_of({f"{number}.txt": b"x" for number in range(8)})
    (tmp_path / "in").mkdir()
    (tmp_path / "s").mkdir()
    sparse = sparse_tar(tmp_path / "s", "gnu", "0").read_bytes().rstrip(b"\0")
    (tmp_path / "in" / "a.tar").write_bytes(sparse + bytes(-len(sparse) % 512) + data)
    made = convert(tmp_path / "in" / "a.tar", tmp_path / "out", on_error="skip")
    # the member, and the samples beside it
    assert (made.records, made.shards[0].left_out) == (8, 3)
    assert "is a sparse file" in made.shards[0].damage[0]


FILES = {
    f"{number}.{kind}": f"<{number} {kind}>".encode() * 90
    for number in range(20)
    for kind in ("jpg", "cls")
}


@pytest.mark.parametrize("blocks", [1, 2, 20])
@pytest.mark.parametrize("where", ["a header", "a header and contents"])
def test_zeros_in_the_middle_do_not_end_a_tar(where, blocks):
    """As a lost page of a disk leaves them: what follows is an error, or comes but for the samples
    beside them.
    """
    data = bytearray(tar_of(FILES, tarfile.USTAR_FORMAT))
    start = data.index(b"<2 cls>") - 512
    stop = start + 512 * (blocks if where == "a header" else blocks + 1)
    data[start:stop] = bytes(stop - start)
    with pytest.raises(
        SourceError, match=r"x\.tar: data follows at byte.*after the end mark \(zeros\) at byte"
    ):
        samples_of(bytes(data))
    told = []
    found = samples_of(bytes(data), told.append)
    whole = samples_of(tar_of(FILES))
    assert all(sample in whole for sample in found)
    assert found[:2] == whole[:2]
    assert found[-1:] == whole[-1:]
    assert [
        str(error).split(": ")[1][:14] for error in told if "may be lost" not in str(error)
    ] == ["data follows a"]


def test_zeros_over_the_header_of_the_last_member_are_noticed():
    """What follows is no header but its content: the member is lost all the same."""
    data = bytearray(tar_of({"1.txt": b"a", "2.txt": b"b" * 1000}, tarfile.USTAR_FORMAT))
    start = data.index(b"b" * 1000) - 512
    data[start : start + 512] = bytes(512)
    with pytest.raises(SourceError, match="after the end mark"):
        samples_of(bytes(data))


@pytest.mark.parametrize("pad", [0, 512, 8192])
def test_tars_behind_one_another_are_an_error_or_read_on(pad):
    """As `cat` makes them; the second one was never there."""
    one, two = (
        tar_of({f"{n}.txt": b"%d" % n for n in range(start, start + 5)}) for start in (0, 10)
    )
    with pytest.raises(SourceError, match=r"follows at byte .*"):
        samples_of(one + bytes(pad) + two)
    told = []
    found = samples_of(one + bytes(pad) + two, told.append)
    assert [sample["__key__"] for sample in found] == ["0", "1", "2", "3", "11", "12", "13", "14"]
    assert told


@pytest.mark.parametrize("end", [512, 1024, 10240, 10240 + 100])
def test_zeros_up_to_the_end_of_the_file_are_its_end(end):
    """Of any number, from one block on, also where the last one is not whole."""
    data = tar_of({"1.txt": b"a"}).rstrip(b"\0")
    data += bytes(-len(data) % 512) + bytes(end)
    assert samples_of(data) == [{"__key__": "1", "txt": b"a"}]
    assert samples_of(bytes(10240)) == []


def test_damage_behind_the_end_of_a_compressed_tar_is_noticed(tmp_path):
    """The checksum of gzip stands after the mark of the end, and was never read."""
    packed = bytearray(gzip.compress(tar_of({"1.txt": b"a", "2.txt": b"b"})))
    packed[-8] ^= 1
    (tmp_path / "a.tar.gz").write_bytes(bytes(packed))
    with pytest.raises(SourceError, match="CRC"):
        convert(tmp_path / "a.tar.gz", tmp_path / "out")


def base_256(number):
    """A size as GNU writes those that do not fit into digits."""
    return (
        (number % (1 << 96)).to_bytes(12, "big")
        if number < 0
        else (number | 1 << 95).to_bytes(12, "big")
    )


def with_size(data, name, field):
    """A tar whose header of this name has another size, and a checksum that is right."""
    start = data.index(name.encode() + b"\0")
    header = bytearray(data[start : start + 512])
    header[124:136], header[148:156] = field, b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return data[:start] + bytes(header) + data[start + 512 :]


def with_pax(name, **said):
    """A tar in which an extended header says something of the second of three members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for place in ("1.txt", name, "3.txt"):
            info = tarfile.TarInfo(place)
            info.size, info.pax_headers = 1, said if place == name else {}
            tar.addfile(info, io.BytesIO(b"x"))
    return out.getvalue()


USTAR = tar_of(
    {"1.txt": b"a", "2.txt": b"b" * 2000, "3.txt": b"c", "4.txt": b"d"}, tarfile.USTAR_FORMAT
)
SIZES = [-1, -512, -(1 << 40), 1 << 40, 1 << 62, 1 << 63, (1 << 95) - 1]


class Unseekable(io.BytesIO):
    """As the stream of a compressed file."""

    def seekable(self):
        return False


@pytest.mark.parametrize("stream", [io.BytesIO, Unseekable])
@pytest.mark.parametrize("contents", [True, False])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ["base 256", "pax"])
def test_a_size_that_cannot_be_ends_in_an_error_or_a_count(way, size, contents, stream):
    """Below nothing, and beyond the end of the file: it neither hangs, nor asks for so
    much memory.
    """
    data = (
        with_size(USTAR, "2.txt", base_256(size))
        if way == "base 256"
        else with_pax("2.txt", size=str(size))
    )
    with pytest.raises(SourceError, match=r"x\.tar: "):
        list(read_members(stream(data), "x.tar", contents))
    told = []
    found = list(read_members(stream(data), "x.tar", contents, told.append))
    assert told
    assert found[0].name == "1.txt"
    assert "2.txt" not in [member.name for member in found if member and (contents or size < 0)]
    if size < 0:
        assert found[-1].name == ("4.txt" if way == "base 256" else "3.txt")


@pytest.mark.parametrize("size", ["x", "1.5", "0x10", "1_0", " 1", "9" * 5000, "-0"])
def test_a_size_in_pax_that_is_no_number_is_an_error_or_a_count(size):
    """Python takes `1_0` and ` 1` for numbers, and no digits beyond 4300."""
    data = with_pax("2.txt", size=size)
    with pytest.raises(SourceError, match=r"x\.tar: .*size"):
        samples_of(data)
    told = []
    assert {"__key__": "2", "txt": b"x"} not in samples_of(data, told.append)
    assert told


def test_a_damaged_extended_header_costs_the_member_that_it_is_of():
    """Its name may be another one there: a sample that lacks it is left out, too."""
    long = "n" * 120
    data = bytearray(
        tar_of(
            {"1.txt": b"a", f"{long}.jpg": b"b", f"{long}.cls": b"c", "3.txt": b"d", "4.txt": b"e"}
        )
    )
    place = data.index(b" path=")
    data[place - 1 : place] = b"x"
    with pytest.raises(SourceError, match=r"x\.tar: an extended header \(pax\) is damaged"):
        samples_of(bytes(data))
    told = []
    found = samples_of(bytes(data), told.append)
    assert [sample["__key__"] for sample in found] == ["3", "4"] or [
        sample["__key__"] for sample in found
    ] == ["4"]
    assert told


def test_an_extended_header_of_any_size_is_no_load_on_memory():
    """One that says it has gigabytes is damaged."""
    said = tarfile.TarInfo("pax")
    said.type, said.size = tarfile.XHDTYPE, 1 << 25
    data = (
        said.tobuf(tarfile.USTAR_FORMAT) + bytes(said.size) + tar_of({"1.txt": b"a", "2.txt": b"b"})
    )
    with pytest.raises(SourceError, match=r"x\.tar: an extended header .* has 33554432 bytes"):
        samples_of(data)


def test_every_size_field_of_a_real_tar_ends_in_an_error_or_in_whole_samples(tmp_path):
    """Random bytes in size fields, with checksums that are right."""
    rng = random.Random(1)
    whole = samples_of(USTAR)
    for _ in range(300):
        field = bytes(
            rng.choice([0x80, 0xFF, 0, 0x30, 0x37, rng.randrange(256)]) for _ in range(12)
        )
        data = with_size(USTAR, rng.choice(["1.txt", "2.txt", "3.txt"]), field)
        told = []
        try:
            found = samples_of(data, told.append)
        except SourceError:
            continue
        assert all(sample["__key__"] in "1234" for sample in found)
        assert (
            told
            or found == whole
            or [len(s["txt"]) for s in found] != [len(s["txt"]) for s in whole]
        )


def test_an_index_of_a_sparse_tar_that_an_earlier_version_kept_is_not_used(tmp_path):
    """It says of wrong bytes that they are the member's."""
    path = sparse_tar(tmp_path, "gnu", "0")
    whole = tmp_path / "whole.tar"
    whole.write_bytes(tar_of({"1.txt": b"a"}))
    kind = TarDataSource.index_kind
    index_of(
        str(path),
        dataclasses.replace(kind, name="tar", find=lambda _: kind.find(open_file(str(whole)))),
    )
    with pytest.raises(SourceError, match="is a sparse file"):
        headrace.TarDataSource(path)
