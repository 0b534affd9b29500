"""A page on what a loop did: what is on it, and that a browser shows it without a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import headrace
from headrace import Batch, DataLoader, MapDataset, MixSampler, Pack, load
from headrace.errors import OutputError
from headrace.loader.timing.snapshot import Snapshot
from headrace.reporting.files import written
from headrace.reporting.plots import COLOURS, steps_shown
from headrace.reporting.recording import MOST, Recorder, Recording, Sample, Watched
from headrace.reporting.report import page
from headrace.reporting.timeline import Interval, Timeline, Track
from headrace.tools.command_line import main

pytest.importorskip("matplotlib")

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)

ALONE = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1000,1400",
]
"""The browser asks nobody for anything."""


def _slow(element):
    time.sleep(5e-3)
    return element


class _Page(HTMLParser):
    """Elements in order, and whether all that was opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def _recorded(loader):
    with Recorder() as recorder, iter(loader) as loop:
        for _ in loop:
            pass
        found, samples = recorder.longest()
        assert found is loop
        return page(Recording.of(loop, samples), "One <sentence> first.\nA table")


def test_a_page_has_every_picture_and_needs_nothing_else():
    """Timeline, operations, waits, throughput, batches and memory; nothing is loaded, and text of
    the user's is text.
    """

    def named_script(element):
        return {"<script>alert(1)</script>": _slow(element)}

    text = _recorded(
        load(np.arange(80), transformations=[named_script], batch_size=2, num_epochs=1)
    )
    parsed = _Page(text)
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == [
        "A few steps",
        "Time by operation",
        "Waits",
        "Throughput",
        "Batches",
        "Memory",
    ]
    assert parsed.open == []
    assert sum(tag == "svg" for tag, _ in parsed.tags) == 5
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in parsed.tags}
    assert all(
        value.startswith("#")
        for _, found in parsed.tags
        for name, value in found.items()
        if name.endswith("href")
    )
    assert "One <sentence> first." in parsed.text
    assert "named_script" in parsed.text
    assert "<script>alert(1)</script>" in parsed.text
    assert "your own work" in parsed.text


@pytest.mark.parametrize("begins", [1, 2, 1001])
def test_samples_are_equally_far_apart_however_long_a_loop_is(begins):
    """Each time there are too many, every second one is dropped, and later ones come at the
    distance of those that stay.
    """
    watched, ticks = Watched(None), range(begins, begins + 10_000)
    for tick in filter(watched.is_due, ticks):
        watched.add(tick, Sample(tick, Snapshot(0, 0.0, 0.0), 0, 0))
        assert len(watched.samples) <= MOST
    assert len(watched.samples) > MOST / 2
    assert [sample.at for sample in watched.samples] == [tick for tick in ticks if tick % 32 == 0]


@pytest.mark.slow
def test_a_page_has_no_colour_that_only_suits_light_paper():
    """Text, axes and backgrounds are the page's own, which has others for dark mode; bars keep
    colours that both suit.
    """
    text = _recorded(load(np.arange(80), transformations=[_slow], batch_size=2, num_epochs=1))
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert pictures
    known = {*COLOURS.values(), "none"}
    for picture in pictures:
        drawn = set(re.findall(r"(?:fill|stroke): (#\w+|none|var\(--\w+\))", picture))
        assert drawn - known <= {"var(--ink)", "var(--paper)"}
        assert "var(--ink)" in drawn
        assert len(re.findall(r"<text ", picture)) == len(
            re.findall(r"<text [^>]*fill: var\(--ink\)", picture)
        )
    assert "prefers-color-scheme: dark" in text


def test_the_steps_that_are_shown_wait_as_much_as_all_do():
    """And not the first one, which waits for workers to start, nor those of which some tasks were
    not taken yet.
    """
    waits = [Interval("waiting", "wait", 0.0, 90.0)]
    for step in range(40):  # every fourth waits for half of it
        began = 100.0 + 10 * step
        waits.append(Interval("waiting", "wait", began, began + (5.0 if step % 4 == 3 else 0.0)))
    worker = Track("worker 0", (Interval("task", "read", 0.0, 400.0),))
    began, ended = steps_shown(Timeline((Track("your loop", tuple(waits)), worker), ()))
    inside = [wait for wait in waits if began <= wait.began and wait.ended <= ended]
    assert len(inside) == 8
    assert sum(wait.ended > wait.began for wait in inside) == 2
    assert 100 <= began < ended <= 400
    assert steps_shown(Timeline((Track("your loop", ()),), ())) is None


@pytest.mark.slow
def test_of_mixes_and_packs_it_tells_what_batches_are_made_of():
    """Records of each part, and how much of the rows is filled."""
    parts = {
        "web": [{"tokens": np.ones(4, np.int32)}] * 6,
        "books": [{"tokens": np.ones(2, np.int32)}] * 6,
    }
    sampler = MixSampler(parts, weights={"web": 0.5, "books": 0.5})
    operations = [Pack(8, window=4), Batch(1)]
    text = _recorded(DataLoader(data_source=parts, sampler=sampler, operations=operations))
    assert "Parts of the mix" in text
    assert re.search(r"6, 50.0%, epoch 0", text)
    assert re.search(r"segment_ids.*int32.*% filled", text)


