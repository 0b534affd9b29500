"""Grain's option classes. None of the options changes the elements of a pipeline or their order.

In: options as a Grain program writes them. Out: options for headrace's loader.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass
from typing import Any

from ...common.fields import fields_of
from ...common.messages import short_repr, shorten
from ...common.validation import whole_number
from ...loader import ReadOptions as OurReadOptions

LOGGER = logging.getLogger("headrace")


class ReadOptions(OurReadOptions):
    """Number of threads that read records ahead, and number of records that they hold.

    As in Grain, a stream calls its source only on these threads. Their names end with `_` and a
    number, from 0. A buffer smaller than the number of threads logs a warning.

    Attributes:
        num_threads: number of threads; 0 reads in the calling thread.
        prefetch_buffer_size: number of records that are kept ready.

    Raises:
        ValueError: if a number is negative.

    >>> ReadOptions(num_threads=4).prefetch_buffer_size
    500
    """

    in_place = False

    def __post_init__(self) -> None:
        threads, size = self.num_threads, self.prefetch_buffer_size
        for name, number in (("num_threads", threads), ("prefetch_buffer_size", size)):
            if isinstance(number, int) and number < 0:
                raise ValueError(
                    f"{name} must be non-negative, but it is {number}. Pass 0 or more; 0 means "
                    "that nothing is read ahead."
                )
        super().__post_init__()

    def _warn_of_a_small_buffer(self) -> None:
        LOGGER.warning(
            "prefetch_buffer_size=%s is smaller than num_threads=%s, so that not all threads have "
            "a record to read; pass a larger buffer, or fewer threads.",
            self.prefetch_buffer_size,
            self.num_threads,
        )


def as_read_options(options: Any) -> Any:
    """Convert read options of Grain or headrace to `ReadOptions`; None gives the defaults.

    Return other values unchanged.
    """
    if isinstance(options, OurReadOptions) and not isinstance(options, ReadOptions):
        return ReadOptions(**vars(options))
    if options is None or isinstance(options, ReadOptions):
        return options or ReadOptions()
    try:
        threads = options.num_threads
    except AttributeError:
        return options
    return ReadOptions(threads, options.prefetch_buffer_size)


@dataclass(slots=True)
class MultiprocessingOptions:
    """Options for worker processes.

    Attributes:
        num_workers: number of processes; 0 (default) for none.
        per_worker_buffer_size: number of finished elements that each worker keeps ready.
        enable_profiling: True logs the table of `iterator.stats()` once a minute and at the end.

    Raises:
        TypeError: if `num_workers` is not an int.
        ValueError: if it is negative.
    """

    num_workers: int = 0
    per_worker_buffer_size: int = 1
    enable_profiling: bool = False

    def __post_init__(self) -> None:
        whole_number("num_workers", self.num_workers, 0, None, "a number of processes, 0 for none")


class ExecutionTrackingMode(enum.Enum):
    """Grain's option that says which times are measured.

    No effect here: `iterator.stats()` contains the measurements.
    """

    DISABLED = enum.auto()
    STAGE_TIMING = enum.auto()


@dataclass(frozen=True)
class _Default:
    """Default value of an option that the user did not pass.

    Attributes:
        value: the default value.
    """

    value: Any


@dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """Options of a dataset.

    Attributes:
        filter_warn_threshold_ratio: share of the last 1,000 elements; if a filter omits this share
            or more, a warning is logged. Default 0.9; None for no warning.
        filter_raise_threshold_ratio: share at which a filter raises ValueError; None (default) for
            no error.
        execution_tracking_mode: no effect here.
        min_shm_size: no effect here.
    """

    filter_warn_threshold_ratio: Any = _Default(0.9)
    filter_raise_threshold_ratio: Any = _Default(None)
    execution_tracking_mode: Any = _Default(ExecutionTrackingMode.DISABLED)
    min_shm_size: Any = _Default(0)

    def __post_init__(self) -> None:
        """Remember which options the user passed, for `merge`, and fill in the defaults."""
        given = fields_of(self) or {}
        chosen = {name: value for name, value in given.items() if not isinstance(value, _Default)}
        object.__setattr__(self, "_chosen", chosen)
        for name, value in given.items():
            if isinstance(value, _Default):
                object.__setattr__(self, name, value.value)

    def merge(self, other: DatasetOptions | None) -> DatasetOptions:
        """Return these options; options that were not passed to this object come from `other`.

        >>> others = DatasetOptions(min_shm_size=2, filter_warn_threshold_ratio=0.5)
        >>> merged = DatasetOptions(min_shm_size=1).merge(others)
        >>> merged.min_shm_size, merged.filter_warn_threshold_ratio
        (1, 0.5)
        """
        return (
            self
            if other is None
            else DatasetOptions(**vars(other)["_chosen"] | vars(self)["_chosen"])
        )


class Config:
    """Grain's global flags, for programs that set them. Values are stored and have no effect.

    >>> config = Config()
    >>> config.update("py_debug_mode", True)
    >>> config.py_debug_mode
    True
    """

    def __init__(self) -> None:
        vars(self).update(
            py_debug_mode=False,
            py_dataset_visualization_output_dir=None,
            py_relay_sigterm_to_main=False,
            py_traceback_filtering="auto",
        )

    def __getattr__(self, name: str) -> Any:
        error = AttributeError if name.startswith("__") else ValueError
        raise error(
            f"Unrecognized config option: {shorten(name)}. Use one of the options "
            f"{', '.join(vars(self))}."
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValueError(
            f"Please use update(): config.update({name!r}, {short_repr(value)}). A flag cannot be "
            "set as an attribute."
        )

    def get_or_default(self, name: str) -> Any:
        """Return the value of a flag; ValueError if there is no flag of this name."""
        flags = vars(self)
        return flags[name] if name in flags else self.__getattr__(name)

    def update(self, name: str, value: Any) -> None:
        """Store another value for the flag `name`; it has no effect.

        Raises:
            ValueError: if there is no such flag.
        """
        self.get_or_default(name)
        vars(self)[name] = value


config = Config()
