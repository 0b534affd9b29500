"""A stream of numbers as a user writes one."""

from __future__ import annotations

from headrace import IterDataset


class Count(IterDataset):
    """Made from nothing."""

    def __init__(self, stop, fail_at=None):
        super().__init__()
        self.stop, self.fail_at = stop, fail_at

    def __iter__(self):
        return CountIterator(self.stop, self.fail_at)


class CountIterator:
    """Its state is a number."""

    def __init__(self, stop, fail_at):
        self.stop, self.fail_at, self.number = stop, fail_at, 0

    def __next__(self):
        if self.number == self.stop:
            raise StopIteration
        if self.number == self.fail_at:
            raise ValueError("broken")
        self.number += 1
        return self.number - 1

    def get_state(self):
        return self.number

    def set_state(self, state):
        self.number = state
