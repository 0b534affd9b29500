"""The values that a run keeps in its states besides its place in the stream.

Other files pass them on as one object.

In: values that the loader or the user sets. Out: their entries in the JSON of a state, and back;
the values of all shards as one; and the values in words.
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
    """The values that a run keeps. They do not depend on the place in the stream.

    A field is also the name of an entry in a state. Each method has a line for each field.

    Attributes:
        skipped: steps that the run skips because the user asked for it.
        extra: the user's own values, as JSON text; "" for none.
    """

    skipped: SkippedSteps = NONE_SKIPPED
    extra: str = ""

    @cached_property
    def entries(self) -> dict[str, str]:
        """The entries of a state, JSON texts by name; "" for an empty value."""
        skipped = json_text([self.skipped.steps, self.skipped.absorbed]) if self.skipped else ""
        return {"skipped": skipped, "extra": self.extra}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Kept:
        """Read the values from the parsed entries of a state, which may have others, too.

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
        """Return the values with which shards of another number resume.

        Args:
            shards: values of all shards; those of the shard with the largest step come first.
        """
        steps = union(chain.from_iterable(each.skipped.steps for each in shards))
        return cls(SkippedSteps(steps, shards[0].skipped.absorbed), shards[0].extra)

    @property
    def told(self) -> dict[str, tuple[str, Any]]:
        """For tools, each value in words and as plain JSON values, by a label."""
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
        """A copy of the user's own values; None for none."""
        return json.loads(self.extra or "null")


class Keeper:
    """Holder of the values that a run keeps now.

    An iterator and its positions share it. So a new value is also in the state of a position that
    was taken before, such as that of a batch which a feeder has read ahead.

    Attributes:
        kept: the values.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def set_extra(self, values: Any) -> None:
        """Keep other values of the user, as `set_extra_state` of an iterator does."""
        self.kept = replace(self.kept, extra=_extra_text(values))


class ExtraState:
    """Base of iterators whose states can contain values of the user."""

    def here(self) -> Any:
        """Return the user's position."""
        raise NotImplementedError

    def get_extra_state(self) -> Any:
        """Return a copy of the values that `set_extra_state` stored, or None.

        They were stored in this run, or in one whose state was restored.

        Raises:
            TypeError: it is a feeder that reads from something other than a `DataLoader`.
        """
        return self.here().get_extra_state()

    def set_extra_state(self, values: Any) -> None:
        """Store your values, such as a token count, in the state from the last element received on.

        They are in all later states, also of a device feeder that has read ahead, until you set
        others. `set_state` restores them. On another number of shards, `set_states` restores those
        of the shard with the largest step. They are not in the state of the iterator until you call
        this, and change nothing in the stream.

        Args:
            values: a dict of plain JSON values: dicts with texts as keys, lists, texts, finite
                numbers, True, False or None; at most 10,000 characters as JSON, where one outside
                ASCII counts as six. None removes the values.

        Raises:
            TypeError: it is not a dict, or has other values, such as arrays; or it is a feeder that
                reads from something other than a `DataLoader`.
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
    """Return the user's own values as JSON text, "" for None, after a check.

    Raises:
        TypeError: they are no dict, or reading the text would give other values.
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

    The error names the damaged `parts` of a state.

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
