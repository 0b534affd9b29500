"""Growing sources whose folders are moved together."""

from __future__ import annotations

import pytest
from support.growing_files import FORMATS

from headrace import JsonLinesDataSource

write = FORMATS["json_lines"].write


@pytest.mark.parametrize(
    "named", [("a", "b"), ("a/*.jsonl", "b/*.jsonl")], ids=["folders", "globs"]
)
def test_generations_of_several_folders_are_found_where_the_folders_were_moved(tmp_path, named):
    """They are recorded in the first folder, by the places of the others relative to it."""
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in "ab":
        (before / folder).mkdir(parents=True)
        write(before / folder / "0.jsonl", *map(ord, folder))
    first = JsonLinesDataSource([str(before / name) for name in named], growing=True)
    assert [first[0], first[1]] == [97, 98]
    assert first.facts.generations.generation_folder.startswith(str(before / "a"))
    write(before / "b" / "1.jsonl", 99)
    before.rename(after)
    paths = [str(after / name) for name in named]
    assert len(JsonLinesDataSource(paths, generation=0)) == 2
    again = JsonLinesDataSource(paths, growing=True)
    assert (len(again), again.generation) == (3, 1)
    assert not (after / "b" / ".headrace-generations").exists()
