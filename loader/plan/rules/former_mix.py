"""The rule of a mix as it was in a former run, over the inputs of now.

In: the join of now, and what a state tells of that of then. Out: the join of then.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....common.messages import short_repr, shorten
from ....errors import CheckpointError
from ....samplers.mix.order import MixOrder
from ..cursor import JoinState
from ..joins import Join
from .mix import MixRows


@dataclass(frozen=True)
class FormerMix(MixRows):
    """Rows in the proportions of then. The note counts inputs as they were numbered then.

    Attributes:
        numbers: of the inputs of then, among those of now.
    """

    numbers: tuple[int, ...] = ()

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        return np.array(self.numbers, dtype=np.int64)

    def choices(self, note: JoinState, count: int) -> NDArray[np.int64]:
        """As the protocol says."""
        return self._numbers[super().choices(note, count)]

    def taken(self, rows: int) -> Sequence[int]:
        return ()

    def ended(self, note: JoinState, number: int) -> JoinState | None:
        """As the protocol says."""
        return super().ended(note, self.numbers.index(number))


def text_of(saved: Mapping[str, Any]) -> str:
    """A mix in a state's fingerprint, as the text that a `Leftover` keeps."""
    leaving = ["leaving"] if "leaving" in saved else []
    return json.dumps(
        {name: saved.get(name) for name in ("goes_on", *leaving, "names", "order")}, separators=(",", ":")
    )


def former_mix(join: Join, text: str) -> Join:
    """The mix that a text tells, over the inputs of now.

    Raises:
        CheckpointError: it is no mix, or one of datasets that are not there any more.
    """
    try:
        saved = json.loads(text)
        names, order, goes_on = saved["names"], MixOrder.from_values(saved["order"]), bool(saved["goes_on"])
        leaving = tuple(map(int, saved.get("leaving", ())))
        if len(names) != len(order.names):
            raise ValueError("as many names as weights")
        missing = [name for name in names if name not in join.names]
    except (ValueError, TypeError, LookupError) as error:
        raise CheckpointError(f"the state is damaged: its former mix cannot be read ({shorten(error)}).") from None
    if missing:
        raise CheckpointError(
            f"dataset {short_repr(missing[0])} was removed from the mix, but the state stands inside a window that was begun "
            "with it; keep it among the datasets, with weight 0."
        )
    numbers = tuple(map(join.names.index, names))
    return dataclasses.replace(join, rule=FormerMix(order, goes_on, leaving, numbers=numbers))