@pytest.mark.slow
def test_a_mix_below_a_pack_is_told_by_its_parts_too():
    """`mix(…).pack(…)`: each document counts once, by the name of its part; leaves stand under
    their plain names.
    """
    parts = {
        "code": MapDataset.source([{"tokens": np.ones(12, np.int32)}] * 6),
        "prose": MapDataset.source([{"tokens": np.ones(2, np.int32)}] * 18),
    }
    rows = MapDataset.mix(parts, {"code": 0.25, "prose": 0.75}).pack(8, window=24)
    text = _recorded(rows.to_iter_dataset().batch(2))
    assert "Parts of the mix" in text
    assert re.search(r">\s*6, 25.0%<", text)
    assert re.search(r">\s*18, 75.0%<", text)
    assert re.findall(r"<tr><td>(.*?)</td>", text) == [
        "tokens",
        "tokens_positions",
        "tokens_segment_ids",
    ]


@pytest.mark.slow
def test_leaves_of_any_tree_have_plain_names():
    """Keys, places and fields, with dots between them; a batch that is one array is called so."""

    class Pair(NamedTuple):
        image: np.ndarray
        label: int

    def nested(number):
        return {"a": (np.zeros(2), Pair(np.zeros(3), number))}

    text = _recorded(load(range(8), transformations=[nested], batch_size=2, num_epochs=1))
    assert re.findall(r"<tr><td>(.*?)</td>", text) == ["a.0", "a.1.image", "a.1.label"]
    assert re.findall(r"<tr><td>(.*?)</td>", _recorded(load(range(8), num_epochs=1))) == [
        "the batch itself"
    ]


@pytest.mark.long
def test_a_page_of_a_feeder_shows_its_threads(tmp_path):
    """And of a loop that has not begun there is a page, too."""
    jax = pytest.importorskip("jax")
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with iter(
        load(np.arange(12), transformations=[_slow], batch_size=2, num_epochs=1).to_device(sharding)
    ) as feeder:
        assert (
            "A few steps" not in headrace.write_report(feeder, tmp_path / "before.html").read_text()
        )
        assert sum(1 for _ in feeder) == 6
        text = headrace.write_report(feeder, tmp_path / "after.html").read_text()
    assert "feeder: sends" in text
    assert "transfer" in text


PROGRAM = """
import time
import headrace

def slow(record):
    time.sleep(2e-3)
    return record

loader = headrace.load(range(1000), transformations=[slow], batch_size=4)
open("it_ran", "w").close()
"""


def test_bench_writes_both_and_tells_where(tmp_path, monkeypatch, capsys):
    """Of the loop that it measured, with its verdict as the title."""
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    arguments = [
        "bench",
        "program.py:loader",
        "--steps",
        "12",
        "--html",
        "report.html",
        "--timeline",
        "run.json",
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("Written: report.html\nWritten: run.json\n")
    assert Path("run.json").stat().st_size > 1000
    sentence = printed.partition("\n")[0]
    assert f"<h1>{sentence}</h1>" in Path("report.html").read_text()


def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path, monkeypatch, capsys
):
    """One clear error, and the program was not run."""
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    for option in ("--html", "--timeline"):
        assert main(["bench", "program.py:loader", option, "nowhere/file"]) == 2
        assert (
            "nowhere/file cannot be written: No such file or directory. Name a file"
            in capsys.readouterr().err
        )
    with pytest.raises(OutputError):
        headrace.write_report(iter(load(range(3))), tmp_path)
    assert not Path("it_ran").exists()


@pytest.mark.long
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_a_browser_shows_the_page(tmp_path):
    """Chromium finds all headings and pictures in it, and draws more than white."""
    text = _recorded(load(np.arange(200), transformations=[_slow], batch_size=2, num_epochs=1))
    report, picture = tmp_path / "report.html", tmp_path / "report.png"
    report.write_text(text)
    own = [BROWSER, *ALONE, f"--user-data-dir={tmp_path / 'profile'}"]
    quiet = {"capture_output": True, "timeout": 120, "check": True}
    shown = subprocess.run([*own, "--dump-dom", report.as_uri()], text=True, **quiet).stdout
    assert re.findall(r"<h2>(.*?)</h2>", shown) == re.findall(r"<h2>(.*?)</h2>", text)
    assert shown.count("</svg>") == text.count("</svg>") == 5
    for dark in (False, True):
        mode = ["--blink-settings=preferredColorScheme=0"] if dark else []
        subprocess.run([*own, *mode, f"--screenshot={picture}", report.as_uri()], **quiet)
        image = pytest.importorskip("PIL.Image").open(picture).convert("RGB")
        assert image.size == (1000, 1400)
        colours = image.getcolors(1 << 24)
        assert len(colours) > 100
        assert max(colours)[1] == ((0x16, 0x18, 0x1B) if dark else (255, 255, 255))


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """Where writing fails in the middle, what was there before stays, and nothing is left beside
    it.
    """
    place = tmp_path / "report.html"
    place.write_text("before")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headrace.files.streams.os.fsync", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        written(place, b"x" * 10**6)
    monkeypatch.undo()
    assert (place.read_text(), [path.name for path in tmp_path.iterdir()]) == (
        "before",
        ["report.html"],
    )
    written(place, b"after")
    assert (place.read_text(), [path.name for path in tmp_path.iterdir()]) == (
        "after",
        ["report.html"],
    )


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path):
    """Somebody who may write to the folder could have a report overwrite any file; devices are
    refused.
    """
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "report.html").symlink_to(tmp_path / "precious")
    written(tmp_path / "report.html", b"page")
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "report.html").is_symlink()
    assert (tmp_path / "report.html").read_text() == "page"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="a device or a pipe"):
        written(tmp_path / "pipe", b"page")


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    """As in the paths of sources."""
    monkeypatch.setenv("HOME", str(tmp_path))
    written("~/report.html", b"page")
    assert (tmp_path / "report.html").read_text() == "page"
