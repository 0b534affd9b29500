"""Tar files of samples: grouping, names of all kinds, and what is said of damaged ones."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest
from support.conversions import convert
from support.tars import samples_of, tar_of

import headrace
from headrace.errors import HeadraceError, SourceError
from headrace.formats.tar import read_members, read_records, sample_name

LONG = "folder/" * 30 + "é" * 60
FILES = {
    "./a/1.jpg": b"jpeg 1",
    "./a/1.cls": b"1",
    "a/2.JPG": b"x" * 512,
    "a/2.seg.png": b"",
    "README": b"no sample",
    f"{LONG}.txt": b"long",
    "b/.hidden": b"no sample",
    "b/3.txt": b"y" * 1000,
}
SAMPLES = [
    {"__key__": "a/1", "jpg": b"jpeg 1", "cls": b"1"},
    {"__key__": "a/2", "jpg": b"x" * 512, "seg.png": b""},
    {"__key__": LONG, "txt": b"long"},
    {"__key__": "b/3", "txt": b"y" * 1000},
]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_samples_are_members_of_one_key(form):
    """Folders and names without a key, links too, are no part; long names in both ways; Unicode."""
    data = tar_of(FILES, form)
    assert samples_of(data) == SAMPLES
    for offset, sample in read_records(io.BytesIO(data), "x.tar"):
        content = next(value for name, value in sample.items() if name != "__key__")
        assert data[offset : offset + len(content)] == content


def test_streams_that_cannot_seek_are_read():
    """As those of compressed files; contents may be left out."""
    packed = gzip.compress(tar_of(FILES))

    class Stream(io.BufferedReader):
        def seekable(self):
            return False

    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked:
        assert [sample for _, sample in read_records(Stream(unpacked), "x.tar")] == SAMPLES
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked:
        without = list(read_members(Stream(unpacked), "x.tar", contents=False))
    whole = list(read_members(io.BytesIO(tar_of(FILES)), "x.tar"))
    assert without == [member._replace(content=b"") for member in whole]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a.b.c", ("a", "b.c")),
        ("x.y/a.b", ("x.y/a", "b")),
        ("/abs/a.TXT", ("/abs/a", "txt")),
        ("a", None),
        (".a", None),
        ("x.y/a", None),
        ("a.", ("a", "")),
    ],
)
def test_the_key_ends_at_the_first_dot_of_the_last_part(name, parts):
    """As in webdataset."""
    assert sample_name(name) == parts


def _at(data, content):
    """Where the header of the member with this content begins."""
    return data.index(content) - 512


def test_a_sample_with_two_members_of_one_name_is_an_error_or_left_out():
    """The sample alone, and it is told."""
    data = tar_of({"a.jpg": b"1", "a.JPG": b"2", "b.jpg": b"3"})
    with pytest.raises(SourceError, match=r"x\.tar: sample 'a' at byte \d+ has 'jpg' twice"):
        samples_of(data)
    told = []
    assert (samples_of(data, told.append), len(told)) == ([{"__key__": "b", "jpg": b"3"}], 1)


def test_a_damaged_header_is_named_or_costs_the_samples_beside_it():
    """Nobody knows whose part is lost: both neighbours are left out, and each is told. All others
    come.
    """
    files = {
        f"{number}.{kind}": f"<{number} {kind}>".encode()
        for number in range(5)
        for kind in ("jpg", "cls")
    }
    data = bytearray(tar_of(files))
    data[_at(bytes(data), b"<2 jpg>") + 3] ^= 1
    with pytest.raises(
        SourceError, match=rf"x\.tar: the header at byte {_at(bytes(data), b'<2 jpg>')} is damaged"
    ):
        samples_of(bytes(data))
    told = []
    found = samples_of(bytes(data), told.append)
    assert [sample["__key__"] for sample in found] == ["0", "3", "4"]
    assert [str(error).split(": ")[1].split(";")[0] for error in told[1:]] == [
        "a part of sample '1' may be lost",
        "a part of sample '2' may be lost",
    ]


@pytest.mark.parametrize("cut", [1, 600, 1024])
def test_a_file_that_is_cut_off_is_an_error(cut):
    """In a content, in what fills a block, and before the mark of the end: the last sample may lack
    a part.
    """
    data = tar_of(FILES)
    end = data.index(b"y" * 1000) + 1024
    data = data[: end - cut]
    with pytest.raises(SourceError, match=r"x\.tar: the file ends at byte .*without an end mark"):
        samples_of(data)
    told = []
    assert samples_of(data, told.append) == SAMPLES[: 3 if cut == 1 else 2]
    assert told


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "the file is empty"),
        (b"no tar at all" * 100, "not a tar file"),
        (gzip.compress(tar_of(FILES)), "is compressed"),
    ],
)
def test_another_kind_of_file_is_an_error(data, text):
    """Of empty, foreign and compressed files it is said what they are, whatever is asked for."""
    with pytest.raises(SourceError, match=text):
        samples_of(data, print)


def test_sparse_files_are_refused():
    """Their content does not lie in one piece."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("a.bin")
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
        tar.addfile(info)
    with pytest.raises(SourceError, match=r"'a\.bin' is a sparse file"):
        samples_of(out.getvalue())


