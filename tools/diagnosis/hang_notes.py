"""Notes which work hangs while a loop is measured. In: warnings of the log. Out: a sentence for the verdict."""

from __future__ import annotations

import logging
from types import TracebackType

SHARE, LEAST_SECONDS = 0.5, 0.5
"""Share of the time of a measurement after which one task counts as hanging, and seconds that this is at least. Chosen."""


class HangNotes(logging.Handler):
    """Takes the warnings of tasks that hang, within a `with` block.

    Attributes:
        sentence: the last one, as a sentence after a space; "" if there was none.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.sentence = ""
        self._logger = logging.getLogger("headrace")

    def emit(self, record: logging.LogRecord) -> None:
        """Note what hangs."""
        if isinstance(what := vars(record).get("hanging"), str):
            self.sentence = f" Hanging: {what}."

    def __enter__(self) -> HangNotes:
        self._logger.addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._logger.removeHandler(self)
