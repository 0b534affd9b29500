"""Decorators and objects with which iterators of others take times; here they do nothing, as `iterator.stats()` has them all.

In: functions, elements. Out: the same.
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
    """The same function."""
    return next_fn


def trace_input_pipeline(stage_category: str = "", **trace_kwargs: Any) -> Any:
    """A context that does nothing; a decorator, too."""
    return contextlib.nullcontext() if trace_kwargs else _Unchanged()


def trace_input_pipeline_next(stage_category: str = "", **trace_kwargs: Any) -> Callable[[F], F]:
    """A decorator that gives the same function."""
    return record_next_duration_if_output


class _Unchanged(contextlib.nullcontext[None]):
    def __call__(self, function: F) -> F:
        return function


class Timer:
    """A context that takes no time.

    >>> with Timer() as timer:
    ...     pass
    >>> timer.value()
    0
    """

    def __enter__(self) -> Timer:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to do."""

    def value(self) -> int:
        """0."""
        return 0

    def reset(self) -> None:
        """Nothing to do."""


class Stats:
    """The `_stats` of a dataset's iterator."""

    @contextlib.contextmanager
    def record_self_time(self, offset_ns: float = 0, num_produced_elements: int = 1) -> Iterator[None]:
        """A context that takes no time."""
        yield

    def record_output_spec(self, element: T) -> T:
        """The same element."""
        return element

    def record_output_spec_for_batch(self, elements: T) -> T:
        """The same elements."""
        return elements

    def record_bytes_consumed(self, element: Any) -> None:
        """Nothing to do."""

    def record_bytes_produced(self, element: Any) -> None:
        """Nothing to do."""

    def report(self) -> None:
        """Nothing to do."""


NO_STATS = Stats()
