"""The layout of the state that a checkpoint stores.

In: a place in the stream, the identity of the pipeline (a description of its sources, orders and
operations) and its history. Out: JSON of a few hundred bytes, and back. For a mix, the JSON has
about 200 bytes more for each part; a mix of 100 parts or more is compressed, and has about 50 bytes
for each part.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from ...common.messages import a_kind_of, short_repr, shorten_lines
from ...common.validation import count_in_state
from ...errors import CheckpointError
from ...samplers.history import SavedOrder, Values
from ..plan.cursor import Cursor, Leftover
from ..plan.history import NO_HISTORY, History, Mark
from ..plan.identity import Identity, json_text
from ..plan.lineage import ReshardHistory
from .kept import Kept, damage

VERSION = 1

CHECKSUM = "checksum"
"""Key of the checksum in a state."""

MAX_STEP = 1 << 62
"""Upper limit of steps. No stream gets so far, so a larger step means that a state is damaged."""


@dataclass(frozen=True, slots=True)
class LoaderState:
    """The values of a state, from which a run continues.

    Attributes:
        cursor: place in the stream after the element that the user received last. Prefetched
            elements do not count.
        step: number of the next element: the number of elements received or skipped by `skip()`, in
            all runs.
        shard: `(shard_index, shard_count)` of the run. The cursor's positions are local to this
            shard.
        identity: values that identify the sources, orders, joins and operations of the pipeline.
        history: changes of the orders since the first run, and how far shards of earlier runs had
            read.
        kept: other values that the run keeps, such as skipped steps.
        marks: facts about orders that a later program cannot compute again, by the index of the
            leaf (source with its sampler).
        version: version of the layout of states.
    """

    cursor: Cursor
    step: int
    shard: tuple[int, int]
    identity: Identity
    history: History = NO_HISTORY
    kept: Kept = field(default_factory=Kept)
    marks: Mapping[int, Mark] = field(default_factory=dict)
    version: int = VERSION

    def order(self, leaf: int = 0) -> SavedOrder:
        """Return the saved order of a leaf (source with its sampler), given the leaf's index."""
        mark = self.marks.get(leaf, Mark())
        return SavedOrder(self.identity.orders[leaf], self.history.orders[leaf], mark.ended)

    def with_order(self, leaf: int, order: SavedOrder, source: Values | None = None) -> LoaderState:
        """Return this state with another order (and another source, if given) for one leaf.

        A leaf is a source with its sampler.

        Args:
            leaf: index of the leaf.
            order: the new order.
            source: fingerprint of the new source; None to keep the source.
        """
        marks = self.marks
        if order.ended != self.order(leaf).ended:
            marks = {**marks, leaf: marks.get(leaf, Mark())._replace(ended=order.ended)}
        identity = self.identity.with_order(leaf, order.described, source)
        return replace(
            self,
            identity=identity,
            history=self.history.with_leaf(leaf, order.changes),
            marks=marks,
        )

    def to_json(self) -> bytes:
        """Return the state as UTF-8 JSON with sorted keys, without empty entries.

        Equal states give equal bytes. This method is fast enough to be called at every step,
        because the text of values that do not change during a run is cached.
        """
        cursor, shard = self.cursor, self.shard
        positions, skips = (
            ",".join(map(str, numbers)) for numbers in (cursor.positions, cursor.skips)
        )
        notes = f",{json_text(cursor.notes)}" if cursor.notes else ""
        marks = {str(leaf): mark.values for leaf, mark in self.marks.items()}
        entries = {
            "cursor": f"[[{positions}],[{skips}]{notes}]",
            "history": self.history.json,
            "identity": self.identity.json,
            "marks": json_text(marks) if marks else "",
            "shard": f"[{shard[0]},{shard[1]}]",
            "step": str(self.step),
            "unfinished": json_text(list(map(_rest_values, cursor.unfinished)))
            if cursor.unfinished
            else "",
            "version": str(self.version),
            **self.kept.entries,
        }
        content = ",".join([f'"{name}":{entries[name]}' for name in NAMES if entries.get(name)])
        return sealed(f"{{{content}}}".encode())

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values, with its checksum."""
        values: dict[str, Any] = json.loads(self.to_json())
        return values

    @classmethod
    def from_json(cls, data: bytes | str, like: LoaderState | None = None) -> LoaderState:
        """Read a state from the bytes that `to_json` returned.

        Args:
            data: the bytes.
            like: another state of the same run, which is only used to save time: if both states
                have the same history, the history is not parsed a second time.

        Raises:
            CheckpointError: the bytes are not a state of a version that can be read, or are
                damaged.
        """
        if isinstance(data, dict):
            _refuse_grains(data)
            raise CheckpointError(
                f"the state is a dict, {short_repr(data)}. Pass the bytes that get_state() "
                "returned, or json.dumps(state).encode()."
            )
        try:
            values = json.loads(data)
        except (ValueError, TypeError, RecursionError) as error:
            raise CheckpointError(
                f"the state is not JSON ({error}): {short_repr(data)}. It must be the bytes that "
                "get_state() returned."
            ) from None
        return cls.from_dict(values, like)

    @classmethod
    def from_dict(cls, values: Any, like: LoaderState | None = None) -> LoaderState:
        """Read a state from the values that `to_dict` returned.

        Args:
            values: the values.
            like: another state of the same run, which is only used to save time: if both states
                have the same history, the history is not parsed a second time.

        Raises:
            CheckpointError: the values are not a state of a version that can be read, or are
                damaged.
        """
        _refuse_grains(values)
        if isinstance(values, dict) and values.get("version", VERSION) != VERSION:
            raise CheckpointError(
                f"the state has version {short_repr(values['version'])}, but this headrace reads "
                f"version {VERSION}. Install the version of headrace that wrote it."
            )
        content = unsealed(values) if isinstance(values, dict) and CHECKSUM in values else {}
        if not NEEDED <= content.keys() <= set(NAMES):
            raise CheckpointError(
                f"{short_repr(values)} is not a state of a headrace loader. It must be what "
                "get_state() returned."
            )
        with damage(cursor=content["cursor"], shard=content["shard"], step=content["step"]):
            cursor, shard = _cursor(content["cursor"]), _shard(content["shard"])
            step = count_in_state(content["step"], above=MAX_STEP)
        with damage(identity=content["identity"]):
            identity = Identity.read(content["identity"])
        leaves, told = len(cursor.positions), content.get("history", {})
        with damage(cursor=content["cursor"], history=told):
            same = like is not None and json_text(told) == (like.history.json or "{}")
            history = like.history if like is not None and same else History.read(told, leaves)
            if not len(history.shards) == leaves == len(identity.orders):
                raise ValueError
        cursor = cursor.with_unfinished(*_rests(content.get("unfinished", [])))
        with damage(marks=content.get("marks")):
            marks = {
                int(leaf): Mark.read(mark) for leaf, mark in dict(content.get("marks", {})).items()
            }
            if not marks.keys() <= {*range(leaves)}:
                raise ValueError
        return cls(cursor, step, shard, identity, history, Kept.read(content), marks)


def parsed(states: Any) -> list[LoaderState]:
    """Parse the states of all shards of a run.

    Args:
        states: a list of results of `to_json`.

    Raises:
        CheckpointError: `states` is not a list, or an item is not a state.
    """
    if not isinstance(states, (list, tuple)):
        raise CheckpointError(
            f"set_states takes a list of states, but was given {a_kind_of(states)}. Pass a list "
            "with the states of all shards."
        )
    read: list[LoaderState] = []
    for number, state in enumerate(states):
        try:
            read.append(LoaderState.from_json(state, like=read[0] if read else None))
        except CheckpointError as error:
            raise CheckpointError(
                f"states[{number}] of {len(states)}: {shorten_lines(error, 400)}"
            ) from None
    return read


NEEDED = {"cursor", "identity", "shard", "step", "version"}
NAMES = sorted(
    {each.name for kind in (LoaderState, Kept) for each in dataclasses.fields(kind)} - {"kept"}
    | {"unfinished"}
)


def sealed(content: bytes) -> bytes:
    """Return the JSON text of a state with a checksum added at its beginning.

    The checksum detects damage, but does not protect against intended changes.

    Args:
        content: the state as JSON with sorted keys and without spaces.

    >>> sealed(b'{"step":3}')
    b'{"checksum":"232fcf13","step":3}'
    """
    return b'{"%b":"%08x",%b' % (CHECKSUM.encode(), crc32(content), content[1:])


def unsealed(values: dict[str, Any]) -> dict[str, Any]:
    """Check the checksum of a state, and return the state's values without the checksum.

    Raises:
        CheckpointError: the state is damaged: its checksum is not the one of the values.
    """
    content = {name: value for name, value in values.items() if name != CHECKSUM}
    try:
        found = f"{crc32(json_text(content).encode()):08x}"
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(
            "the state is damaged: some of its values are not JSON values "
            f"({short_repr(str(error))}). Restore another checkpoint."
        ) from None
    if values[CHECKSUM] != found:
        raise CheckpointError(
            f"the state is damaged: its checksum is {short_repr(values[CHECKSUM])}, but its "
            f"content has {found}. Pass what get_state() returned, unchanged, or restore another "
            "checkpoint."
        )
    return content


def _refuse_grains(values: Any) -> None:
    """Raise a CheckpointError if values are a state of Grain, another library.

    The message says how to continue from Grain's state.
    """
    if not isinstance(values, dict):
        return
    if "last_seen_indices" in values:
        raise CheckpointError(
            "this is a state of a Grain DataLoader. Restore it with "
            "headrace.checkpoint.from_grain_state(state, loader)."
        )
    if "next_index" in values:
        taken = short_repr(values["next_index"], 24)
        remedy = (
            "begin without it"
            if taken == "0"
            else f"skip these elements with loader.skip([(0, {taken})])"
        )
        raise CheckpointError(
            f"this is a state of a Grain dataset after {taken} elements. If the loader has the "
            f"same order, {remedy}."
        )


def _list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise TypeError
    return values


def _counts(values: Any) -> tuple[int, ...]:
    return tuple(map(count_in_state, _list(values)))


def _cursor(values: Any) -> Cursor:
    """Read a cursor (place in the stream) from JSON values.

    Args:
        values: a list of two or three lists: positions of the leaves (sources with their samplers);
            numbers of delivered rows of the stages (groups of operations that run in one task); and
            the progress of the joins, if the pipeline joins streams.

    Raises:
        TypeError, ValueError: the values are damaged.
    """
    positions, skips, notes = [*values, []] if len(_list(values)) == 2 else values
    # numbers; those of a source that can only be run through end with its state
    for note in _list(notes):
        _counts([value for value in _list(note) if not isinstance(value, str)])
    cursor = Cursor(_counts(positions), _counts(skips), tuple(map(tuple, notes)))
    if not 0 < len(cursor.positions) <= len(cursor.skips):
        raise ValueError
    return cursor


def _shard(values: Any) -> tuple[int, int]:
    index, count = _counts(values)
    if index >= count:
        raise ValueError
    return index, count


def _place_values(cursor: Cursor) -> list[Any]:
    """Return a cursor (place in the stream) as plain JSON values.

    The values have no entry for the progress of joins if the pipeline joins no streams.
    """
    return [cursor.positions, cursor.skips, *([cursor.notes] if cursor.notes else [])]


def _rest_values(rest: Leftover) -> list[Any]:
    """Return a leftover (unfinished work of an earlier shard) as a list of plain JSON values."""
    lineages = [lineage.values for lineage in rest.lineages]
    within = list(map(_rest_values, rest.cursor.unfinished))
    more = [within, rest.mix] if rest.mix else [within] if within else []
    return [list(rest.shard), _place_values(rest.cursor), lineages, rest.ends, rest.stage, *more]


def _rests(values: Any) -> tuple[Leftover, ...]:
    with damage(unfinished=values):
        return tuple(map(_rest, _list(values)))


def _rest(values: Any) -> Leftover:
    with damage(unfinished=values):
        shard, place, lineages, ends, stage, *more = _list(values)
        parts: list[Any] = [[], ""]
        parts[: len(more)] = more
        within, mix = parts
        if not isinstance(mix, str):
            raise TypeError
        cursor = _cursor(place).with_unfinished(*_rests(within))
        read = tuple(map(ReshardHistory.from_values, _list(lineages)))
        totals = tuple(None if end is None else count_in_state(end) for end in _list(ends))
        if len(totals) != len(read):
            raise ValueError
        return Leftover(_shard(shard), cursor, read, totals, count_in_state(stage), mix)
