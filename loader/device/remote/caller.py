"""Call the loader of a host from the controlling process, and read its answers.

In: numbers. Out: arrays of the host, and answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..hosts.template import from_text
from ..prepared import Prepared
from .host import QUESTIONS, Answer, answer_of, as_prepared, on_host
from .texts import bytes_of, named_stats, told

UNKNOWN = (-1, 0)
"""Layout and rows where no layout is expected."""


@dataclass
class AskedBatch:
    """A batch that a host was asked for.

    Attributes:
        expected: the layout, and the number of rows to which the batch is filled up.
        leaves: its leaves; without meaning if the batch is another one.
        answer: array with the host's answer.
    """

    expected: tuple[int, int]
    leaves: list[Any]
    answer: Any


class Caller:
    """Calls the loader of a host.

    Args:
        devices: the host's devices in the sharding.
        cpus: the CPU devices on which its loader's arrays are.
        shard: index of its shard.
        parts: number of parts into which the rows that the host loads are divided.
        loader: the `HostSide` that runs there.
    """

    def __init__(
        self, devices: list[Any], cpus: Sequence[Any], shard: int, parts: int, loader: Any
    ) -> None:
        self.devices, self.cpus, self.shard, self.parts = devices, cpus, shard, parts
        self._loader = loader
        self._expected = UNKNOWN
        self._keys = {UNKNOWN: 0}  # number of each layout and number of rows
        self._layouts: dict[int, Prepared] = {}
        self._reading = threading.RLock()  # one that a signal's handler may take again

    def ask(self, taken: int) -> AskedBatch:
        """Ask for the next batch, which is expected to be like the last one.

        Args:
            taken: number of batches that were received.
        """
        leaves, answer = self._loader.next(
            self._call(taken, *self._expected, key=self._keys[self._expected])
        )
        return AskedBatch(self._expected, leaves, answer)

    def take(self, step: int, layout: int, rows: int) -> list[Any]:
        """Return the leaves of a batch that was asked for.

        The next batch is expected to be like this one.
        """
        self._expected = layout, rows
        key = self._keys.setdefault(self._expected, len(self._keys))
        leaves: list[Any] = self._loader.take(self._call(step, layout, rows, key=key))
        return leaves

    def again(self, step: int, number: int) -> Answer:
        """Let the host make a step of one of its first batches."""
        return answer_of(self._loader.again(self._call(step, number)))

    def restore(self, states: str) -> Answer:
        """Let the loader continue from the states of all shards."""
        return answer_of(
            self._loader.restore(on_host(self.cpus, np.frombuffer(states.encode(), np.uint8)))
        )

    def layout(self, number: int) -> Prepared:
        """Return a batch without rows of a layout."""
        if number not in self._layouts:
            self._layouts[number] = as_prepared(from_text(self.text("layout", number)))
        return self._layouts[number]

    def text(self, method: str, number: int = 0) -> str:
        """Return the text that a method of the loader returns."""
        return self._bytes(method, number).decode()

    def stats(self) -> list[tuple[str, Any]]:
        """Return a list with the name of the machine and the statistics of the loader.

        Return an empty list if it cannot be made. Any thread may call this.
        """
        content = self._bytes("stats")
        return [named_stats(content)] if content else []

    def tell(self, taken: int, question: str, argument: int = -1) -> Any:
        """Return the answer to one of `QUESTIONS` about the position after some batches.

        If the host failed, its error is raised.
        """
        return told(self._bytes("tell", taken, QUESTIONS.index(question), argument))

    def change(self, content: bytes) -> None:
        """Change the run of the host, or raise the host's error; see `HostSide.change`."""
        call = on_host(self.cpus, np.frombuffer(content, np.uint8))
        with self._reading:
            told(
                bytes_of(
                    lambda start: (
                        self._loader.part(self._call(start)) if start else self._loader.change(call)
                    )
                )
            )

    def _bytes(self, method: str, *numbers: int) -> bytes:
        first: Callable[[Any], Any] = getattr(self._loader, method)
        with self._reading:  # the host has one text at a time
            return bytes_of(
                lambda start: (
                    self._loader.part(self._call(start)) if start else first(self._call(*numbers))
                )
            )

    def end(self) -> Any:
        """Close the loader.

        The result is an array for `last_stats`, which is there when that is done.
        """
        return self._loader.end(self._call())

    def _call(self, *numbers: int, key: int = 0) -> Any:
        call = np.zeros(3 + key, np.int32)
        call[: len(numbers)] = numbers
        return on_host(self.cpus, call)
