"""The loader of one host, which runs on that host by jax's colocated Python.

In: calls of the controlling process, whose arguments are small arrays on the host's CPU devices.
Out: arrays on the same devices. jax compiles a method once for each length of its argument, and the
results of one length must all have the same shapes. So `next` and `take` get a longer argument for
each layout and number of rows, and texts come in parts of one length.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ....errors import HostsError
from ....operations.trees import flatten, leaf_names
from ....samplers import ShardOptions
from ..hosts.repeats import Repeats
from ..hosts.template import to_text
from ..prepared import Arrangement, Prepared
from ..transfer import describe_cut, is_supported, narrower
from ..upstream import Upstream
from .texts import LAST_BYTES, as_told, described, part_of, stats_as_bytes

SKIPPED = "skipped_count"

STATE = "get_state"

QUESTIONS = (
    "passed",
    "len",
    "part_epochs",
    "part_records",
    "last_records",
    "records_at",
    STATE,
    SKIPPED,
)
"""Names of values asked of hosts: of `StreamPosition`, and one of the loader's iterator."""

END, BATCH, FAILED = range(3)
"""Kinds of an answer."""


class Share(NamedTuple):
    """The part of each batch that a host loads.

    Attributes:
        shard: index of the host's shard, and number of shards.
        parts: number of parts into which the rows that the host loads are divided.
        places: for each device of the host, the index of the part that the device holds.
        repeats: True: missing rows are rows that came before. False: they are zeros.
    """

    shard: tuple[int, int]
    parts: int
    places: tuple[int, ...]
    repeats: bool


class Answer(NamedTuple):
    """A host's answer about one step, as numbers.

    Attributes:
        kind: `END`, `BATCH` or `FAILED`.
        rows: number of rows of the batch.
        usual: number of rows to which it is filled up if rows are missing; 0 if it is not filled
            up.
        layout: number that this host gave to the layout of the batch: its structure, dtypes and
            shapes without the rows.
        at: number of batches of this host's stream so far, also of earlier runs.
        warns: 1 if the host has a warning for the user; else 0.
    """

    kind: int
    rows: int = 0
    usual: int = 0
    layout: int = -1
    at: int = 0
    warns: int = 0


