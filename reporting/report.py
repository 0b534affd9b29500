"""Writes a page on what a loop did, which a browser shows without a network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from ..common.redaction import redacted
from ..common.units import format_bytes
from .composition import LOOKED_UP, Composition
from .files import written
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


def write_report(loop: Any, path: str | os.PathLike[str]) -> Path:
    """Write a page on what a loop did: a timeline of a few steps, time by operation, waits, and what batches are made of.

    The page is one file, and needs no network. `headrace bench PROGRAM.py --html PATH` adds a verdict, and throughput and
    memory over time. To tell what a batch is made of, the first one is made once more.

    Args:
        loop: an iterator or a device feeder of headrace, while it runs or after its end.
        path: of the file, which is replaced.

    Returns:
        The path.

    Raises:
        OutputError: the file cannot be written.
        MissingExtraError: matplotlib is not installed.

    >>> import headrace, tempfile
    >>> iterator = iter(headrace.load(range(100), batch_size=10, num_epochs=1))
    >>> _ = list(iterator)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     headrace.write_report(iterator, folder + "/report.html").read_text()[:15]
    '<!doctype html>'
    """
    return write_recording(Recording.of(loop), path)


def write_recording(recording: Recording, path: str | os.PathLike[str], verdict: str = "") -> Path:
    """Write it; see `write_report`."""
    check_matplotlib()
    return written(path, page(recording, verdict).encode())


def page(recording: Recording, verdict: str = "") -> str:
    """The page, as HTML."""
    title, _, rest = redacted(verdict).partition("\n")
    sections = "\n".join(
        f"<section><h2>{escape(name)}</h2>\n<p>{escape(text)}</p>\n<div class='wide'>{picture}</div></section>"
        for name, text, picture in _sections(recording, bool(verdict))
        if picture
    )
    return _PAGE.format(
        title=escape(title or "What the loop did"),
        loop=escape(redacted(recording.told)),
        verdict=f"<pre>{escape(rest.strip())}</pre>" if rest.strip() else "",
        sections=sections,
    )


def _sections(recording: Recording, judged: bool) -> Iterator[tuple[str, str, str]]:
    """Heading, text and content; without content it is left out."""
    shown = timeline(recording.stats, recording.fed)
    stages = recording.stats.stages if recording.stats is not None else ()
    yield "A few steps", _TIMELINE, timeline_plot(shown)
    yield (
        "Time by operation",
        "What the work of all workers together took, as far as it was timed. Parts of a mix call theirs while they are read.",
        operations_plot(stages),
    )
    yield "Waits", "What each of the last steps waited for its batch, and what your own work took.", waits_plot(shown)
    yield "Throughput", "Over the time that was recorded.", throughput_plot(recording.samples)
    yield "Batches", "What the first one is made of.", _leaves(recording.composition)
    yield "Parts of the mix", _PARTS.format(_whose(recording.composition)), parts_plot(recording)
    yield "Memory", _MEMORY, memory_plot(recording.samples)
    yield "All numbers", _WHOLE if judged else _NUMBERS, _numbers(recording, judged)


_TIMELINE = (
    "Time goes to the right. Lines lead from the end of a task to the batch that it became. Where your loop waits, look which "
    "task it waits for. Grey: tasks that are so short that not all were timed."
)
_NUMBERS = "As print(iterator.stats()) tells them."
_WHOLE = (
    "Of this loop from its first step to its last, the start of its workers included, as print(iterator.stats()) tells them. "
    "The verdict above is on the steps that it counts."
)
_MEMORY = "Of your process and of those that it started. What they share counts once."


_PARTS = "Records that were delivered, {}."


def _whose(found: Composition) -> str:
    if any(part.epoch is None for part in found.parts):
        return f"by this shard, in its last {LOOKED_UP:,} elements before batching"
    return "in all runs and by all shards"


def _leaves(found: Composition) -> str:
    if not found.leaves:
        return ""
    rows = "\n".join(
        f"<tr><td>{escape(leaf.name or 'the batch itself')}</td><td>{escape(leaf.kind)}</td><td>{escape(str(leaf.shape))}</td>"
        f"<td>{format_bytes(leaf.nbytes)}</td><td>{'' if leaf.filled is None else f'{leaf.filled:.1%} filled'}</td></tr>"
        for leaf in found.leaves
    )
    return f"<table><tr><th>leaf</th><th>dtype</th><th>shape</th><th>size</th><th></th></tr>\n{rows}</table>"


def _numbers(recording: Recording, judged: bool) -> str:
    """The table; without its own advice, where a verdict has told what to do."""
    lines = redacted(str(recording.fed if recording.fed is not None else recording.stats)).splitlines()
    kept = [line for line in lines if not (judged and line.startswith("What to do:"))]
    return f"<pre>{escape(chr(10).join(kept))}</pre>"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #222; --quiet: #555; --paper: #fff; --panel: #f6f6f6; --line: #ddd; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e4e4e4; --quiet: #aaa; --paper: #16181b; --panel: #22252a; --line: #3a3e44; }}
}}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }}
body {{ color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }}
h1 {{ font-size: 1.4rem; line-height: 1.3; }}
h2 {{ font-size: 1.1rem; margin: 2rem 0 0; }}
p {{ margin: .2rem 0 .6rem; color: var(--quiet); }}
.wide {{ overflow-x: auto; overflow-wrap: normal; }}
svg {{ width: 100%; min-width: 46rem; height: auto; }}
pre {{ overflow-x: auto; white-space: pre-wrap; overflow-wrap: normal; }}
pre {{ background: var(--panel); padding: .8rem; font-size: .8rem; line-height: 1.35; }}
table {{ border-collapse: collapse; font-size: .9rem; }}
td, th {{ text-align: left; padding: .2rem 1.2rem .2rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }}
@media (max-width: 40rem) {{
  h1 {{ font-size: 1.15rem; }}
  pre {{ font-size: .62rem; padding: .5rem; }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
<p><code>{loop}</code></p>
{verdict}
{sections}
</body>
</html>
"""
