"""The values that a run keeps in its states besides its place in the stream, as one object.

They are the steps that the run skips, and values that the user has added (`set_extra_state`).

In: values that the loader or the user sets. Out: their entries in the JSON of a state, and back;
one object for a new number of shards, made of the objects of all earlier shards; and texts that
show the values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from ...common.messages import a_kind_of, short_repr, shorten
from ...common.validation import count_in_state
from ...errors import CheckpointError
from ..plan.identity import json_text
from ..plan.steps.skipped import NONE_SKIPPED, Ranges, SkippedSteps, union

# Chosen: a feeder's state is taken at each step.
MOST_EXTRA = 10_000
"""Largest number of characters of the user's own values, as JSON."""


@dataclass(frozen=True)
class Kept:
    """The values that a run keeps in its states. They do not depend on the place in the stream.

    A field is also the name of an entry in a state.

    Attributes:
        skipped: steps that the run skips because the user asked for it.
        extra: values that the user has added, as JSON text; "" for none.
    """

    skipped: SkippedSteps = NONE_SKIPPED
    extra: str = ""

    @cached_property
    def entries(self) -> dict[str, str]:
        """JSON texts for the entries of a state, by name of the entry; "" for an empty value."""
        skipped = json_text([self.skipped.steps, self.skipped.absorbed]) if self.skipped else ""
        return {"skipped": skipped, "extra": self.extra}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Kept:
        """Read the values that a run keeps in its states from the parsed JSON of a state.

        Such values are, for example, the skipped steps. Other entries of the state are ignored.

        Args:
            content: the entries of the state, by name.

        Raises:
            CheckpointError: an entry is damaged.
        """
        with damage(skipped=content.get("skipped")):
            steps, absorbed = map(_ranges, content.get("skipped", [[], []]))
        with damage(extra=content.get("extra")):
            extra = _extra_text(content.get("extra"))
        return cls(SkippedSteps(steps, absorbed), extra)

    @classmethod
    def of_shards(cls, shards: Sequence[Kept]) -> Kept:
        """Return the values with which a run resumes on another number of shards.

        Steps that any of the earlier shards skipped are skipped. The other values are those of the
        first object in `shards`.

        Args:
            shards: values of all earlier shards. The first must be those of the shard with the
                largest step.
        """
        steps = union(chain.from_iterable(each.skipped.steps for each in shards))
        return cls(SkippedSteps(steps, shards[0].skipped.absorbed), shards[0].extra)

    @property
    def told(self) -> dict[str, tuple[str, Any]]:
        """Values for tools to show: a dict from a label to a pair (text, plain JSON values)."""
        steps = ", ".join(f"{start:,} to {stop - 1:,}" for start, stop in self.skipped.steps)
        return {
            "left out": (
                f"steps {steps}" if steps else "nothing",
                list(map(list, self.skipped.steps)),
            ),
            "extra state": (shorten(self.extra) or "nothing", self.extra_values),
        }

    @property
    def extra_values(self) -> Any:
        """A copy of the values that the user has added; None if there are none."""
        return json.loads(self.extra or "null")


class Keeper:
    """Holder of the current values that a run keeps in its states.

    An iterator and all positions taken from it share one `Keeper`. So if the user sets a new value,
    the states of earlier positions have it, too: for example, the position after a batch that a
    feeder has read ahead.

    Attributes:
        kept: the values.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def set_extra(self, values: Any) -> None:
        """Replace the values that the user has added, as `set_extra_state` of an iterator does.

        Raises:
            TypeError: the values are not a dict of plain JSON values.
            ValueError: the values are too long.
        """
        self.kept = replace(self.kept, extra=_extra_text(values))


class ExtraState:
    """Base class of iterators: the user can add values to their states."""

    def here(self) -> Any:
        """Return an object that describes the position after the last element the user received."""
        raise NotImplementedError

    def get_extra_state(self) -> Any:
        """Return a copy of the values that `set_extra_state` stored; None if there are none.

        The values were stored in this run, or in the run whose state was restored.

        Raises:
            TypeError: the iterator is a feeder that reads from something other than a `DataLoader`.
        """
        return self.here().get_extra_state()

    def set_extra_state(self, values: Any) -> None:
        """Store your values, such as a token count, in the state from the last element received on.

        All later states contain the values, until you set others. This also holds for a device
        feeder that has read ahead. The values change nothing in the stream. `set_state` restores
        them. If `set_states` resumes on another number of shards, it restores the values of the
        shard with the largest step.

        Args:
            values: a dict of plain JSON values: dicts with texts as keys, lists, texts, finite
                numbers, True, False or None. As JSON text, they may have at most 10,000 characters;
                a character outside ASCII counts as six. None removes the values.

        Raises:
            TypeError: `values` is not a dict, or contains something else than plain JSON values,
                such as arrays; or the iterator is a feeder that reads from something other than a
                `DataLoader`.
            ValueError: the values have more than 10,000 characters.

        >>> import headrace
        >>> loader = headrace.load(range(6), batch_size=2)
        >>> iterator = iter(loader)
        >>> _ = next(iterator)
        >>> iterator.set_extra_state({"tokens": 512, "tokenizer": "v2"})
        >>> again = iter(loader)
        >>> again.set_state(iterator.get_state())
        >>> again.get_extra_state()
        {'tokenizer': 'v2', 'tokens': 512}
        """
        self.here().set_extra_state(values)


def _extra_text(values: Any) -> str:
    """Return the values that the user has added, checked, as JSON text; "" for None.

    Raises:
        TypeError: the values are not a dict, or parsing the JSON text would not give equal values.
        ValueError: the text is too long.
    """
    if values is None:
        return ""
    if not isinstance(values, Mapping):
        raise TypeError(
            f"the extra state, {short_repr(values)}, is {a_kind_of(values)}, not a dict. Pass a "
            'dict of plain values, such as {"tokens": 512}; or None to remove the values.'
        )
    try:
        json.dumps(values, allow_nan=False)
        text = json_text(values)
        same = json.loads(text) == values
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise TypeError(
            f"the extra state, {short_repr(values)}, has values that JSON does not give back. Pass "
            "a dict of plain values: dicts with texts as keys, lists, texts, finite numbers, True, "
            "False and None."
        )
    if len(text) > MOST_EXTRA:
        raise ValueError(
            f"the extra state has {len(text):,} characters as JSON, but at most {MOST_EXTRA:,} are "
            "possible. Save larger values beside the state."
        )
    return text


@contextmanager
def damage(**parts: Any) -> Iterator[None]:
    """Return a context in which a TypeError or ValueError becomes a CheckpointError.

    The error says that the state is damaged, and names the entries in `parts`.

    Args:
        **parts: names and values of the entries that are read inside the context.
    """
    try:
        yield
    except CheckpointError:
        raise
    except (TypeError, ValueError):
        entries = ", ".join(f"{name}={short_repr(value)}" for name, value in parts.items())
        raise CheckpointError(
            f"the state is damaged: {entries}. Restore another checkpoint."
        ) from None


def _ranges(values: Any) -> Ranges:
    ranges = tuple((count_in_state(start), count_in_state(stop)) for start, stop in values)
    edges = [edge for pair in ranges for edge in pair]
    if sorted(set(edges)) != edges:
        raise ValueError
    return ranges
