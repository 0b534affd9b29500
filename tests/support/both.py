"""Programs that are run with the real Grain and with ours: the same elements, in the same order."""

import contextlib
import logging
import signal

import grain as real
import grain.python
import numpy as np

import headrace.compat.grain as ours


def told(value):
    """Elements as they can be compared: values, dtypes, kinds of containers."""
    if isinstance(value, dict):
        return {key: told(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(told, value)]
    if isinstance(value, (np.ndarray, np.generic)):
        return [str(value.dtype), value.tolist()]
    return value


def runs_alike(program, *arguments):
    """Run a program with both; what it returns is the same. Programs keep what is short-lived to
    themselves.
    """
    with quiet():
        expected = told(program(real, *arguments))
    assert told(program(ours, *arguments)) == expected


@contextlib.contextmanager
def quiet():
    """Grain logs that it drops examples, and that names are old."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


class NeverEndsError(Exception):
    """What was asked of an iterator did not come."""


@contextlib.contextmanager
def within(seconds):
    """Break off what never returns, as `RepeatIterDataset` over no elements does in Grain; in the
    main thread alone.
    """

    def broken_off(number, frame):
        raise NeverEndsError(f"nothing came within {seconds} s")

    before = signal.signal(signal.SIGALRM, broken_off)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
