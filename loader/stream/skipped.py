"""Records that failed and were left out: counted, logged, and too many at last.

In: what blocks say was skipped. Out: a count, and a failure once it is over the limit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import TooManyErrorsError
from ..work.tasks import Failure

_LOGGER = logging.getLogger("headrace")


@dataclass
class SkippedRecords:
    """Those of one iterator, since it was opened.

    Attributes:
        limit: how many may be skipped; None for any number.
        count: how many were.
    """

    limit: int | None = None
    count: int = 0

    def note(self, skipped: Sequence[str]) -> Failure | None:
        """Count and log these."""
        for message in skipped:
            self.count += 1
            _LOGGER.warning("skipped: %s", message)
            if self.limit is not None and self.count > self.limit:
                text = f"{self.count} records or batches failed, more than max_errors={self.limit}; the last one: {message}"
                return Failure(TooManyErrorsError(text))
        return None
