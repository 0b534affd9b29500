"""Send log records of worker processes to the logging handlers of the user's process.

In a worker: log records in, messages out. In the user's process: messages in; the records go to the
logger of the same name.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Mapping
from typing import Any


def levels_here() -> dict[str, int]:
    """Return the levels of the loggers for which this process has set a level, by logger name.

    The name "" is the root logger.
    """
    named = {
        name: one.level
        for name, one in logging.root.manager.loggerDict.items()
        if isinstance(one, logging.Logger)
    }
    return {
        name: level
        for name, level in {"": logging.root.level, **named}.items()
        if level != logging.NOTSET
    }


def set_levels(levels: Mapping[str, int]) -> None:
    """Give the loggers of this worker process the levels that they have in the user's process.

    The worker then makes no log records that the user's process would drop.

    Args:
        levels: dict from logger name to level.
    """
    for name, level in levels.items():
        logging.getLogger(name or None).setLevel(level)


class Forward(logging.Handler):
    """Logging handler that pickles each record to bytes, and passes them to the function `send`."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Pickle a record, and pass the bytes to the function `send`.

        An OSError is ignored, because the user's process is then gone; `logging` reports other
        errors.
        """
        try:
            self._send(_as_bytes(record))
        except OSError:  # the user's process is gone
            return
        except Exception:
            self.handleError(record)


def forward(send: Callable[[bytes], None]) -> None:
    """Pass log records of this process, pickled, to `send`, in place of its own root handlers."""
    logging.root.handlers[:] = [Forward(send)]


def _as_bytes(record: logging.LogRecord) -> bytes:
    """Pickle a log record, with its text (and traceback) already formatted.

    The record's arguments and exception are left out, because they may not be picklable.
    """
    fields = dict(vars(record))
    exception = record.exc_text or (
        logging.Formatter().formatException(record.exc_info) if record.exc_info else None
    )
    fields |= {"msg": record.getMessage(), "args": None, "exc_info": None, "exc_text": exception}
    try:
        return pickle.dumps(fields)
    except Exception:
        return pickle.dumps(
            {name: value for name, value in fields.items() if isinstance(value, (str, int, float))}
        )


def handle_here(data: bytes) -> None:
    """Unpickle a worker's log record, and pass it to the logger of the same name in this process.

    The record is dropped if the logger does not log records of this level.
    """
    fields: dict[str, Any] = pickle.loads(data)
    record = logging.makeLogRecord(fields)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
