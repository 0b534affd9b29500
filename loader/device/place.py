"""Where the user of a feeder stands, as its threads may know it too, who must not know the feeder.

In: marks, as batches are received. Out: a host iterator that is left as it should be, once nobody reads ahead any more.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from .upstream import Host


@dataclass(slots=True)
class Place:
    """One for each feeder.

    Attributes:
        host: what is read from.
        owned: whether the feeder opened it.
        mark: where the user stands; None: where the host iterator stands.
        gone: the feeder was closed or dropped.
    """

    host: Host
    owned: bool
    mark: Any = None
    gone: bool = False

    def go_back(self) -> None:
        """The host iterator has read ahead of the user: have it go back."""
        if self.mark is not None:
            self.host.go_to(self.mark)

    def leave(self) -> None:
        """Close the host iterator, or have it go back if others have it, too."""
        if not self.owned:
            self.go_back()
        elif (close := getattr(self.host.iterator, "close", None)) is not None:
            close()

    def way_out(self) -> None:
        """The last thing that a reader does: nobody may be there to wait for it."""
        if self.gone or not self.owned:
            with contextlib.suppress(Exception):  # whoever is there does the same, and hears of it
                self.leave()
