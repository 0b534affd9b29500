"""Sources that grow: keys stay, new files come at the end, and what was written down is held
against the files.
"""

import os
import pickle

import numpy as np
import pytest
from support.conversions import convert
from support.growing_files import FORMATS, write_array_record, write_parquet, write_tokens

from headrace import (
    ArrayRecordDataSource,
    JsonLinesDataSource,
    ParquetDataSource,
    TokenSource,
    TokenWriter,
)
from headrace.errors import SourceError


class Folder:
    """A folder of one file of a format."""

    def __init__(self, path, kind):
        self.path, self.kind = path, kind
        self.write("b", 1, 2)

    def file(self, name):
        return self.path / f"{name}.{self.kind.suffix}"

    def write(self, name, *numbers):
        self.kind.write(self.file(name), *numbers)

    def open(self, **options):
        return self.kind.source(self.path, **(options or {"growing": True}))

    def numbers(self, source):
        return self.kind.numbers(source)


@pytest.fixture(params=FORMATS)
def folder(tmp_path, request):
    """A folder of one file of each format that may grow."""
    return Folder(tmp_path, FORMATS[request.param])


def test_new_files_come_after_the_old_ones_whatever_their_names(folder):
    """A file that sorts before the others has keys after theirs; of two in one look the names
    decide.
    """
    source = folder.open()
    folder.write("z", 5)
    folder.write("a", 3, 4)
    assert (source.newest_generation(), source.generation, len(source)) == (1, 0, 2)
    assert folder.numbers(source.at_generation(1)) == [1, 2, 3, 4, 5]
    assert folder.numbers(folder.open()) == [1, 2, 3, 4, 5]
    assert [source.generation_records(number) for number in (0, 1)] == [2, 5]
    assert folder.numbers(source) == [1, 2]


def test_a_generation_can_be_pinned_and_looks_no_more(folder):
    """`generation=0` reads the files of the first generation, for ever."""
    source = folder.open()
    folder.write("a", 3)
    source.newest_generation()
    pinned = folder.open(generation=0)
    folder.write("c", 4)
    assert folder.numbers(pinned) == [1, 2]
    assert (pinned.growing, pinned.newest_generation(), pinned.complete) == (False, 0, True)
    with pytest.raises(
        SourceError,
        match=(
            r"generation=7: the last generation that is recorded in .* is 1\. Pass a number from 0 "
            r"to 1, or restore"
        ),
    ):
        folder.open(generation=7)


def test_a_list_of_files_that_becomes_longer_is_a_later_generation(folder):
    """Of the same source: it begins with the same file. The list cannot become shorter."""
    folder.write("a", 3)
    files = [folder.file("b"), folder.file("a")]
    assert folder.kind.source(files[:1], growing=True).generation == 0
    source = folder.kind.source(files, growing=True)
    assert (source.generation, folder.numbers(source)) == (1, [1, 2, 3])
    with pytest.raises(SourceError, match=r"not among the paths of the source, but generation 1"):
        folder.kind.source(files[:1], growing=True)


def test_a_pickled_source_reads_the_generation_that_it_was_made_for(folder):
    """Workers read it, and know none of what is only for looking."""
    source = folder.open()
    copied = pickle.dumps(source)
    folder.write("a", 3)
    source.newest_generation()
    again = pickle.loads(copied)
    assert (folder.numbers(again), again.generation, again.newest_generation()) == ([1, 2], 0, 1)
    assert folder.numbers(again.at_generation(1)) == [1, 2, 3]


def test_a_generation_has_the_fingerprint_of_a_plain_source_on_its_files(folder):
    """So states of sources that did not grow go on."""
    plain = folder.open(growing=False)
    source = folder.open()
    assert source.fingerprint == plain.fingerprint
    for generation in range(1, 8):
        folder.write(f"c{generation}", generation)
        source.newest_generation()
        later = source.at_generation(generation)
        assert later.fingerprint == folder.open(growing=False).fingerprint
        source = later if generation % 3 else source
    assert source.at_generation(0).fingerprint == plain.fingerprint


def test_files_that_are_being_written_are_left_for_a_later_look(tmp_path):
    """Temporary names, and lines that somebody wrote to a moment ago."""
    (tmp_path / "a.jsonl").write_text("1\n")
    os.utime(tmp_path / "a.jsonl", (1, 1))
    source = JsonLinesDataSource(tmp_path / "*.jsonl*", growing=True)
    (tmp_path / "b.jsonl").write_text("2\n")
    (tmp_path / "c.jsonl.tmp").write_text("3\n")
    os.utime(tmp_path / "c.jsonl.tmp", (1, 1))
    assert source.newest_generation() == 0
    os.utime(tmp_path / "b.jsonl", (1, 1))
    assert source.at_generation(source.newest_generation())[1] == 2


