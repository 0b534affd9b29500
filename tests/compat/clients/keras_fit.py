"""In the manner of Keras's guides: `fit` and `evaluate` on a dataset of inputs and targets."""

import os

import grain
import numpy as np


class Scaled(grain.transforms.Map):
    """Inputs and targets, as a model takes them."""

    def map(self, element):
        return element["image"].astype(np.float32) / 255, np.float32(element["label"])


class Flipped(grain.transforms.RandomMap):
    """Some of the inputs are turned round."""

    def random_map(self, element, rng):
        x, y = element
        return (x[::-1] if rng.random() < 0.5 else x), y


def pipeline(workers=0):
    """What the program trains on."""
    images = [{"image": np.arange(n, n + 5, dtype=np.uint8), "label": n % 2} for n in range(70)]
    dataset = (
        grain.MapDataset.source(images)
        .seed(7)
        .shuffle()
        .map(Scaled())
        .random_map(Flipped())
        .to_iter_dataset()
    )
    return dataset.batch(8).mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))


if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    model = keras.Sequential([keras.layers.Dense(3, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(pipeline(), epochs=2, validation_data=pipeline(), verbose=0)
    print(model.evaluate(pipeline(), verbose=0))
