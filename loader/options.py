"""Options of a loader that never change its stream, only its speed and memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadOptions:
    """How far and on how many threads records are read ahead, for sources that wait for disks or networks.

    Attributes:
        num_threads: reading threads; 0 reads when the records are needed (default 16).
        prefetch_buffer_size: records to read ahead (default 500).

    Raises:
        ValueError: a negative value.
    """

    num_threads: int = 16
    prefetch_buffer_size: int = 500

    def __post_init__(self) -> None:
        for name in ("num_threads", "prefetch_buffer_size"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0.")