@pytest.mark.parametrize("name", ["array_record", "parquet"])
def test_a_file_whose_end_is_missing_is_left_for_a_later_look(tmp_path, name, caplog):
    """Their ends tell that they are whole: no wait is needed, and a warning says which file is left
    out.
    """
    folder = Folder(tmp_path, FORMATS[name])
    source = folder.open()
    folder.write("c", *range(10, 20))
    whole = folder.file("c").read_bytes()
    folder.file("c").write_bytes(whole[: len(whole) // 2])
    assert source.newest_generation() == 0
    assert f"c.{folder.kind.suffix} is left out for now" in caplog.text
    folder.file("c").write_bytes(whole)
    assert folder.numbers(source.at_generation(source.newest_generation())) == [
        1,
        2,
        *range(10, 20),
    ]


@pytest.mark.parametrize("how", ["shrank", "is not there any more", "was replaced"])
def test_a_file_that_was_changed_is_an_error_that_names_it(folder, how):
    """At the next look, and for a source that is made anew."""
    source = folder.open()
    for path in folder.path.glob("b.*"):
        path.unlink()
    if how == "shrank":
        folder.write("b", 1)
    elif how == "was replaced":
        folder.write("b", 1, 7, *range(50))
    else:
        folder.write("a", 1, 2)
    for look in (source.newest_generation, folder.open):
        with pytest.raises(
            SourceError, match=rf"b\.{folder.kind.suffix} ({how}).*generation 0.*remove"
        ) as raised:
            look()
        assert len(str(raised.value)) < 500


def test_files_that_do_not_fit_the_first_one_are_left_out(tmp_path, caplog):
    """Other columns, another dtype: the run goes on, and a warning names the file. One without rows
    may have any columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"other": pa.array([], pa.int8())}), tmp_path / "a.parquet")
    write_parquet(tmp_path / "b.parquet", 1)
    source = ParquetDataSource(tmp_path, growing=True)
    pq.write_table(pa.table({"other": [1]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"other": pa.array([], pa.int8())}), tmp_path / "d.parquet")
    write_parquet(tmp_path / "e.parquet", 2)
    assert [record["number"] for record in source.at_generation(source.newest_generation())] == [
        1,
        2,
    ]
    assert "c.parquet is left out for now" in caplog.text
    assert "d.parquet" not in caplog.text


@pytest.mark.parametrize("name", ["tokens", "array_record", "parquet"])
@pytest.mark.parametrize("unfit", ["damaged", "of another type"])
def test_a_source_that_is_made_again_leaves_out_the_files_that_the_running_one_left_out(
    tmp_path, name, unfit, caplog
):
    """However old they are: the program can begin again. Before the first generation they are an
    error.
    """
    folder = Folder(tmp_path, FORMATS[name])
    source = folder.open()
    _write_unfit(folder, unfit)
    folder.write("d", 3)
    assert folder.numbers(source.at_generation(source.newest_generation())) == [1, 2, 3]
    caplog.clear()
    again = folder.open()
    assert folder.numbers(again) == [1, 2, 3]
    assert (again.generation, again.newest_generation()) == (1, 1)
    assert f"c.{folder.kind.suffix} is left out for now" in caplog.text
    with pytest.raises(SourceError, match=rf"c\.{folder.kind.suffix}"):
        folder.open(growing=tmp_path / "lists")


def _write_unfit(folder, how):
    """Write an old file that is damaged, or has records of another type than the others
    (ArrayRecord has no types).
    """
    path = folder.file("c")
    if how == "damaged" or folder.kind.suffix == "array_record":
        path.write_bytes(b"damaged")
    elif folder.kind.suffix == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"other": [1]}), path)
    else:
        with TokenWriter(path, dtype=np.uint32) as writer:
            writer.extend([[1 << 20]])
    os.utime(path, (1, 1))


def test_a_source_that_grows_has_whole_files_of_one_store(tmp_path):
    """Ranges and file systems of the user's are refused, with the remedy."""
    from pyarrow import fs

    write_array_record(tmp_path / "a.array_record", 1)
    write_parquet(tmp_path / "a.parquet", 1)
    write_tokens(tmp_path / "a.npy", 1)
    with pytest.raises(ValueError, match="must have no range"):
        ArrayRecordDataSource(f"{tmp_path}/a.array_record[0:1]", growing=True)
    with pytest.raises(ValueError, match=r"growing= or generation=\. Leave filesystem= out"):
        ParquetDataSource(f"{tmp_path}/a.parquet", filesystem=fs.LocalFileSystem(), growing=True)
    with pytest.raises(ValueError, match=r"<path>\.offsets"):
        TokenSource(tmp_path / "a.npy", [0, 1], growing=True)


def test_generations_of_files_in_a_store_are_written_to_a_folder(tmp_path, monkeypatch):
    """That the user names: nothing is written elsewhere. A folder that cannot be written is
    refused, too.
    """
    monkeypatch.chdir(tmp_path)
    url = f"memory://{tmp_path.name}/out"
    convert([[1], [2], [3]], url, "tokens", shards=2)
    for growing in (True, f"{url}/generations"):
        with pytest.raises(ValueError, match="Pass the path of such a folder as growing="):
            TokenSource(url, growing=growing)
    source = TokenSource(url, growing=tmp_path / "generations")
    assert FORMATS["tokens"].numbers(source) == [1, 2, 3]
    assert (source.newest_generation(), source.complete) == (0, True)
    assert [path.name for path in tmp_path.iterdir()] == ["generations"]
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match="pass the path of another folder as growing="):
        TokenSource(url, growing=tmp_path / "file" / "within")
