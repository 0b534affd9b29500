"""A Keras callback that saves model, optimizer, metrics and data state together during `fit`.

In: the model, and the data it trains on. Out: Orbax checkpoints; a later run resumes from the last
one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ...common.lazy_exports import optional_library
from ...common.messages import shorten
from ...common.validation import whole_number
from ...errors import CheckpointError
from .adapter import latest_adapter

keras = optional_library(
    "keras", "SaveAndResume needs Keras and its JAX backend (KERAS_BACKEND=jax)", "keras"
)
ocp = optional_library("orbax.checkpoint", "SaveAndResume writes checkpoints with Orbax", "keras")

from ...checkpoint.orbax import CheckpointRestore, CheckpointSave  # noqa: E402 (needs Orbax)

Arrays: TypeAlias = Mapping[str, Any]


@dataclass
class TrainingPlace:
    """Numbers of epochs and steps (trained batches) that a run has completed.

    Attributes:
        epoch: number of completed epochs.
        step_in_epoch: number of batches that the model was trained on since the last completed
            epoch.
        step: number of batches of the whole run that it was trained on.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0


class _EpochEnds:
    """Marker in `model.stop_training` while an epoch ends, since Keras may not know that it ends.

    Keras only tests whether `model.stop_training` is true.
    """


_EPOCH_ENDS = _EpochEnds()


