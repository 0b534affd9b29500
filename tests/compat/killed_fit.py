"""A program that trains with Keras and may be killed: what it ends with is in a file.

In: a folder for checkpoints, the kind of data, after how many batches to die (0: never), and a
file. Out: losses and weights.
"""

import json
import os
import signal
import sys

import jax
import keras
import numpy as np

import headrace
import headrace.compat.grain as grain
from headrace.compat.keras import SaveAndResume

RECORDS, BATCH = 44, 8


def example(number):
    """Inputs and target, one made of the other."""
    x = np.random.default_rng(int(number)).random(3, np.float32)
    return x, x.sum(keepdims=True)


def kept(number):
    """Most of them; how many is not known before."""
    return number % 5 != 1


DATA = {
    "loader": lambda: headrace.load(
        range(RECORDS),
        shuffle=True,
        seed=3,
        batch_size=BATCH,
        transformations=[example],
        worker_count=2,
    ),
    "filtered": lambda: (
        headrace.MapDataset.range(RECORDS)
        .shuffle(seed=3)
        .filter(kept)
        .map(example)
        .to_iter_dataset()
        .batch(BATCH)
    ),
    "ahead": lambda: DATA["loader"](),
    "parallel": lambda: DATA["loader"](),
    "device": lambda: DATA["loader"]().to_device(jax.devices()[0]),
    "grain_loader": lambda: grain.load(
        list(range(RECORDS)),
        shuffle=True,
        seed=3,
        batch_size=BATCH,
        num_epochs=None,
        transformations=[Example()],
    ),
    "grain_map": lambda: grain.MapDataset.range(RECORDS).shuffle(seed=3).map(example).batch(BATCH),
    "grain_iter": lambda: (
        grain.MapDataset.range(RECORDS)
        .shuffle(seed=3)
        .to_iter_dataset()
        .filter(kept)
        .map(example)
        .batch(BATCH)
    ),
}
"""Endless ones have epochs of so many steps; the others end."""
STEPS = {"ahead": 5, "parallel": 5, "loader": 5, "device": 5, "grain_loader": 5}


class Example(grain.transforms.Map):
    """The same, as a class."""

    def map(self, element):
        return example(element)


class Dies(keras.callbacks.Callback):
    """After so many batches of this process, as if the machine went away."""

    def __init__(self, after):
        super().__init__()
        self.left = after

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


def model():
    """With dropout, whose seeds are state, too."""
    keras.utils.set_random_seed(5)
    made = keras.Sequential(
        [keras.layers.Dense(4), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
    )
    made.compile("adam", "mse", metrics=["mae"])
    return made


class Waits(SaveAndResume):
    """Has each checkpoint be written before it goes on, so that a test knows which one there is."""

    def _save(self):
        super()._save()
        self._manager.wait_until_finished()


def main(folder, kind, after, file):
    """Train for four epochs, on from where a former run was killed."""
    if kind == "ahead":  # as on an accelerator, Keras takes a batch more than it trains on
        jax.default_backend = lambda: "gpu"
    if kind == "parallel":
        jax.config.update("jax_num_cpu_devices", 2)
        keras.distribution.set_distribution(keras.distribution.DataParallel())
    fitted = model()
    validation = headrace.MapDataset.range(12).map(example).batch(4)
    history = fitted.fit(
        DATA[kind](),
        epochs=4,
        steps_per_epoch=STEPS.get(kind),
        validation_data=validation,
        verbose=0,
        callbacks=[Waits(folder, every=3), Dies(int(after))],
    )
    with open(file, "w") as opened:
        json.dump(
            {"logs": history.history, "weights": [w.tolist() for w in fitted.get_weights()]}, opened
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
