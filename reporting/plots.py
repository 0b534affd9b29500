"""Draw the pictures of a report as SVG with matplotlib. Text stays text.

Unknown values are left out.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..common.lazy_exports import optional_library
from ..common.messages import shorten
from ..loader.timing.snapshot import StageStats
from .recording import Recording, Sample
from .timeline import Interval, Timeline, Track

# From the palette of Okabe and Ito, which colour-blind readers can tell apart.
COLOURS = {
    "waiting": "#d55e00",
    "own work": "#009e73",
    "task": "#56b4e9",
    "reading": "#0072b2",
    "packing": "#cc79a7",
    "transforming": "#e69f00",
    "agreeing": "#f0e442",
    "transfer": "#8c510a",
    "not timed": "#d9d9d9",
}
"""Colour of each kind of interval on a timeline."""

INK, PAPER = "#010203", "#040506"
"""Colours that are replaced, in the SVG, by the page's colours of text and background.

Those differ in dark mode.
"""

# Largest numbers of steps and threads on the timeline; further workers are left out.
STEPS, TRACKS = (8, 24)
NAME = 28  # largest number of characters of an operation's name


def check_matplotlib() -> None:
    """Check that matplotlib is installed.

    Raises:
        MissingExtraError: it is not.
    """
    optional_library("matplotlib.figure", "a report needs matplotlib", "pictures")


def _drawn(height: float, draw: Callable[[Any], None], xlabel: str, ylabel: str = "") -> str:
    """Return a plot with one pair of axes, as the text of an SVG element.

    Args:
        height: height in inches.
        draw: function that draws on the axes.
        xlabel: label of the x axis.
        ylabel: label of the y axis.
    """
    import matplotlib
    from matplotlib.figure import Figure

    own = {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
        "path.simplify": True,
        **_OF_THE_PAGE,
    }
    with matplotlib.rc_context(own), io.StringIO() as text:
        figure = Figure(figsize=(9.5, height), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        drawn = "<svg" + text.getvalue().partition("<svg")[2]
        return drawn.replace(INK, "var(--ink)").replace(PAPER, "var(--paper)")


_INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
_OF_THE_PAGE = {**dict.fromkeys(_INKED, INK), "figure.facecolor": "none", "axes.facecolor": "none"}
_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False}


def _bars(rows: Sequence[tuple[str, str, float, str]], margin: float, xlabel: str) -> str:
    """Return a bar chart as SVG; "" if all bars have length 0.

    Args:
        rows: `(name, kind, length, label)` of each bar. Its kind determines its colour.
        margin: free share of the width, for labels.
        xlabel: label of the x axis.
    """
    if not sum(length for _, _, length, _ in rows):
        return ""

    def draw(axes: Any) -> None:
        names, kinds, lengths, labels = zip(*rows)
        bars = axes.barh(range(len(rows)), lengths, 0.7, color=[COLOURS[kind] for kind in kinds])
        axes.bar_label(bars, labels)
        axes.set_yticks(range(len(rows)), names)
        axes.invert_yaxis()
        axes.margins(x=margin)

    return _drawn(0.8 + 0.3 * len(rows), draw, xlabel)


def steps_shown(shown: Timeline) -> tuple[float, float] | None:
    """Return begin and end of the time that the timeline plot shows; None if no step is known.

    It has a few consecutive steps, whose share of waiting is close to that of all steps.
    """
    waits = [span for span in shown.loop.spans if span.kind == "waiting"]
    gaps = [span.began for span in shown.loop.spans if span.kind == "not timed"]
    whole = [
        [wait for wait in waits if one <= wait.began < other]
        for one, other in pairwise([-np.inf, *gaps, np.inf])
    ]
    most = min(STEPS, max(map(len, whole)))
    windows = (
        [run[first : first + most] for run in whole for first in range(len(run) - most + 1)]
        if most
        else []
    )
    known = min(
        (track.spans[-1].ended for track in shown.tracks[1:] if track.spans), default=np.inf
    )
    windows = [
        window for window in windows if window[-1].ended <= known
    ] or windows  # later tasks were not taken yet
    usual = _share_waited(waits[1:])  # without the start
    best = min(windows, key=lambda window: abs(_share_waited(window) - usual), default=None)
    return None if best is None else (best[0].began, best[-1].ended)


def _share_waited(waits: Sequence[Interval]) -> float:
    seconds = waits[-1].ended - waits[0].began if waits else 0.0
    return sum(wait.ended - wait.began for wait in waits) / seconds if seconds > 0 else 0.0


def timeline_plot(shown: Timeline) -> str:
    """Return a plot, as SVG, of a few steps by thread; "" if no step is known.

    Lines lead from each task to the wait for its batch.
    """
    window = steps_shown(shown)
    if window is None or window[1] <= window[0]:
        return ""
    tracks = shown.tracks[:TRACKS]
    began, ended = (
        window[0] - 0.03 * (window[1] - window[0]),
        window[1] + 0.03 * (window[1] - window[0]),
    )

    def draw(axes: Any) -> None:
        kinds: dict[str, Any] = {}
        for row, track in enumerate(tracks):
            for span in (span for span in track.spans if span.ended > began and span.began < ended):
                width = 1e3 * (min(span.ended, ended) - max(span.began, began))
                left = 1e3 * (max(span.began, began) - began)
                thick = 0.4 if span.kind in ("reading", "packing") else 0.7
                bar = axes.barh(
                    row,
                    width,
                    thick,
                    left,
                    color=COLOURS[span.kind],
                    edgecolor=PAPER,
                    linewidth=0.4,
                )
                kinds.setdefault(span.kind, bar)
        for (at, row), (to, below) in _flows(tracks, began, ended):
            axes.plot(
                [1e3 * (at - began), 1e3 * (to - began)],
                [row, below],
                color=INK,
                linewidth=0.6,
                alpha=0.6,
            )
        axes.set_yticks(range(len(tracks)), [track.name for track in tracks])
        axes.set_xlim(0, 1e3 * (ended - began))
        axes.invert_yaxis()
        axes.legend(kinds.values(), kinds, ncols=len(kinds), **_ABOVE)

    return _drawn(1.2 + 0.42 * len(tracks), draw, "milliseconds")


def _flows(
    tracks: Sequence[Track], began: float, ended: float
) -> list[tuple[tuple[float, int], tuple[float, int]]]:
    """Return lines that show how batches pass through threads: `((time, row), (time, row))` each.

    Args:
        tracks: threads of the picture, one for each row.
        began: beginning of the picture's time range.
        ended: end of the time range.
    """
    places: dict[int, list[tuple[float, int]]] = {}
    for row, track in enumerate(tracks):
        for span in track.spans:
            for flow in span.flows:
                places.setdefault(flow, []).append((span.ended, row))
    lines = [line for each in places.values() for line in pairwise(sorted(each))]
    return [line for line in lines if began <= line[0][0] and line[1][0] <= ended]


def operations_plot(stages: Sequence[StageStats]) -> str:
    """Return a bar chart, as SVG, of the seconds that workers spent in each operation.

    Return "" if no time is known.
    """
    rows: list[tuple[str, str, float]] = []
    for stage in stages:
        rows += [("reading", "reading", stage.reading)] if stage.reads else []
        rows += [
            (shorten(operation.name, NAME), "task", operation.seconds)
            for operation in stage.operations
        ]
    rows.append(("between operations", "not timed", sum(stage.between for stage in stages)))
    rows.append(("packing", "packing", sum(stage.packing for stage in stages)))
    whole = sum(seconds for _, _, seconds in rows)
    told = [
        (name, kind, each, f" {each:.3f} s, {each / whole if whole else 0:.1%}")
        for name, kind, each in rows
    ]
    return _bars(told, 0.16, "seconds, of all workers together")


def parts_plot(recording: Recording) -> str:
    """Return a bar chart, as SVG, of the number of records delivered from each part of a mix.

    Return "" without a mix.
    """
    parts = recording.composition.parts
    whole = max(sum(part.records for part in parts), 1)
    rows = []
    for part in parts:
        epoch = "" if part.epoch is None else f", epoch {part.epoch}"
        label = f" {part.records:,}, {part.records / whole:.1%}{epoch}"
        rows.append((shorten(part.name, NAME), "task", part.records, label))
    return _bars(rows, 0.25, "records")


OF_THE_LOOP = "seconds since the loop began"
"""Label of the time axis of several pictures."""


def waits_plot(shown: Timeline, elapsed: float) -> str:
    """Return a plot, as SVG, of the waiting time and the own work in each of the last steps.

    Return "" for fewer than two steps.

    Args:
        shown: timeline of the loop.
        elapsed: seconds for which the loop ran.
    """
    waits = [span for span in shown.loop.spans if span.kind == "waiting"]
    own = [span for span in shown.loop.spans if span.kind == "own work"]
    if len(waits) < 2:
        return ""

    def draw(axes: Any) -> None:
        start = max(waits[-1].ended, own[-1].ended if own else 0.0) - elapsed
        for spans, kind in ((own, "own work"), (waits, "waiting")):
            at, took = (
                [span.ended - start for span in spans],
                [1e3 * (span.ended - span.began) for span in spans],
            )
            axes.plot(at, took, ".", color=COLOURS[kind], markersize=4, label=kind)
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, elapsed)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.legend(ncols=2, **_ABOVE)

    return _drawn(2.6, draw, OF_THE_LOOP, "milliseconds of a step")


def throughput_plot(samples: Sequence[Sample]) -> str:
    """Return a plot, as SVG, of steps per second and of the share of waiting, over time.

    Return "" if there are too few samples.

    At most 80 samples are drawn, because few steps lie between samples that are close together.
    """
    thinned = samples[:: max(1, len(samples) // 40)]
    pairs = [pair for pair in pairwise(thinned) if pair[1].loop.elapsed > pair[0].loop.elapsed]
    if not pairs:
        return ""
    new = [after.loop.since(before.loop) for before, after in pairs]
    at = [after.loop.elapsed for _, after in pairs]
    waits = [100 * each.waited / each.elapsed for each in new]

    def draw(axes: Any) -> None:
        rate = axes.plot(at, [each.steps / each.elapsed for each in new], color=COLOURS["reading"])
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, samples[-1].loop.elapsed)
        other = axes.twinx()
        other.spines[["top", "left"]].set_visible(False)
        waited = other.plot(at, waits, color=COLOURS["waiting"], linewidth=1)
        other.set_ylim(0, 105)
        other.set_ylabel("% waited")
        axes.legend([*rate, *waited], ["steps/s", "% waited"], ncols=2, **_ABOVE)

    return _drawn(2.6, draw, OF_THE_LOOP, "steps/s")


def memory_plot(samples: Sequence[Sample]) -> str:
    """Return a plot, as SVG, of memory over time; "" if memory is unknown."""
    if not any(sample.own_bytes for sample in samples):
        return ""

    def draw(axes: Any) -> None:
        end = samples[-1]
        at = [end.loop.elapsed - (end.at - sample.at) for sample in samples]
        own, workers, shared = (
            [nbytes / 1e6 for nbytes in each]
            for each in zip(
                *(
                    (sample.own_bytes, sample.workers_bytes, sample.loop.shared_bytes)
                    for sample in samples
                )
            )
        )
        colours = [COLOURS["own work"], COLOURS["task"]]
        axes.stackplot(at, own, workers, colors=colours, labels=["your process", "its workers"])
        if any(shared):
            axes.plot(
                at,
                shared,
                color=COLOURS["waiting"],
                linewidth=1,
                label="batches shared with workers",
            )
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, end.loop.elapsed or None)
        axes.legend(ncols=3, **_ABOVE)

    return _drawn(2.6, draw, OF_THE_LOOP, "MB")
