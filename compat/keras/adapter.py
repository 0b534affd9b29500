"""Feed headrace's batches to Keras, and keep the data state after each batch the model trained on.

In: the data that a user passes to `fit`, `evaluate` or `predict`. Out: a Keras data adapter, which
gives an iterator for each epoch.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.data_adapter_utils import get_jax_iterator, get_numpy_iterator

from ...chains import MapDataset
from ...chains.iter_dataset import IterMethods
from ...common.messages import a_kind_of
from ...loader.data_loader import LoaderMethods
from ...loader.device.description import DeviceLoader
from ...loader.loader_description import LoaderDescription
from ...loader.plan.steps.lookup import number_of


class _Latest(threading.local):
    """Adapter of the latest call of fit, evaluate or predict of this thread; None: not of ours."""

    adapter: StreamAdapter | None = None


_LATEST = _Latest()
_END = object()


def chosen(
    choose: Callable[..., Any],
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *arguments: Any,
    **options: Any,
) -> Any:
    """Return headrace's data adapter for a headrace loader or dataset.

    For other data, return what `choose` returns. The adapter is kept for `latest_adapter`.

    Args:
        choose: Keras's function that chooses a data adapter; called with all other arguments.
        x: the data that the user passed.
        y: targets; must be None with headrace's data.
        sample_weight: weights; must be None with headrace's data.
        *arguments: passed to `choose`.
        **options: passed to `choose`.

    Raises:
        ValueError: if targets, sample or class weights are passed beside headrace's data, or the
            data has no end and no `steps_per_epoch`.
    """
    _LATEST.adapter = None
    if not isinstance(x, (LoaderMethods, MapDataset, IterMethods, DeviceLoader)):
        return choose(x, y, sample_weight, *arguments, **options)
    for name, value in {
        "y": y,
        "sample_weight": sample_weight,
        "class_weight": options.get("class_weight"),
    }.items():
        if value is not None:
            raise ValueError(
                f"{name}= was passed together with {a_kind_of(x)}. Leave it out, and let the "
                "batches be tuples (inputs, targets) or (inputs, targets, weights)."
            )
    _LATEST.adapter = StreamAdapter(x, options.get("steps_per_epoch"))
    return _LATEST.adapter


def latest_adapter() -> StreamAdapter | None:
    """Return the adapter of the data last passed to a model on this thread.

    The result is None if that data was not headrace's.
    """
    return _LATEST.adapter


class StreamAdapter(DataAdapter):  # type: ignore[misc]
    """Keras's data adapter for headrace.

    Each epoch is one pass over the data, or the next `steps_per_epoch` batches.

    With `steps_per_epoch`, a stream that ends exactly where an epoch ends starts again for the next
    epoch. Keras's TensorFlow and PyTorch backends raise NotImplementedError.

    Args:
        dataset: a loader or dataset of headrace.
        steps_per_epoch: number of batches in an epoch; None: a whole pass.

    Raises:
        ValueError: if the data has no end and `steps_per_epoch` is None.
    """

    def __init__(self, dataset: Any, steps_per_epoch: int | None) -> None:
        self._dataset = dataset
        self._steps = steps_per_epoch
        self._followed: FollowedPasses | None = None
        self._length = _length(dataset)
        if self._length is None and steps_per_epoch is None and _is_endless(dataset):
            raise ValueError(
                f"this {type(dataset).__name__} never ends, so an epoch would never end. Pass "
                "steps_per_epoch= to fit (steps= to evaluate and predict), or end it: pass "
                "num_epochs=1 to load() or "
                'to the sampler, when_exhausted="all" to a MixSampler, or leave repeat() out.'
            )

    def follow(self) -> FollowedPasses:
        """Start to record the state after each batch, and return the object that keeps it.

        Call it before the first batch is read.
        """
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
        raise _other_backend(name="tensorflow")

    def get_torch_dataloader(self) -> Any:
        raise _other_backend(name="torch")

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
    """Passes over a dataset, with the state after the last batch that the model trained on.

    One batch is read ahead, to know whether a batch is the last of its pass.

    Args:
        dataset: `iter(dataset)` begins a pass.
        endless: True continues with the next pass in the same iterator.
    """

    def __init__(self, dataset: Any, endless: bool) -> None:
        self._dataset = dataset
        self._endless = endless
        self._present: Any = None  # the iterator of the current pass; None: between two
        # of batches not yet trained on: the state after, whether the last
        self._handed: deque[tuple[Any, bool]] = deque()
        self._state: Any = (
            None  # after the batch that was trained on last; None: between two passes
        )

    def batches(self) -> Iterator[Any]:
        """Yield the batches of the current pass, or of the next one if there is none.

        If `endless`, yield the batches of all later passes, too.
        """
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
        """Record that the model has trained on up to `at_most` more of the delivered batches.

        Returns:
            the number of batches recorded, and True if a pass ended with the last of them.
        """
        count, ends = min(at_most, len(self._handed)), False
        for _ in range(count):
            state, ends = self._handed.popleft()
            self._state = None if ends else state
        return count, ends

    def get_state(self) -> Any:
        """Return the state after the last batch that the model trained on.

        Between two passes, the state of the start.
        """
        return self._state if self._state is not None else self._fresh_state()

    def set_state(self, state: Any, **options: bool) -> None:
        """Stop the current pass; begin the next one at this state of an iterator over the dataset.

        Args:
            state: the state.
            **options: `strict`, as for the iterator's `set_state`.
        """
        self.close()
        self._present = iter(self._dataset)
        self._present.set_state(state, **options)
        self._state = state

    def set_states(self, states: Sequence[Any], **options: bool) -> None:
        """Stop this pass; begin the next one where a run on another number of shards stopped.

        Args:
            states: states of iterators over the dataset, one of each shard of that run.
            **options: `strict` and `equal_steps`, as for the iterator's `set_states`.
        """
        self.close()
        self._present = iter(self._dataset)
        self._present.set_states(states, **options)
        self._state = self._present.get_state()

    def start_prefetch(self) -> None:
        """Start to read the next batches ahead. Between two passes, this begins the next one."""
        self._present = self._present or iter(self._dataset)
        self._present.start_prefetch()

    def close(self) -> None:
        """Stop the work of the current pass."""
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
    """Return the number of batches of a pass, or None if it is unknown or there is no end."""
    description = _description_of(dataset)
    try:
        if isinstance(dataset, Sized) or description is None:
            length = len(dataset)
        else:
            length = number_of(description.pipeline, (0, 0), description.skipped_steps)
    except (TypeError, OverflowError):
        return None
    return None if length >= 1 << 62 else length  # Grain's length of what has no end


def _description_of(dataset: Any) -> LoaderDescription | None:
    return dataset.loader_description if isinstance(dataset, (LoaderMethods, IterMethods)) else None


def _is_endless(dataset: Any) -> bool:
    description = _description_of(dataset)
    return description is not None and description.pipeline.endless


def _other_backend(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"Keras uses {name} here, but headrace's loaders and datasets feed only its JAX backend. "
        "Set KERAS_BACKEND=jax."
    )
