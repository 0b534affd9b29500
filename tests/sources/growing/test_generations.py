"""Sources that grow: keys stay, new files come at the end, and what was written down is held against the files."""

import os
import pickle

import numpy as np
import pytest

from headrace import JsonLinesDataSource, TokenSource, TokenWriter
from headrace.errors import SourceError


def write(path, *tokens):
    """A file of documents of one token."""
    with TokenWriter(path, dtype=np.uint16) as writer:
        writer.extend([[token] for token in tokens])


def tokens_of(source):
    """The tokens of all documents, in their order."""
    return [int(record["tokens"][0]) for record in source.__getitems__(range(len(source)))]


@pytest.fixture
def folder(tmp_path):
    """A folder of one file."""
    write(tmp_path / "b.npy", 1, 2)
    return tmp_path


def test_new_files_come_after_the_old_ones_whatever_their_names(folder):
    """A file that sorts before the others has keys after theirs; of two in one look the names decide."""
    source = TokenSource(folder, growing=True)
    write(folder / "z.npy", 5)
    write(folder / "a.npy", 3, 4)
    assert (source.newest_generation(), source.generation, len(source)) == (1, 0, 2)
    assert tokens_of(source.at_generation(1)) == [1, 2, 3, 4, 5]
    assert tokens_of(TokenSource(folder, growing=True)) == [1, 2, 3, 4, 5]
    assert [source.generation_records(number) for number in (0, 1)] == [2, 5]


def test_a_generation_can_be_pinned_and_looks_no_more(folder):
    """`generation=0` reads the files of the first generation, for ever."""
    source = TokenSource(folder, growing=True)
    write(folder / "a.npy", 3)
    source.newest_generation()
    pinned = TokenSource(folder, generation=0)
    write(folder / "c.npy", 4)
    assert tokens_of(pinned) == [1, 2]
    assert (pinned.growing, pinned.newest_generation(), pinned.complete) == (False, 0, True)
    with pytest.raises(SourceError, match=r"generation=7: there are 0 to 1 in .*pass one of these"):
        TokenSource(folder, generation=7)


def test_a_pickled_source_reads_the_generation_that_it_was_made_for(folder):
    """Workers read it, and know none of what is only for looking."""
    source = TokenSource(folder, growing=True)
    copied = pickle.dumps(source)
    write(folder / "a.npy", 3)
    source.newest_generation()
    again = pickle.loads(copied)
    assert (tokens_of(again), again.generation, again.newest_generation()) == ([1, 2], 0, 1)
    assert tokens_of(again.at_generation(1)) == [1, 2, 3]


def test_a_generation_has_the_fingerprint_of_a_plain_source_on_its_files(folder):
    """So states of sources that did not grow go on."""
    plain = TokenSource(folder)
    source = TokenSource(folder, growing=True)
    assert source.fingerprint == plain.fingerprint
    write(folder / "c.npy", 3)
    source.newest_generation()
    assert source.at_generation(1).fingerprint == TokenSource(folder).fingerprint


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


@pytest.mark.parametrize("how", ["shrank", "is not there any more", "was replaced"])
def test_a_file_that_was_changed_is_an_error_that_names_it(folder, how):
    """At the next look, and for a source that is made anew."""
    source = TokenSource(folder, growing=True)
    for name in ("b.npy", "b.npy.offsets"):
        (folder / name).unlink()
    if how == "shrank":
        write(folder / "b.npy", 1)
    elif how == "was replaced":
        write(folder / "b.npy", 1, 7)
    else:
        write(folder / "a.npy", 1, 2)
    for look in (source.newest_generation, lambda: TokenSource(folder, growing=True)):
        with pytest.raises(SourceError, match=rf"b\.npy ({how}).*generation 0.*remove") as raised:
            look()
        assert len(str(raised.value)) < 500
