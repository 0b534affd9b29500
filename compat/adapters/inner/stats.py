"""Grain's decorators and objects that measure time. They do nothing here.

Use `iterator.stats()` for measurements.

In: functions, elements. Out: the same functions and elements.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

IPL_CAT_READ = "read"
IPL_CAT_PREPROCESSING = "preprocessing"
IPL_CAT_PREFETCH = "prefetch"
IPL_CAT_UNKNOWN = "unknown"


def record_next_duration_if_output(next_fn: F) -> F:
    """Return the function unchanged."""
    return next_fn


def trace_input_pipeline(stage_category: str = "", **trace_kwargs: Any) -> Any:
    """Return a decorator that returns the function unchanged.

    With `trace_kwargs`, an empty context manager.
    """
    return contextlib.nullcontext() if trace_kwargs else _Unchanged()


def trace_input_pipeline_next(stage_category: str = "", **trace_kwargs: Any) -> Callable[[F], F]:
    """Return a decorator that returns the function unchanged."""
    return record_next_duration_if_output


class _Unchanged(contextlib.nullcontext[None]):
    def __call__(self, function: F) -> F:
        return function


class Timer:
    """A context manager in place of Grain's timer; it measures nothing.

    >>> with Timer() as timer:
    ...     pass
    >>> timer.value()
    0
    """

    def __enter__(self) -> Timer:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""

    def value(self) -> int:
        """Return 0."""
        return 0

    def reset(self) -> None:
        """Do nothing."""


class Stats:
    """The attribute `_stats` of a dataset's iterator.

    It has Grain's methods, and none of them measures anything.
    """

    @contextlib.contextmanager
    def record_self_time(
        self, offset_ns: float = 0, num_produced_elements: int = 1
    ) -> Iterator[None]:
        """Return a context manager that does nothing."""
        yield

    def record_output_spec(self, element: T) -> T:
        """Return the element unchanged."""
        return element

    def record_output_spec_for_batch(self, elements: T) -> T:
        """Return the elements unchanged."""
        return elements

    def record_bytes_consumed(self, element: Any) -> None:
        """Do nothing."""

    def record_bytes_produced(self, element: Any) -> None:
        """Do nothing."""

    def report(self) -> None:
        """Do nothing."""


NO_STATS = Stats()
