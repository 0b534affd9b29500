"""Repeat the batches of a loader, from the first one, on a host whose stream ends early.

Other hosts have more batches, and each host needs equally many. In: the number of a batch after the
end of the stream. Out: the batch. Runs on the transfer thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....errors import HostsError


class Repeats:
    """Supplies batches after the end of a loader: the loader's stream, again and again.

    The batch depends only on the number of batches since the loader's end, so a resumed run gets
    the same batches.

    Args:
        loader: the loader.
        transform: function that is applied to each batch; None for no function.
    """

    def __init__(
        self, loader: Iterable[Any], transform: Callable[[Any], Any] | None = None
    ) -> None:
        self._loader, self._transform = loader, transform
        self._iterator: Any = None
        self._next = 0  # number of the batch that the iterator returns next

    def batch(self, number: int) -> Any:
        """Return batch number `number` (from 0) after the end of the stream.

        Batch 0 after the end is the first batch of the stream again.

        Raises:
            HostsError: the loader has no batch.
        """
        if number < self._next:
            self.close()
        while True:
            batch = self._read()
            self._next += 1
            if self._next > number:
                return batch if self._transform is None else self._transform(batch)

    def _read(self) -> Any:
        if self._iterator is None:
            self._iterator = self._opened()
        batch = next(self._iterator, self)
        if batch is not self:
            return batch
        again, had = self._next, self._iterator.step
        self.close()
        self._next, self._iterator = again, self._opened()
        if had == 0:
            raise HostsError(
                "this process has no batch at all, so it has none to repeat. Give every process at "
                'least one batch, or pass on_uneven="pad" or "drop".'
            )
        return next(self._iterator)

    def _opened(self) -> Any:
        iterator: Any = iter(self._loader)
        # else it would warn of an epoch that is repeated, as is wanted here
        iterator.set_state(iterator.get_state())
        return iterator

    def close(self) -> None:
        """Stop reading the batches that are supplied after the end of the loader.

        May be called twice.
        """
        iterator, self._iterator, self._next = self._iterator, None, 0
        if iterator is not None:
            iterator.close()