def test_the_rest_of_a_member_of_another_volume_is_refused():
    """Its beginning lies in another archive (`tar -M`): a sample without it would lack a part, and
    nobody would know.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo("1.jpg")
        info.type, info.size = b"M", 4
        tar.addfile(info, io.BytesIO(b"rest"))
    with pytest.raises(SourceError, match=r"'1\.jpg' continues a member of another volume"):
        samples_of(out.getvalue() + tar_of({"2.jpg": b"a"}))


@pytest.mark.parametrize("length", [b"99", b"999999"])
def test_what_an_extended_header_says_is_as_long_as_it_says(length):
    """A number that goes past the end of the header is damage: the size, or the name, of the next
    member is not known.
    """
    said = length + b" size=1\n"
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(said)
    data = info.tobuf(tarfile.USTAR_FORMAT) + said.ljust(512, b"\0") + tar_of({"1.jpg": b"a"})
    with pytest.raises(SourceError, match=r"an extended header .* is damaged"):
        samples_of(data)


def test_an_extended_header_without_a_value_says_nothing():
    """The member has the name of its own header then."""
    said = b"8 path=\n"
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(said)
    data = (
        info.tobuf(tarfile.USTAR_FORMAT)
        + said.ljust(512, b"\0")
        + tar_of({"1.jpg": b"a"}, tarfile.USTAR_FORMAT)
    )
    assert [sample["__key__"] for sample in samples_of(data)] == ["1"]


@pytest.mark.slow
def test_no_flipped_bit_of_a_header_is_silent():
    """Samples come as they were, or it is told that some may lack a part."""
    data = tar_of(
        {"1.jpg": b"a", "1.cls": b"b", "2.jpg": b"c", "2.cls": b"d", "3.jpg": b"e"},
        tarfile.USTAR_FORMAT,
    )
    whole = samples_of(data)
    headers = [
        at for at in range(0, data.index(b"e") + 512, 512) if data[at + 257 : at + 262] == b"ustar"
    ]
    for place in (header + byte for header in headers[1:] for byte in range(0, 512, 3)):
        bad = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
        told = []
        found = samples_of(bad, told.append)
        assert all(sample in whole for sample in found), place
        assert told or found == whole, place


def tar_with_links(*members, form=tarfile.PAX_FORMAT):
    """The bytes of a tar file of names, each with its content, or with the kind and the target of a
    link.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, content, *target in members:
            info = tarfile.TarInfo(name)
            if target:
                info.type, info.linkname = content, target[0]
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


