"""Log records of worker processes, for the handlers of the user's process.

In a worker, in: records. Out: messages. In the user's process, in: these messages. Out: the same records, given to the logger
of the same name.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Mapping
from typing import Any


def levels_here() -> dict[str, int]:
    """The levels that loggers of this process were given, by their names; "" is the root."""
    named = {
        name: one.level for name, one in logging.root.manager.loggerDict.items() if isinstance(one, logging.Logger)
    }
    return {name: level for name, level in {"": logging.root.level, **named}.items() if level != logging.NOTSET}


def set_levels(levels: Mapping[str, int]) -> None:
    """Give loggers the levels that they have in the user's process, so that no record is made that nobody wants."""
    for name, level in levels.items():
        logging.getLogger(name or None).setLevel(level)


class Forward(logging.Handler):
    """Sends records to the user's process by `send`, as bytes."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, or let `logging` tell that it cannot be sent."""
        try:
            self._send(_as_bytes(record))
        except OSError:  # the user's process is gone
            return
        except Exception:
            self.handleError(record)


def forward(send: Callable[[bytes], None]) -> None:
    """Have all records of this process sent, in place of what its own handlers do with them."""
    logging.root.handlers[:] = [Forward(send)]


def _as_bytes(record: logging.LogRecord) -> bytes:
    """A record with its text made: arguments and exceptions may not cross."""
    fields = dict(vars(record))
    exception = record.exc_text or (logging.Formatter().formatException(record.exc_info) if record.exc_info else None)
    fields |= {"msg": record.getMessage(), "args": None, "exc_info": None, "exc_text": exception}
    try:
        return pickle.dumps(fields)
    except Exception:
        return pickle.dumps({name: value for name, value in fields.items() if isinstance(value, (str, int, float))})


def handle_here(data: bytes) -> None:
    """Give a worker's record to the logger of its name in this process."""
    fields: dict[str, Any] = pickle.loads(data)
    record = logging.makeLogRecord(fields)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
