"""Write an HTML page about a loop, which a browser can show without a network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ..common.redaction import redacted
from ..common.units import format_bytes
from .composition import LOOKED_UP, Composition
from .files import written
from .hosts import HostWatch
from .plots import (
    check_matplotlib,
    memory_plot,
    operations_plot,
    parts_plot,
    throughput_plot,
    timeline_plot,
    waits_plot,
)
from .recording import Recording
from .timeline import timeline


def write_report(
    loop: Any, path: str | os.PathLike[str], *, hosts: HostWatch | None = None
) -> Path:
    """Write an HTML page about a loop.

    It has a timeline of a few steps, time by operation, waits, and the composition of batches.

    The page is one file and needs no network. `headrace bench PROGRAM.py --html PATH` adds a
    verdict, and throughput and memory over time. To find its composition, the first batch is made
    again.

    Args:
        loop: an iterator or a device feeder of headrace, during or after its run.
        path: path of the file. An existing file is replaced.
        hosts: result of `headrace.watch_hosts`: the page then names the slowest host. None
            (default): only this process.

    Returns:
        The path.

    Raises:
        OutputError: the file cannot be written.
        MissingExtraError: matplotlib is not installed.
        TypeError: `loop` is not a loop of headrace.

    >>> import headrace, tempfile
    >>> iterator = iter(headrace.load(range(100), batch_size=10, num_epochs=1))
    >>> _ = list(iterator)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     headrace.write_report(iterator, folder + "/report.html").read_text()[:15]
    '<!doctype html>'
    """
    return write_recording(
        Recording.of(loop), path, about_hosts="" if hosts is None else str(hosts.stats())
    )


def write_recording(
    recording: Recording, path: str | os.PathLike[str], verdict: str = "", about_hosts: str = ""
) -> Path:
    """Write a recording of a loop as an HTML page, and return the path of the file.

    See `write_report`.

    Args:
        recording: the recording.
        path: path of the file.
        verdict: text about what limits the loop, which is put at the top; "" for none.
        about_hosts: text about all hosts; "" for none.
    """
    check_matplotlib()
    return written(path, page(recording, verdict, about_hosts).encode())


def page(recording: Recording, verdict: str = "", about_hosts: str = "") -> str:
    """Return an HTML page about a recording of a loop, with a verdict and a text about hosts.

    The verdict is at the top; "" stands for no verdict, or no text.
    """
    title, _, rest = redacted(verdict).partition("\n")
    said, _, table = rest.strip().partition("\n\n")
    sections = "\n".join(
        f"<section><h2>{escape(name)}</h2>\n<p>{escape(text)}</p>\n<div "
        f"class='wide'>{picture}</div></section>"
        for name, text, picture in (*_of_hosts(about_hosts), *_sections(recording, bool(verdict)))
        if picture
    )
    return Template(Path(__file__).with_name("report.html").read_text("utf-8")).substitute(
        title=escape(title or "What the loop did"),
        loop=escape(redacted(recording.summary)),
        verdict=f"<p>{escape(said)}</p>\n<pre>{escape(table)}</pre>" if rest.strip() else "",
        sections=sections,
    )


def _of_hosts(about: str) -> Iterator[tuple[str, str, str]]:
    said, _, table = redacted(about).partition("\n")
    yield "Hosts", said, f"<pre>{escape(table)}</pre>" if table else ""


def _sections(recording: Recording, judged: bool) -> Iterator[tuple[str, str, str]]:
    """Yield `(heading, text, content)` for each section of the page.

    The content is HTML; if it is "", there is no section.

    Args:
        recording: the recording.
        judged: True if the page has a verdict, whose table replaces the section with all numbers.
    """
    shown, stats, found = (
        timeline(recording.stats, recording.fed),
        recording.stats,
        recording.composition,
    )
    yield "A few steps", _TIMELINE, timeline_plot(shown)
    yield (
        "Time by operation",
        _OPERATIONS,
        operations_plot(stats.stages if stats is not None else ()),
    )
    yield (
        "Waits",
        "What each of the last steps waited for its batch, and what your own work took.",
        waits_plot(shown, stats.elapsed if stats is not None else 0.0),
    )
    yield "Throughput", "Over the time that was recorded.", throughput_plot(recording.samples)
    yield "Batches", "What the first one is made of.", _leaves(found)
    last = f"by this shard, in its last {LOOKED_UP:,} elements before batching"
    whose = (
        last if any(part.epoch is None for part in found.parts) else "in all runs and by all shards"
    )
    yield "Parts of the mix", f"Records that were delivered, {whose}.", parts_plot(recording)
    yield "Memory", _MEMORY, memory_plot(recording.samples)
    if not judged:  # the verdict has a table, of the steps that it counts
        numbers = redacted(str(recording.fed if recording.fed is not None else stats))
        yield "All numbers", _NUMBERS, f"<pre>{escape(numbers)}</pre>"


_TIMELINE = (
    "Time goes to the right. Lines lead from the end of a task to the batch that it became. Where "
    "your loop waits, look which task it waits for. Grey: tasks that are so short that not all "
    "were timed."
)
_OPERATIONS = (
    "What the work of all workers together took, as far as it was timed. Parts of a mix call "
    "theirs while they are read."
)
_NUMBERS = "As print(iterator.stats()) tells them."
_MEMORY = "Of your process and of those that it started. What they share counts once."


def _leaves(found: Composition) -> str:
    if not found.leaves:
        return ""
    rows = "\n".join(
        f"<tr><td>{escape(leaf.name or 'the batch itself')}</td><td>{escape(leaf.kind)}</td>"
        f"<td>{escape(str(leaf.shape))}</td><td>{format_bytes(leaf.nbytes)}</td>"
        f"<td>{'' if leaf.filled is None else f'{leaf.filled:.1%} filled'}</td></tr>"
        for leaf in found.leaves
    )
    return (
        "<table><tr><th>leaf</th><th>dtype</th><th>shape</th><th>size</th><th></th></tr>\n"
        f"{rows}</table>"
    )
