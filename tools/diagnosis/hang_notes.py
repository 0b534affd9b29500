"""Remember which task took too long while a loop was measured, from warnings in the log."""

from __future__ import annotations

import logging
from types import TracebackType

SHARE, LEAST_SECONDS = 0.5, 0.5
"""Share of the measuring time, and number of seconds, beyond which a task hangs.

A task that takes longer than both counts as hanging.
"""


class HangNotes(logging.Handler):
    """Logging handler that collects warnings about tasks that take too long, inside a `with` block.

    Attributes:
        sentence: last warning, as a sentence that begins with a space; "" if there was none.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.sentence = ""
        self._logger = logging.getLogger("headrace")

    def emit(self, record: logging.LogRecord) -> None:
        """Store the text of a warning about a task that takes too long.

        All other records are ignored.
        """
        if isinstance(what := vars(record).get("hanging"), str):
            self.sentence = f" Hanging: {what}."

    def __enter__(self) -> HangNotes:
        self._logger.addHandler(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._logger.removeHandler(self)
