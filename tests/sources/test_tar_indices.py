"""Tar files with indices that other programs wrote: used where they fit, left alone where they do
not.
"""

from __future__ import annotations

import io
import json
import tarfile

import pytest

from headrace import TarDataSource
from headrace.errors import SourceError
from headrace.files.opened import open_file
from headrace.formats import tar_indices
from headrace.formats.tar_indices import members_from_index
from headrace.sources.indexed import tar as tar_source

NAMES = ["a/1.jpg", "a/1.cls", "README", "a/2.jpg", "a/2.cls", "b/3.seg.png"]


def write(path, names=NAMES, form=tarfile.GNU_FORMAT):
    """A tar file; what each member holds is its name, some times over. Returns offset and size of
    members, by name.
    """
    with tarfile.open(path, "w", format=form) as file:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            content = name.encode() * (number * 40 + 1)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    with tarfile.open(path) as file:
        return {member.name: (member.offset_data, member.size) for member in file}


def write_idx(path, places):
    """An index as `wds2idx` writes it: a line of each sample."""
    samples = {}
    for name, (offset, size) in places.items():
        key, dot, extension = name.partition(".")
        if dot:
            samples.setdefault(key, []).append(f"{extension} {offset} {size} {name}")
    path.write_text("\n".join([f"v1.2 {len(samples)}", *map(" ".join, samples.values())]) + "\n")


def write_json(path, places, size="size"):
    """Offsets by name."""
    files = {name: {"offset": offset, size: length} for name, (offset, length) in places.items()}
    path.write_text(json.dumps({"filesize": 1, "files": files}))


WRITERS = {
    "idx": lambda folder, places: write_idx(folder / "x.idx", places),
    "json": lambda folder, places: write_json(folder / "x.json", places),
    "json, length": lambda folder, places: write_json(folder / "x.json", places, "length"),
}


@pytest.fixture
def no_pass(monkeypatch):
    """A pass over a file is an error."""

    def refused(*_args, **_more):
        raise AssertionError("the file was gone through")

    return lambda: monkeypatch.setattr(tar_source, "read_members", refused)


def records_of(path, index_dir):
    """All records, and the identity."""
    with TarDataSource(path, index_dir=index_dir) as source:
        return [source[number] for number in range(len(source))], source.fingerprint


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("writer", WRITERS)
def test_an_index_of_others_takes_the_place_of_a_pass(writer, form, tmp_path, no_pass):
    """Records and identity are those of the pass, so that states go on."""
    path = tmp_path / "x.tar"
    places = write(path, [*NAMES, f"c/{'é' * 120}.jpg"], form)
    expected = records_of(path, tmp_path / "own")
    assert [sample["__key__"] for sample in expected[0]][:3] == ["a/1", "a/2", "b/3"]
    no_pass()
    assert records_of(path, tmp_path / "own") == expected
    WRITERS[writer](tmp_path, places)
    assert records_of(path, tmp_path / "other") == expected


def moved(places):
    """By a block."""
    return {name: (offset + 512, size) for name, (offset, size) in places.items()}


def longer(places):
    """By a byte."""
    return {name: (offset, size + 1) for name, (offset, size) in places.items()}


def without_the_last(places):
    """As before more was appended."""
    return dict(list(places.items())[:-1])


def beyond_the_end(places):
    """One more."""
    return {**places, "c/4.jpg": (1 << 40, 5)}


def negative(places):
    """Likewise."""
    return {**places, "c/4.jpg": (-5, 5)}


@pytest.mark.parametrize("wrong", [moved, longer, without_the_last, beyond_the_end, negative])
@pytest.mark.parametrize("writer", ["idx", "json"])
def test_an_index_that_does_not_fit_is_left_alone(writer, wrong, tmp_path):
    """The file is gone through, as if there were none."""
    path = tmp_path / "x.tar"
    places = write(path)
    expected = records_of(path, tmp_path / "own")
    WRITERS[writer](tmp_path, wrong(places))
    assert records_of(path, tmp_path / "other") == expected


@pytest.mark.parametrize(
    "content",
    [
        "",
        "v1.1 2\njpg 512 7\n",
        "v1.2 9\njpg 512 7 a/1.jpg\n",
        "v1.2 1\njpg 512 7 a 1.jpg\n",
        "\0",
        "v1.2 1\njpg x 7 a.jpg\n",
    ],
)
def test_something_else_of_the_name_is_left_alone(content, tmp_path):
    """Other versions, indices that are cut off, names with spaces, bytes."""
    path = tmp_path / "x.tar"
    write(path)
    (tmp_path / "x.idx").write_text(content)
    (tmp_path / "x.json").write_text(content or '{"shardlist": []}')
    assert len(records_of(path, tmp_path / "other")[0]) == 3


def test_headers_of_members_are_looked_at(tmp_path, monkeypatch):
    """An index whose places are those of other contents of the same file is refused, whichever
    member is wrong.
    """
    monkeypatch.setattr(tar_indices, "MOST_CHECKED", 1 << 20)
    path = tmp_path / "x.tar"
    places = write(path)
    for name in places:
        if "." in name:
            offset, size = places[name]
            write_idx(tmp_path / "x.idx", {**places, name: (offset, size - 1)})
            file = open_file(str(path))
            assert members_from_index(file) is None, name
            file.close()


def test_a_shard_list_names_files_and_their_samples(tmp_path):
    """As `wids` writes it; names are beside the list."""
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts/x.tar")
    write(tmp_path / "parts/y.tar", ["z.jpg"])
    shards = [
        {"url": "parts/y.tar", "nsamples": 1, "md5sum": "…"},
        {"url": "parts/x.tar", "nsamples": 3},
    ]
    listed = tmp_path / "train.json"
    listed.write_text(
        json.dumps({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shards})
    )
    expected = records_of([tmp_path / "parts/y.tar", tmp_path / "parts/x.tar"], tmp_path / "own")
    assert records_of(listed, tmp_path / "own") == expected
    shards[1]["nsamples"] = 4
    listed.write_text(json.dumps({"shardlist": shards}))
    with pytest.raises(SourceError, match="has 3 samples, but the list of files says 4"):
        TarDataSource(listed)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"shardlist": [3]}', '{"shardlist": [{"url": 3}]}', '{"text": "a line"}']
)
def test_another_file_of_json_is_an_error_that_says_so(content, tmp_path):
    """JSON lines, for example."""
    (tmp_path / "train.json").write_text(content)
    with pytest.raises(SourceError, match="list of tar files"):
        TarDataSource(tmp_path / "train.json")
