"""Batches for Keras: of a pass over a loader or dataset, and in training with the place after each.

In: what a user passes to `fit`, `evaluate` or `predict`. Out: Keras's data adapter, which gives iterators to its epochs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.data_adapter_utils import get_jax_iterator, get_numpy_iterator

from ...chains import MapDataset
from ...chains.iter_dataset import IterMethods
from ...common.messages import a_kind_of
from ...loader.data_loader import LoaderMethods
from ...loader.device.description import DeviceLoader
from ...loader.plan.steps.lookup import number_of

_LATEST = (
    threading.local()
)  # .adapter: of the latest call of fit, evaluate or predict of this thread; None: not of ours
_END = object()


def chosen(
    choose: Callable[..., Any], x: Any, y: Any = None, sample_weight: Any = None, *arguments: Any, **options: Any
) -> Any:
    """Our data adapter if `x` is one of our streams, else what `choose`, Keras's function for this, makes of all arguments.

    Raises ValueError: targets or weights are beside the stream, or it has no end.
    """
    _LATEST.adapter = None
    if not isinstance(x, (LoaderMethods, MapDataset, IterMethods, DeviceLoader)):
        return choose(x, y, sample_weight, *arguments, **options)
    for name, value in {"y": y, "sample_weight": sample_weight, "class_weight": options.get("class_weight")}.items():
        if value is not None:
            raise ValueError(
                f"{name} was passed beside {a_kind_of(x)}; have its batches be tuples (inputs, targets) or (inputs, targets, "
                "weights), and leave it out."
            )
    _LATEST.adapter = StreamAdapter(x, options.get("steps_per_epoch"))
    return _LATEST.adapter


def latest_adapter() -> StreamAdapter | None:
    """The adapter of what this thread passed last to a model; None: that was nothing of ours."""
    return getattr(_LATEST, "adapter", None)


class StreamAdapter(DataAdapter):  # type: ignore[misc]
    """Keras's way to our batches: each epoch is a pass, or the next `steps_per_epoch` batches.

    With `steps_per_epoch`, a stream that ends together with an epoch begins again in the next.
    """

    def __init__(self, dataset: Any, steps_per_epoch: int | None) -> None:
        self._dataset = dataset
        self._steps = steps_per_epoch
        self._followed: FollowedPasses | None = None
        self._length = _length(dataset)
        if self._length is None and steps_per_epoch is None and _is_endless(dataset):
            raise ValueError(
                f"this {type(dataset).__name__} has no end, and an epoch would last for ever: pass steps_per_epoch= to fit "
                "(steps= to evaluate and predict), or give it num_epochs=1."
            )

    def follow(self) -> FollowedPasses:
        """From now on, keep the place after each batch. To be called before a batch is taken."""
        self._followed = FollowedPasses(self._dataset, endless=self._steps is not None)
        return self._followed

    def _batches(self) -> Iterator[Any]:
        if self._followed is not None:
            yield from self._followed.batches()
            return
        given = 0
        while True:
            before = given
            iterator = iter(self._dataset)
            try:
                for batch in iterator:
                    given += 1
                    yield batch
            finally:
                iterator.close()
            if given == before or self._steps is None or given % self._steps:
                return

    def get_jax_iterator(self) -> Iterator[Any]:
        return get_jax_iterator(self._batches())  # type: ignore[no-any-return]

    def get_numpy_iterator(self) -> Iterator[Any]:
        return get_numpy_iterator(self._batches())  # type: ignore[no-any-return]

    def get_tf_dataset(self) -> Any:
        raise _other_backend("tensorflow")

    def get_torch_dataloader(self) -> Any:
        raise _other_backend("torch")

    @property
    def num_batches(self) -> int | None:
        return None if self._steps is not None else self._length

    @property
    def batch_size(self) -> None:
        return None

    @property
    def has_partial_batch(self) -> None:
        return None

    @property
    def partial_batch_size(self) -> None:
        return None


class FollowedPasses:
    """Pass after pass over a dataset, with the place after each batch that the model has trained on.

    One batch is read ahead, so that the last of a pass is known as such when it is trained on.

    Args:
        dataset: begins a pass with each `iter`.
        endless: the next pass follows at once, in the same iterator.
    """

    def __init__(self, dataset: Any, endless: bool) -> None:
        self._dataset = dataset
        self._endless = endless
        self._present: Any = None  # the iterator of the present pass; None: between two
        self._handed: deque[tuple[Any, bool]] = (
            deque()
        )  # of batches not yet trained on: the state after, whether the last
        self._state: Any = None  # after the batch that was trained on last; None: between two passes

    def batches(self) -> Iterator[Any]:
        """The batches of the present pass, or of the next one; of all that follow, if endless."""
        self._handed.clear()
        while True:
            iterator = self._present = self._present or iter(self._dataset)
            ahead = next(iterator, _END)
            if ahead is _END:
                return
            while ahead is not _END:
                batch, state = ahead, iterator.get_state()
                ahead = next(iterator, _END)
                if ahead is _END:
                    self.close()
                self._handed.append((state, ahead is _END))
                yield batch  # perhaps nobody asks for more
            if not self._endless:
                return

    def trained(self, at_most: int) -> tuple[int, bool]:
        """Note that the model has trained on so many batches more, or on all there were: their count, and if a pass ended."""
        count, ends = min(at_most, len(self._handed)), False
        for _ in range(count):
            state, ends = self._handed.popleft()
            self._state = None if ends else state
        return count, ends

    def get_state(self) -> Any:
        """The place after the batch that was trained on last."""
        return self._state if self._state is not None else self._fresh_state()

    def set_state(self, state: Any) -> None:
        """Have the next pass begin there."""
        self.close()
        self._present = iter(self._dataset)
        self._present.set_state(state)
        self._state = state

    def start_prefetch(self) -> None:
        """Begin to read what comes next."""
        self._present.start_prefetch()

    def close(self) -> None:
        """Stop the work of the present pass."""
        present, self._present = self._present, None
        if present is not None:
            present.close()

    def _fresh_state(self) -> Any:
        iterator = iter(self._dataset)
        try:
            return iterator.get_state()
        finally:
            iterator.close()


def _length(dataset: Any) -> int | None:
    """Number of batches of a pass; None if it is not known before. Streams under Grain's names have no `len()`."""
    description = getattr(dataset, "loader_description", None)
    try:
        if hasattr(type(dataset), "__len__") or description is None:
            length = len(dataset)
        else:
            length = number_of(description.pipeline, (0, 0), description.skipped_steps)
    except (TypeError, OverflowError):
        return None
    return None if length >= 1 << 62 else length  # Grain's length of what has no end


def _is_endless(dataset: Any) -> bool:
    description = getattr(dataset, "loader_description", None)
    return description is not None and description.pipeline.endless


def _other_backend(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"Keras runs on {name} here; headrace's loaders and datasets feed its JAX backend: set KERAS_BACKEND=jax."
    )