class SaveAndResume(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    """Save model, optimizer, metrics and data state while `fit` runs.

    Run the same program again to resume.

    A run that was killed and started again ends with the same weights, bit for bit, and gives the
    same losses and metrics for each epoch. It resumes in the middle of an epoch; Keras counts the
    remaining batches of that epoch from 0. Without `steps_per_epoch`, an epoch is one pass over the
    data. With `steps_per_epoch`, an epoch also ends where a pass ends.

    The state of other callbacks is not saved. Put this callback last, and let learning rates depend
    on the epoch or the step.

    Args:
        directory: path or URL for the checkpoints of this run alone; read when `fit` begins.
        every: number of batches between checkpoints. None (default): a checkpoint only at the end
            of each epoch, which is written in any case.
        max_to_keep: number of checkpoints to keep (default 2); older ones are deleted.

    Raises:
        MissingExtraError: if Keras or Orbax is not installed.
        TypeError: by `fit`, if `x` is not a loader or dataset of headrace.
        ValueError: if `every` or `max_to_keep` is not positive.
        CheckpointError: by `fit`, if the checkpoint is one of another model or of other data.

    >>> import tempfile, keras, numpy as np, headrace
    >>> from headrace.compat.keras import SaveAndResume
    >>> x = np.ones((8, 3), np.float32)
    >>> data = headrace.MapDataset.source({"x": x, "y": x[:, :1]}).shuffle(seed=0)
    >>> batches = data.map(lambda row: (row["x"], row["y"])).batch(2)
    >>> model = keras.Sequential([keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saves = SaveAndResume(folder, every=3)
    ...     history = model.fit(batches, epochs=2, verbose=0, callbacks=[saves])
    >>> len(history.history["loss"])
    2
    """

    def __init__(
        self, directory: str | os.PathLike[str], every: int | None = None, max_to_keep: int = 2
    ) -> None:
        super().__init__()
        self._directory = directory if "://" in str(directory) else Path(directory).absolute()
        self._every = (
            None
            if every is None
            else whole_number("every", every, 1, None, "a number of batches, or None")
        )
        self._max_to_keep = whole_number(
            "max_to_keep", max_to_keep, 1, None, "a number of checkpoints"
        )
        self._manager: Any = None
        self._passes: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the folder of checkpoints. Restore the last checkpoint, if there is one.

        Raises:
            TypeError: if `x` of `fit` is not a loader or dataset of headrace.
            CheckpointError: if the checkpoint is one of another model or of other data.
        """
        self._close()
        adapter = latest_adapter()
        if adapter is None:
            raise TypeError(
                "SaveAndResume works only if x= of fit is a loader or dataset of headrace. Pass a "
                "loader or a dataset as x=."
            )
        self._passes = adapter.follow()
        self._place = TrainingPlace()
        self._saved_step = self._seen = (
            0  # of the run; batches of this epoch that Keras has counted
        )
        self._metrics: Arrays | None = None  # of the epoch that the earlier run had begun
        options = ocp.CheckpointManagerOptions(max_to_keep=self._max_to_keep, create=True)
        self._manager = ocp.CheckpointManager(self._directory, options=options)
        if (latest := self._manager.latest_step()) is not None:
            self._restore(latest)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Restore the metrics of an epoch that an earlier run had begun.

        Only in the first epoch after a resume.
        """
        self._seen, self._is_over = 0, False
        metrics, self._metrics = self._metrics, None
        if metrics is not None:
            _assign(_named(metrics=self.model.metrics_variables), metrics)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Save a checkpoint `every` batches, and end the epoch if it is over.

        An epoch is over after `steps_per_epoch` batches or at the end of a pass. For an epoch that
        an earlier run began, Keras itself does not know this.
        """
        count, ends = self._passes.trained(batch + 1 - self._seen)
        self._seen = batch + 1
        self._place.step += count
        self._place.step_in_epoch += count
        self._is_over = ends or self._place.step_in_epoch == self.params["steps"]
        if self._is_over:
            self.model.stop_training = self.model.stop_training or _EPOCH_ENDS
        elif self._every is not None and self._place.step - self._saved_step >= self._every:
            self._save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Save a checkpoint, unless nothing was trained on since the last one.

        An epoch that another callback interrupted does not count as completed.
        """
        if self.model.stop_training is _EPOCH_ENDS:
            self.model.stop_training = False
        if self._is_over:
            self._place.epoch, self._place.step_in_epoch = epoch + 1, 0
        if self._place.step > self._saved_step:
            self._save()

    def on_train_end(self, logs: Any = None) -> None:
        """Wait until all checkpoints are written, and stop reading data."""
        self._begin_at(0)
        self._close()

    def _close(self) -> None:
        for each in (self._passes, self._manager):
            if each is not None:
                each.close()
        self._passes = self._manager = None

    def _begin_at(self, epoch: int) -> None:
        self.model._initial_epoch = (
            epoch  # as Keras's BackupAndRestore does: there is no public way from a callback
        )

    def _variables(self) -> dict[str, Any]:
        model = self.model
        return _named(
            model=model.variables,
            optimizer=model.optimizer.variables,
            metrics=model.metrics_variables,
        )

    def _save(self) -> None:
        arrays = {name: np.array(variable.value) for name, variable in self._variables().items()}
        place = {**asdict(self._place), "arrays": _shapes(arrays)}
        args = ocp.args.Composite(
            place=ocp.args.JsonSave(place),
            arrays=ocp.args.StandardSave(arrays),
            data=CheckpointSave(self._passes),
        )
        self._manager.save(self._place.step, args=args, force=True)
        self._saved_step = self._place.step

    def _restore(self, step: int) -> None:
        variables = self._variables()
        wanted = {name: np.zeros(value.shape, value.dtype) for name, value in variables.items()}
        place = dict(
            self._manager.restore(step, args=ocp.args.Composite(place=ocp.args.JsonRestore())).place
        )
        saved, own = place.pop("arrays"), _shapes(wanted)
        if differing := sorted(name for name in {*saved, *own} if saved.get(name) != own.get(name)):
            name = differing[0]
            raise CheckpointError(
                f"{shorten(self._directory)} has a checkpoint of another model: {name} is "
                f"{saved.get(name, 'absent')} there, but {own.get(name, 'absent')} here. Pass "
                "another directory, or build and compile the model as it was."
            )
        args = ocp.args.Composite(
            arrays=ocp.args.StandardRestore(wanted), data=CheckpointRestore(self._passes)
        )
        arrays = self._manager.restore(step, args=args).arrays
        _assign(variables, arrays)
        self._place = TrainingPlace(**place)
        self._saved_step = self._place.step
        if self._place.step_in_epoch:
            self._metrics = {
                name: arrays[name] for name in _named(metrics=self.model.metrics_variables)
            }
        self._begin_at(self._place.epoch)


def _named(**groups: Sequence[Any]) -> dict[str, Any]:
    """Return a dict of variables by keys such as "model.0": the name of the group and a number.

    Names of variables are not used, since two variables may have the same name.
    """
    return {
        f"{group}.{number}": each
        for group, variables in groups.items()
        for number, each in enumerate(variables)
    }


def _shapes(arrays: Arrays) -> dict[str, str]:
    return {name: f"{array.dtype}{list(array.shape)}" for name, array in arrays.items()}


def _assign(variables: Mapping[str, Any], arrays: Arrays) -> None:
    for name, variable in variables.items():
        variable.assign(arrays[name])