HARD, SYMBOLIC = tarfile.LNKTYPE, tarfile.SYMTYPE
LINKED = [
    ("a/1.jpg", b"one"),
    ("a/1.cls", SYMBOLIC, "../classes/cat"),
    ("a/2.jpg", HARD, "a/1.jpg"),
    ("a/2.cls", SYMBOLIC, "./1.cls"),
    ("a/3.jpg", HARD, "a/2.jpg"),
    (f"{LONG}.jpg", SYMBOLIC, "../" * 30 + "a/1.jpg"),
    (f"{LONG}.txt", b"long"),
    ("a/4.txt", HARD, f"{LONG}.txt"),
    ("a/v1.0", SYMBOLIC, "../classes"),
    ("a/other", SYMBOLIC, "/no/part/of/a/sample"),
    ("classes/cat", b"7"),
]
FOLLOWED = [
    {"__key__": "a/1", "jpg": b"one", "cls": b"7"},
    {"__key__": "a/2", "jpg": b"one", "cls": b"7"},
    {"__key__": "a/3", "jpg": b"one"},
    {"__key__": LONG, "jpg": b"one", "txt": b"long"},
    {"__key__": "a/4", "txt": b"long"},
]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_link_has_the_content_of_the_member_that_it_leads_to(tmp_path, form):
    """Hard and symbolic links, through each other, in a source, in a stream, and in a
    conversion.
    """
    path = tmp_path / "x.tar"
    path.write_bytes(tar_with_links(*LINKED, form=form))
    with headrace.TarDataSource(path) as source:
        assert [source[key] for key in range(len(source))] == FOLLOWED
        assert source.record_bytes.min() > 0
        assert list(headrace.load(source, num_epochs=1, worker_count=1)) == FOLLOWED
    with open(path, "rb") as stream:
        assert [sample for _, sample in read_records(stream, "x.tar")] == FOLLOWED
    convert(path, tmp_path / "out")
    with headrace.ArrayRecordDataSource(tmp_path / "out") as converted:
        examples = [headrace.decode_example(converted[key]) for key in range(len(converted))]
    assert [example["__key__"].decode() for example in examples] == [
        sample["__key__"] for sample in FOLLOWED
    ]
    assert [example.get("jpg") for example in examples] == [
        sample.get("jpg") for sample in FOLLOWED
    ]


@pytest.mark.parametrize(
    ("links", "why"),
    [
        ([("b.jpg", SYMBOLIC, "nothing.jpg")], "leads to nothing, to 'nothing.jpg'"),
        ([("b.jpg", HARD, "c.jpg"), ("c.jpg", b"later")], "leads to nothing, to 'c.jpg'"),
        ([("b.jpg", SYMBOLIC, "/etc/passwd")], "leads out of the archive, to '/etc/passwd'"),
        ([("d/b.jpg", SYMBOLIC, "../../b.jpg")], "leads out of the archive, to '../b.jpg'"),
        ([("b.jpg", SYMBOLIC, "c.jpg"), ("c.jpg", SYMBOLIC, "b.jpg")], "leads in a circle"),
        ([("b.jpg", SYMBOLIC, "b.jpg")], "leads in a circle"),
    ],
)
def test_a_link_that_leads_to_no_member_is_an_error(tmp_path, links, why):
    """Out of the archive, to nothing, or in a circle; wherever the file is read."""
    path = tmp_path / "x.tar"
    path.write_bytes(tar_with_links(("a.jpg", b"a"), *links))
    for read in (
        lambda: headrace.TarDataSource(path),
        lambda: samples_of(path.read_bytes()),
        lambda: convert(path, tmp_path / "out"),
    ):
        with pytest.raises(
            HeadraceError, match=rf"{links[0][0]}' is a link to '.*', which {why}\. .*--dereference"
        ):
            read()


def test_a_link_in_a_compressed_file_is_an_error(tmp_path):
    """Its target has passed already, or comes later."""
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(tar_with_links(("a.jpg", b"a"), ("b.jpg", HARD, "a.jpg"))))
    with pytest.raises(
        HeadraceError, match=r"'b\.jpg' is a link to 'a\.jpg', which cannot be followed in a stream"
    ):
        convert(path, tmp_path / "out")
