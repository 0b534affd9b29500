"""Which batch the user of a feeder received last. Its threads know this small object, and never the feeder.

In: marks, as batches are received. Out: an upstream iterator that is left as it should be, once nobody reads ahead any more.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from .protocol import Upstream


@dataclass(slots=True)
class UserMark:
    """One for each feeder.

    Attributes:
        upstream: what is read from.
        owned: whether the feeder opened it.
        mark: where the user stands; None: where the upstream iterator stands.
        gone: the feeder was closed or dropped.
    """

    upstream: Upstream
    owned: bool
    mark: Any = None
    gone: bool = False

    def go_back(self) -> None:
        """The upstream iterator has read ahead of the user: have it go back."""
        if self.mark is not None:
            self.upstream.go_to(self.mark)

    def leave(self) -> None:
        """Close the upstream iterator, or have it go back if others have it, too."""
        if not self.owned:
            self.go_back()
        elif (close := getattr(self.upstream.iterator, "close", None)) is not None:
            close()

    def way_out(self) -> None:
        """The last thing that a reader does: nobody may be there to wait for it."""
        if self.gone or not self.owned:
            with contextlib.suppress(Exception):  # whoever is there does the same, and hears of it
                self.leave()
