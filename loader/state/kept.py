"""The values that a run keeps in its states besides its place in the stream. Other files pass them on as one object.

In: values that the loader or the user sets. Out: their entries in the JSON of a state, and back; the values of all shards
as one; and the values in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from ...common.messages import short_repr
from ...errors import CheckpointError
from ..plan.identity import json_text
from ..plan.lineage import checked_count
from ..plan.steps.skipped import NONE_SKIPPED, Ranges, SkippedSteps, union


@dataclass(frozen=True)
class Kept:
    """The values that a run keeps. They do not depend on the place in the stream.

    A field is also the name of an entry in a state. Each method has a line for each field.

    Attributes:
        skipped: steps that the run skips because the user asked for it.
    """

    skipped: SkippedSteps = NONE_SKIPPED

    @cached_property
    def entries(self) -> dict[str, str]:
        """The entries of a state, JSON texts by name; "" for an empty value."""
        return {"skipped": json_text([self.skipped.steps, self.skipped.absorbed]) if self.skipped else ""}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Kept:
        """Read the values from the parsed entries of a state, which may have others, too.

        Raises:
            CheckpointError: an entry is damaged.
        """
        with damage(skipped=content.get("skipped")):
            steps, absorbed = map(_ranges, content.get("skipped", [[], []]))
        return cls(SkippedSteps(steps, absorbed))

    @classmethod
    def of_shards(cls, shards: Sequence[Kept]) -> Kept:
        """Return the values with which shards of another number resume.

        Args:
            shards: values of all shards; those of the shard with the largest step come first.
        """
        steps = union(chain.from_iterable(each.skipped.steps for each in shards))
        return cls(SkippedSteps(steps, shards[0].skipped.absorbed))

    @property
    def told(self) -> dict[str, tuple[str, Any]]:
        """For tools, each value in words and as plain JSON values, by a label."""
        steps = ", ".join(f"{start:,} to {stop - 1:,}" for start, stop in self.skipped.steps)
        return {"left out": (f"steps {steps}" if steps else "nothing", list(map(list, self.skipped.steps)))}


class Keeper:
    """Holder of the values that a run keeps now.

    An iterator and its positions share it. So a new value is also in the state of a position that was taken before, such as
    that of a batch which a feeder has read ahead.

    Attributes:
        kept: the values.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept = kept


@contextmanager
def damage(**parts: Any) -> Iterator[None]:
    """Return a context in which a TypeError or ValueError becomes a CheckpointError that names the damaged `parts` of a state.

    Args:
        **parts: names and values of the entries that are read inside the context.
    """
    try:
        yield
    except CheckpointError:
        raise
    except (TypeError, ValueError):
        entries = ", ".join(f"{name}={short_repr(value)}" for name, value in parts.items())
        raise CheckpointError(f"the state is damaged: {entries}. Restore another checkpoint.") from None


def _ranges(values: Any) -> Ranges:
    ranges = tuple((checked_count(start), checked_count(stop)) for start, stop in values)
    edges = [edge for pair in ranges for edge in pair]
    if sorted(set(edges)) != edges:
        raise ValueError
    return ranges
