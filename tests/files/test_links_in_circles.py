"""Links to folders above themselves. In: patterns with `**`. Out: each file once for each way that
goes in no circle.
"""

from __future__ import annotations

import glob
import os
import random

import pytest
from support.conversions import convert

import headrace
from headrace.files.paths import find_files


def lines(path, text):
    """A file of one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"x": "{text}"}}\n')


def test_a_link_in_a_circle_is_not_followed_again(tmp_path):
    """One line came 41 times, as often as the system follows a link."""
    lines(tmp_path / "in" / "a.jsonl", "a")
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in")
    assert find_files(tmp_path / "in" / "**" / "*.jsonl", ()) == [str(tmp_path / "in" / "a.jsonl")]
    assert len(headrace.JsonLinesDataSource(tmp_path / "in" / "**" / "*.jsonl")) == 1
    assert convert(tmp_path / "in" / "**" / "*.jsonl", tmp_path / "out").records == 1


def test_links_to_one_another_come_to_an_end(tmp_path):
    """Two folders with two links each have 2^40 ways."""
    for here, there in (("one", "two"), ("two", "one")):
        lines(tmp_path / here / "a.jsonl", here)
        for name in ("x", "y"):
            (tmp_path / here / name).symlink_to(tmp_path / there)
    (tmp_path / "one" / "up").symlink_to(tmp_path)
    found = [
        os.path.relpath(path, tmp_path)
        for path in find_files(tmp_path / "one" / "**" / "*.jsonl", ())
    ]
    assert found == ["one/a.jsonl", "one/up/two/a.jsonl", "one/x/a.jsonl", "one/y/a.jsonl"]


def test_a_link_to_another_folder_is_followed(tmp_path):
    """As ever; by two links twice."""
    lines(tmp_path / "data" / "deep" / "a.jsonl", "a")
    (tmp_path / "in").mkdir()
    for name in ("x", "y"):
        (tmp_path / "in" / name).symlink_to(tmp_path / "data")
    found = [
        os.path.relpath(path, tmp_path / "in")
        for path in find_files(tmp_path / "in" / "**" / "*.jsonl", ())
    ]
    assert found == ["x/deep/a.jsonl", "y/deep/a.jsonl"]


PATTERNS = [
    *(
        "**",
        "**/*",
        "**/*.a",
        "*/**",
        "*/**/*.a",
        "**/x/*.a",
        "**/x/**/*.a",
        "x/**",
        "x/**/*.[ab]",
        "**/.h/*",
        ".h/**",
        "**/.*",
    ),
    *(
        "**/x",
        "**/",
        "*/x/**/?.a",
        "none/**",
        "**/none",
        "**/**/*.a",
        "***",
        "x**/*.a",
        "**.a",
        "**/y/../*.a",
        "./**/*.a",
        "x//**/*.a",
    ),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_without_circles_find_what_python_finds(pattern, tmp_path, monkeypatch):
    """Relative and absolute; hidden names, folders, and links that lead nowhere."""
    rng = random.Random(0)
    for _ in range(60):
        folders = [rng.choice(("x", "y", ".h")) for _ in range(rng.randrange(4))]
        place = tmp_path.joinpath(*folders)
        place.mkdir(parents=True, exist_ok=True)
        (place / rng.choice(("1.a", "2.b", ".3.a", "[4].a"))).touch()
    (tmp_path / "x" / "nowhere.a").symlink_to(tmp_path / "missing")
    monkeypatch.chdir(tmp_path)
    for whole in (pattern, f"{tmp_path}/{pattern}"):
        expected = sorted(
            {path for path in glob.glob(whole, recursive=True) if os.path.isfile(path)}
        )
        try:
            found = find_files(whole, ())
        except headrace.errors.SourceNotFoundError:
            found = []
        assert [os.path.normpath(path) for path in found] == [
            os.path.normpath(path) for path in expected
        ]
        assert found == expected or "//" in whole


def test_images_behind_links_to_one_another_come_once_for_each_way(tmp_path):
    """Each folder of a class has a link to the other one."""
    for here, there in (("one", "two"), ("two", "one")):
        (tmp_path / here).mkdir()
        (tmp_path / here / "a.png").write_bytes(b"image")
        (tmp_path / here / "link").symlink_to(tmp_path / there)
    source = headrace.ImageFolderDataSource(tmp_path)
    assert [
        os.path.relpath(source.file_place(key).file, tmp_path) for key in range(len(source))
    ] == ["one/a.png", "one/link/a.png", "two/a.png", "two/link/a.png"]


@pytest.mark.parametrize("to", ["array_record", "parquet"])
def test_no_shard_is_named_as_what_a_conversion_keeps_for_itself(to, tmp_path):
    """What stood in `.conversion` of the target was removed at its end, and counted as if it were
    there.
    """
    lines(tmp_path / "in" / "a.jsonl", "a")
    lines(tmp_path / "in" / ".conversion" / "b.jsonl", "b")
    both = [tmp_path / "in" / "a.jsonl", tmp_path / "in" / ".conversion" / "b.jsonl"]
    with pytest.raises(
        headrace.errors.ConversionError,
        match=(
            r"would be converted to.*a name that the conversion itself uses\. Pass a number of "
            r"files to write, such as"
        ),
    ):
        convert(both, tmp_path / "out", to)
    assert not (tmp_path / "out").exists()
    assert convert(both, tmp_path / "out", to, shards=1).records == 2
    assert convert(both[1:], tmp_path / "two", to).records == 1
