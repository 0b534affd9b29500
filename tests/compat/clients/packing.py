"""In the manner of MaxText's packing: documents are cut, packed first fit with positions and
segments, and batched.
"""

import grain
import numpy as np


def document(index):
    """Of one token to fourteen."""
    tokens = np.arange(index % 14 + 1) + 100 * index
    return {"inputs": tokens, "targets": tokens + 1}


def cut(element):
    """To the longest row that there is."""
    return {name: tokens[:12] for name, tokens in element.items()}


def pipeline(workers=0):
    """What the program trains on."""
    dataset = grain.MapDataset.range(70).seed(3).shuffle().map(document).map(cut).to_iter_dataset()
    lengths = {"inputs": 12, "targets": 12}
    packed = grain.experimental.FirstFitPackIterDataset(
        dataset, length_struct=lengths, num_packing_bins=5
    )
    return packed.batch(3).mp_prefetch(grain.MultiprocessingOptions(workers))


if __name__ == "__main__":
    print(len(list(pipeline())))
