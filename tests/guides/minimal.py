"""The first program of a guide: a source, a shuffle, a map, batches."""

import grain
import numpy as np
from sklearn.datasets import load_digits

images, labels = load_digits(return_X_y=True)
dataset = (
    grain.MapDataset.source(list(zip(images.astype(np.uint8), labels)))
    .shuffle(seed=10)
    .map(lambda pair: {"image": pair[0].reshape(8, 8), "label": pair[1]})
    .batch(batch_size=32)
)
elements = [len(dataset), dataset[3], *dataset]
