"""Judge a pipeline: compare what must come out, by arithmetic, with what came out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from resuming.cases import DRAW, MAPPED, Event, Pipeline, fan, passes


@dataclass
class Page:
    """The elements that one host got in one leg, and how it ended.

    Attributes:
        steps: the elements of each batch, after which a state was saved.
        end: `end` of the stream, `stop` as asked for, `error`, `killed`, `no worker` that could be
            killed, or `hang`: longer than the limit.
        opened: whether the loader was made and took the state that it was given.
        message: of the error.
    """

    steps: list[list[int]] = field(default_factory=list)
    end: str = "killed"
    opened: bool = False
    message: str = ""


Ledger = list[list[Page]]
"""For each leg that ran, a page for each host."""


@dataclass(frozen=True)
class Verdict:
    """A verdict.

    Attributes:
        word: `ok`, `restart` (right, once the program is run again), `refused` (an error before the
            first batch, and nothing lost), `order`, `doubled`, `lost`, `uneven`, `hang`, `error`,
            or `grey`: not claimed.
        detail: for people.
    """

    word: str
    detail: str = ""


def expected(pipeline: Pipeline) -> Counter[int]:
    """Each element that must come, and how often."""
    found = [number for source in pipeline.records() for file in source for number in file]
    found *= pipeline.number("repeat", 1)
    for stage in pipeline.stages:
        if stage in ("map", "map_batch"):
            found = [number + MAPPED for number in found]
        elif stage == "filter":
            found = [number for number in found if passes(number)]
        elif stage == "flat_map":
            found = [copy for number in found for copy in fan(number)]
        elif stage == "document":
            found = [number + 1 for number in found for _ in range(1 + number % 7)]
    return Counter(found)


def judge(pipeline: Pipeline, event: Event, ledger: Ledger, reference: Ledger) -> Verdict:
    """The worst that was found.

    Args:
        pipeline: as it was when the event's first leg began.
        event: what happened.
        ledger: what came.
        reference: what came of the same loader when nothing happened.
    """
    if any(page.end != "end" for leg in reference for page in leg):
        first = reference[0][0]
        return Verdict("error", f"without the event: {first.end}: {first.message}")
    if stopped := _stopped(event, ledger):
        return stopped
    last, quiet = ledger[-1], _elements(reference)
    again = _elements(ledger[-1:]) * pipeline.number("repeat", 1)
    if event.epoch and _is_epoch(pipeline, again, quiet):
        ledger = ledger[:-1]
    counts = [str(len(page.steps)) for page in last]
    if event.alike and len({*counts}) > 1:
        made = f"hosts made {' and '.join(counts)} batches"
        return Verdict("uneven", f"{made}: a step in which all take part would wait for ever")
    came = _elements(ledger)
    if wrong := _counted(pipeline, event, came, quiet):
        return wrong
    if event.ordered and not any(leg.more for leg in event.legs):
        for place, (one, two) in enumerate(zip(came, quiet)):
            if one != two:
                return Verdict("order", f"element {place} is {one}, without the event it is {two}")
    errors = [page.message for leg in ledger[:-1] for page in leg if page.end == "error"]
    return Verdict("restart", errors[0]) if errors else Verdict("ok")


def _is_epoch(pipeline: Pipeline, came: list[int], reference: list[int]) -> bool:
    """Whether these are a whole run; random numbers, and records dropped at the end, may differ."""
    came, reference = [number % DRAW for number in came], [number % DRAW for number in reference]
    if pipeline.has("drop"):
        return len(came) == len(reference) and Counter(came) <= expected(pipeline)
    return Counter(came) == Counter(reference)


def _stopped(event: Event, ledger: Ledger) -> Verdict | None:
    """A leg that did not end as it should."""
    for number, leg in enumerate(ledger):
        for host, page in enumerate(leg):
            after = f"leg {number + 1}, host {host}, after {len(page.steps)} batches"
            where = f"{after}: {page.message}"
            if page.end == "no worker":
                none = "no worker process of its own has read a record: there is none to kill"
                return Verdict("grey", none)
            if page.end == "hang":
                return Verdict("hang", where)
            if page.end == "error" and not page.opened and number:
                return Verdict("refused", page.message)
            if page.end == "error" and not (event.errors and number < len(event.legs) - 1):
                return Verdict("error", where)
    return None


def _counted(
    pipeline: Pipeline, event: Event, came: list[int], reference: list[int]
) -> Verdict | None:
    """Elements that are missing, or come too often."""
    batch = max(leg.batch for leg in event.legs)
    hosts = max(leg.hosts for leg in event.legs)
    spare = (batch * hosts - 1) if pipeline.has("drop") or event.alike else 0
    seen, must = Counter(number % DRAW for number in came), expected(pipeline)
    most = expected(pipeline.with_file(max(leg.more for leg in event.legs)))
    # loaders end a mix in their own ways: with the first source, or with the last
    if len(pipeline.shards) > 1:
        must &= Counter(number % DRAW for number in reference)
    if pipeline.has("pack"):
        spare *= pipeline.number("pack")
    doubled, lost = seen - most, must - seen
    told = [_listed(doubled, "too often")] if doubled else []
    told += [_listed(lost, "missing")] if lost.total() > spare else []
    if told and Counter(number % DRAW for number in reference) == seen:
        told.append("the same without the event")
    return Verdict("doubled" if doubled else "lost", "; ".join(told)) if told else None


def _listed(found: Counter[int], what: str) -> str:
    some = ", ".join(map(str, sorted(found)[:8]))
    return f"{found.total()} elements {what}: {some}{' …' if len(found) > 8 else ''}"


def _elements(ledger: Ledger) -> list[int]:
    return [element for leg in ledger for page in leg for step in page.steps for element in step]