class HostSide:
    """The loader of one host. Only the controlling process calls its methods, one after another.

    The argument `call` of a method is an array with three integers (see `numbers_of`).

    Args:
        make_loader: function that takes `ShardOptions`, and returns a loader or a dataset.
        share: the part of each batch that this host loads.
    """

    def __init__(self, make_loader: Callable[[ShardOptions], Any], share: Share) -> None:
        self._share = share
        self._repeats: Repeats | None = None
        # by step, until the controlling process has received the step
        self._batches: dict[int, Prepared] = {}
        self._asked = 0
        self._numbers: dict[Hashable, int] = {}  # of layouts
        self._layouts: list[Prepared] = []  # a batch without rows of each layout
        self._messages: dict[int, str] = {}  # errors and warnings, by step
        self._warned, self._text = False, b""
        # which each step tells, as an error of another host's class cannot travel
        self._failure: Exception | None = None
        try:
            self._make(make_loader)
        except Exception as error:
            self._failure = error

    def _make(self, make_loader: Callable[[ShardOptions], Any]) -> None:
        loader = make_loader(ShardOptions(*self._share.shard))
        self._iterator = iter(loader)
        self._upstream = Upstream(self._iterator, owned=True)
        self._upstream.loader("RemoteLoader")
        self._repeats = Repeats(loader) if self._share.repeats else None
        self._marks = {0: self._upstream.mark()}

    def _check_made(self) -> None:
        if self._failure is not None:
            raise HostsError(
                f"the loader of a host cannot be made: {described(self._failure)}. Correct the "
                "cause, and start again."
            )

    def restore(self, text: Any) -> Any:
        """Continue from the states of all shards, in a JSON text (given as an array of its bytes).

        Return an array with an `Answer`. Its kind is `FAILED` if a state does not fit the loader.
        """
        if self._failure is not None:
            return _on(text, _in_words(Answer(BATCH)))  # each step tells the failure
        try:
            told = json.loads(np.asarray(text).tobytes())
            states, strict = [state.encode() for state in told["states"]], told["strict"]
            if len(states) == self._share.shard[1]:
                self._iterator.set_state(states[self._share.shard[0]], strict)
            else:
                self._iterator.set_states(states, strict, told["equal_steps"])
            self._marks = {0: self._upstream.mark()}
            answer = Answer(BATCH)
        except Exception as error:
            answer = self._failed(0, error)
        return _on(text, _in_words(answer))

    def next(self, call: Any) -> Any:
        """Read the next batch, and return its leaves, and an array with an `Answer`.

        The leaves are zeros if the batch has another layout than the expected one, or more rows.

        Args:
            call: number of steps that the user has received, number of the expected layout (-1:
                unknown, so no leaves are returned), and number of rows after filling up.
        """
        taken, layout, rows = numbers_of(call)
        if self._failure is not None:
            self._messages.clear()
            return [], _on(call, _in_words(self._failed(taken, self._failure)))
        for former in (self._marks, self._batches, self._messages):
            for step in [step for step in former if step < taken]:
                del former[step]
        step, self._asked = self._asked, self._asked + 1
        answer = self._read(step, self._next)
        mark = self._marks[step + 1] = self._upstream.mark()
        if answer.kind == BATCH:
            answer = answer._replace(usual=self._upstream.usual_rows(mark, answer.rows, False))
        answer = answer._replace(at=int(mark.step))
        return self._placed(call, step, layout, rows), _on(call, _in_words(answer))

    def _next(self) -> Any:
        try:
            return self._upstream.read()
        except StopIteration:
            return None

    def take(self, call: Any) -> Any:
        """Return the leaves of a batch that was read; `call` has step, layout and row count."""
        return self._placed(call, *numbers_of(call))

    def again(self, call: Any) -> Any:
        """Read batch `call[1]` after the stream's end, for step `call[0]`; return an `Answer`."""
        step, number, _ = numbers_of(call)
        assert self._repeats is not None
        repeats = self._repeats
        return _on(call, _in_words(self._read(step, lambda: repeats.batch(number))))

    def _read(self, step: int, read: Callable[[], Any]) -> Answer:
        try:
            batch = read()
            if batch is None:
                return Answer(END)
            prepared = as_prepared(batch)
            self._batches[step] = prepared
            return Answer(
                BATCH,
                prepared.arrangement.rows,
                0,
                self._layout_of(prepared),
                warns=self._warns(step, prepared),
            )
        except Exception as error:
            return self._failed(step, error)

    def _failed(self, step: int, error: Exception) -> Answer:
        self._messages[step] = described(error)
        return Answer(FAILED)

    def _warns(self, step: int, prepared: Prepared) -> int:
        """Return 1 if this batch is the first with an integer too large for devices, else 0."""
        if self._warned or not prepared.arrangement.cut:
            return 0
        text = describe_cut(prepared.leaves, prepared.arrangement)
        if text is not None:
            self._warned, self._messages[step] = True, text
        return int(text is not None)

    def _layout_of(self, prepared: Prepared) -> int:
        known = prepared.arrangement
        number = self._numbers.setdefault((known.structure, known.described), len(self._numbers))
        if number == len(self._layouts):
            self._layouts.append(as_prepared(prepared.template()))
        return number

    def _placed(self, call: Any, step: int, layout: int, rows: int) -> list[Any]:
        """Return the leaves of a batch, filled up; each has the parts for this host's devices.

        If the batch has another layout than `layout`, or more rows than `rows`, all leaves are
        zeros. If `layout` is negative (unknown), return an empty list.
        """
        if layout < 0:
            return []
        prepared = self._batches.get(step)
        if (
            prepared is None
            or self._layout_of(prepared) != layout
            or prepared.arrangement.rows > rows
        ):
            prepared = self._layouts[layout]
        return [
            _divided(call, self._in_parts(leaf))
            for leaf in prepared.filled(rows, self._share.repeats)
        ]

    def _in_parts(self, leaf: Any) -> Any:
        """Return the rows of a leaf that this host's devices hold, one device after another."""
        parts, places = self._share.parts, self._share.places
        if places == tuple(range(parts)):
            return leaf
        pieces = leaf.reshape(parts, len(leaf) // parts, *leaf.shape[1:])
        return np.concatenate([pieces[place] for place in places])

    def message(self, call: Any) -> Any:
        """Return the first bytes of the error or warning at step `call[0]` (0 after `restore`)."""
        return self._begin_text(call, self._messages[numbers_of(call)[0]])

    def layout(self, call: Any) -> Any:
        """Return the first bytes of a text for a batch without rows of the layout `call[0]`."""
        return self._begin_text(call, to_text(self._layouts[numbers_of(call)[0]].template()))

    def stats(self, call: Any) -> Any:
        """Return the first bytes of the loader's statistics; `named_stats` converts all bytes.

        There are no bytes if the loader could not be made.
        """
        return self._begin(
            call, stats_as_bytes(self._iterator.stats()) if self._failure is None else b""
        )

    def tell(self, call: Any) -> Any:
        """Answer a question about the position after some batches.

        Return the first bytes of the answer. `part` returns the others; `told` converts all bytes.

        Args:
            call: number of batches, index of the question in `QUESTIONS`, and its argument (-1:
                none).
        """
        taken, question, argument = numbers_of(call)
        try:
            self._check_made()
            mark = self._here(taken)
            found = (
                self._iterator.skipped_count
                if QUESTIONS[question] == SKIPPED
                else getattr(mark, QUESTIONS[question])
            )
            answer = found(*([argument] if argument >= 0 else [])) if callable(found) else found
            return self._begin(call, pickle.dumps((answer, None)))
        except Exception as error:
            return self._begin(call, as_told(error))

    def change(self, content: Any) -> Any:
        """Change this host's run from a step on; return the first bytes of an answer for `told`.

        Args:
            content: pickle of the number of batches that were received, and the last three
                arguments of `Upstream.change`.
        """
        try:
            self._check_made()
            taken, wanted, at_step, ahead = pickle.loads(np.asarray(content).tobytes())
            self._upstream.change(self._here(taken), wanted, at_step, ahead)
            return self._begin(content, pickle.dumps((None, None)))
        except Exception as error:
            return self._begin(content, as_told(error))

    def _here(self, taken: int) -> Any:
        """Return the position after `taken` batches, with changes that the user made to the run."""
        mark = self._marks[min(taken, max(self._marks))]
        if not self._upstream.changes:
            return mark
        from ...state.live.changes import at_changes

        return at_changes(mark, self._upstream.changes)

    def _begin_text(self, call: Any, text: str) -> Any:
        return self._begin(call, text.encode())

    def _begin(self, call: Any, content: bytes) -> Any:
        self._text = content
        return _on(call, part_of(self._text, 0))

    def part(self, call: Any) -> Any:
        """Return more bytes, from byte `call[0]` on, of the text that another method has begun."""
        return _on(call, part_of(self._text, numbers_of(call)[0]))

    def end(self, call: Any) -> Any:
        """Close the loader; return its statistics as bytes, or zeros if it could not be made."""
        if self._failure is not None:
            return _on(call, np.zeros(LAST_BYTES, np.uint8))
        if self._repeats is not None:
            self._repeats.close()
        self._iterator.close()
        return _on(call, part_of(stats_as_bytes(self._iterator.stats()), 0, LAST_BYTES))


def as_prepared(batch: Any) -> Prepared:
    """Split a batch into its leaves, and add facts about the leaves.

    Raises:
        HostsError: a leaf is not an array of numbers with rows, or the leaves have different
            numbers of rows.
    """
    leaves, structure = flatten(batch)
    arrays = [np.asarray(leaf) for leaf in leaves]
    rows = {array.shape[0] if array.ndim and is_supported(array.dtype) else -1 for array in arrays}
    if len(rows) != 1 or -1 in rows:
        raise HostsError(
            "a batch for a RemoteLoader must be made of arrays of numbers with one row for each "
            "record. Remove other leaves in a map, and end the loader with a Batch."
        )
    kinds = [(array.shape, array.dtype) for array in arrays]
    going = list(range(len(arrays)))
    cut = [
        (number, narrow)
        for number in going
        if (narrow := narrower(arrays[number].dtype)) is not None
    ]
    names = leaf_names(structure)
    known = Arrangement(structure, kinds, names, going, [], 0, frozenset(going), rows.pop(), 1, cut)
    return Prepared(arrays, known)


def numbers_of(call: Any) -> tuple[int, int, int]:
    """Return the first three integers of `call`, an array that the controlling process sent.

    Each method of the host that gets a call says what the integers mean.
    """
    first, second, third = np.asarray(call)[:3].tolist()
    return first, second, third


def _in_words(answer: Answer) -> Any:
    return np.array(answer, np.int64).view(np.int32)  # jax has no integers of 64 bits


def answer_of(array: Any) -> Answer:
    """Convert an array that a host has sent back to the host's `Answer`."""
    return Answer(*np.asarray(array).view(np.int64).tolist())


def _on(call: Any, value: Any) -> Any:
    return jax.device_put(value, NamedSharding(call.sharding.mesh, PartitionSpec()))


def _divided(call: Any, value: Any) -> Any:
    return jax.device_put(value, NamedSharding(call.sharding.mesh, PartitionSpec("device")))


def on_host(cpus: Sequence[Any], value: Any) -> Any:
    """Put a value on all CPU devices of a host, as an argument for the loader on this host."""
    mesh = jax.sharding.Mesh(np.array(cpus), ("device",))
    return jax.device_put(value, NamedSharding(mesh, PartitionSpec()))
