"""Something to do, and the effect that it would have.

In: nothing. Out: a frozen value.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """Something to do.

    Attributes:
        what: to do, as it stands in a list.
        seconds: of a step after it.
        at_most: it is not known how much of the time it saves: a step takes so long where it saves all.
        cure: how it ends the sentence on what was found, "5 workers would hide it"; "" for one that does not.
    """

    what: str
    seconds: float
    at_most: bool = False
    cure: str = ""
