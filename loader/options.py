"""Options of a loader that never change its stream, only its speed and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..checks import warn, whole_number
from ..wording import shown


@dataclass(frozen=True)
class ReadOptions:
    """How far and on how many threads records are read ahead, for sources that wait for disks or networks.

    Attributes:
        num_threads: reading threads; 0 reads when the records are needed (default 16).
        prefetch_buffer_size: records to read ahead (default 500); 0 for none. With fewer than threads, which is a warning,
            some threads have nothing to read.

    Raises:
        ValueError: a negative value.

    >>> ReadOptions(num_threads=4)
    ReadOptions(num_threads=4, prefetch_buffer_size=500)
    """

    num_threads: int = 16
    prefetch_buffer_size: int = 500

    def __post_init__(self) -> None:
        for name in ("num_threads", "prefetch_buffer_size"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 0, None, "an int, 0 for none"))
        if 0 < self.prefetch_buffer_size < self.num_threads:
            warn(
                f"prefetch_buffer_size={shown(self.prefetch_buffer_size)} is below num_threads={shown(self.num_threads)}, "
                "so that not all threads have a record to read; pass a larger buffer, or fewer threads."
            )


def as_read_options(options: Any) -> ReadOptions:
    """Read options of ours, or another library's with the same attributes; None gives the defaults.

    Raises:
        TypeError: it is neither.
    """
    if options is None or isinstance(options, ReadOptions):
        return options or ReadOptions()
    if hasattr(options, "num_threads") and hasattr(options, "prefetch_buffer_size"):
        return ReadOptions(options.num_threads, options.prefetch_buffer_size)
    raise TypeError(
        f"read_options={shown(options)} is a {type(options).__name__}; pass millrace.ReadOptions(num_threads=…)."
    )
