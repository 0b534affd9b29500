"""Call the loader of a host from the process that controls all hosts, and read its answers.

In: numbers, such as the number of a step. Out: arrays on the host, and answers.
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
    """A batch that a host was asked for, with the layout that the controlling process expects.

    The controlling process must say which arrays it gets when it asks for a batch, before the host
    has made the batch. So it guesses the layout (structure, dtypes and shapes without rows).

    Attributes:
        expected: a pair of the number by which the host knows the expected layout, and the number
            of rows after filling up.
        leaves: arrays of the expected layout. They hold the batch only if `answer` says that the
            batch has this layout, and at most the expected number of rows.
        answer: array with the host's answer, which `answer_of` converts.
    """

    expected: tuple[int, int]
    leaves: list[Any]
    answer: Any


class Caller:
    """Calls the loader that runs on a host, from the process that controls all hosts.

    Args:
        devices: the host's devices in the sharding.
        cpus: the host's CPU devices, on which the loader's arrays are.
        shard: index of the shard that the host loads.
        parts: number of parts into which the rows that the host loads are divided.
        loader: the `HostSide` that runs on the host.
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
        """Ask the host for its next batch, which is expected to have the layout of the last one.

        A layout is the structure, dtypes and shapes without rows.

        Args:
            taken: number of batches that the user has received.
        """
        leaves, answer = self._loader.next(
            self._call(taken, *self._expected, key=self._keys[self._expected])
        )
        return AskedBatch(self._expected, leaves, answer)

    def take(self, step: int, layout: int, rows: int) -> list[Any]:
        """Return the leaves of a batch that the host has read.

        After this call, the next batches are expected to have the same layout and number of rows.

        Args:
            step: number of the batch in this run.
            layout: number of its layout (structure, dtypes and shapes without rows) on the host.
            rows: number of rows to which it is filled up.
        """
        self._expected = layout, rows
        key = self._keys.setdefault(self._expected, len(self._keys))
        leaves: list[Any] = self._loader.take(self._call(step, layout, rows, key=key))
        return leaves

    def again(self, step: int, number: int) -> Answer:
        """Let the host deliver one of its first batches again, because its stream has ended.

        Args:
            step: number of the step in this run.
            number: number of the batch, counted from 0 at the end of the host's stream.
        """
        return answer_of(self._loader.again(self._call(step, number)))

    def restore(self, states: str) -> Answer:
        """Let the host's loader continue from the states of all shards, given as JSON text.

        Return the host's answer. It has the kind `FAILED` if the states do not fit the loader.
        """
        return answer_of(
            self._loader.restore(on_host(self.cpus, np.frombuffer(states.encode(), np.uint8)))
        )

    def layout(self, number: int) -> Prepared:
        """Return a batch without rows that has a layout (structure, dtypes and shapes of batches).

        Args:
            number: number of the layout on the host.
        """
        if number not in self._layouts:
            self._layouts[number] = as_prepared(from_text(self.text("layout", number)))
        return self._layouts[number]

    def text(self, method: str, number: int = 0) -> str:
        """Call a method of the host's `HostSide` that returns a text, and return the text.

        Args:
            method: name of the method.
            number: argument of the method.
        """
        return self._bytes(method, number).decode()

    def stats(self) -> list[tuple[str, Any]]:
        """Return a list with one pair: the name of the host's machine, and its loader's statistics.

        Return an empty list if the loader could not be made. Any thread may call this.
        """
        content = self._bytes("stats")
        return [named_stats(content)] if content else []

    def tell(self, taken: int, question: str, argument: int = -1) -> Any:
        """Return a host's answer to a question about its position in the stream.

        The answer is a value that the host's iterator or its `StreamPosition` has. If the host
        failed, its error is raised.

        Args:
            taken: number of batches that the user has received. The position is after these.
            question: one of `QUESTIONS`, such as "last_records".
            argument: argument of the question; -1 for none.
        """
        return told(self._bytes("tell", taken, QUESTIONS.index(question), argument))

    def change(self, content: bytes) -> None:
        """Change the run of a host, for example the weights of a mix; raise the host's error.

        Args:
            content: the change, as bytes that `HostSide.change` takes.
        """
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
        """Close the loader of a host, without waiting for it.

        Return an array with the loader's last statistics, which `last_stats` converts. The array
        can be read as soon as the loader is closed.
        """
        return self._loader.end(self._call())

    def _call(self, *numbers: int, key: int = 0) -> Any:
        call = np.zeros(3 + key, np.int32)
        call[: len(numbers)] = numbers
        return on_host(self.cpus, call)
