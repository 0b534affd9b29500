"""A mixture as frameworks for language models write it: weights from JSON, hosts, windows, packing
with BOS, padding.
"""

import functools
import json
import keyword

import grain
import numpy as np
from grain.experimental import (
    BOSHandling,
    ConcatThenSplitIterDataset,
    FirstFitPackIterDataset,
    InterleaveIterDataset,
    WindowShuffleIterDataset,
)

WEIGHTS = json.loads('{"web": 0.7, "books": 0.2, "code": 0.1}')
HOST, HOSTS = 1, 2


def documents(name, count):
    """Token arrays of unequal length."""
    rng = np.random.default_rng(len(name))
    return [rng.integers(2, 100, rng.integers(3, 20)).astype(np.int32) for _ in range(count)]


def corpus(name, count):
    """The part of a corpus for this host."""
    dataset = grain.MapDataset.source(documents(name, count)).shuffle(seed=len(name)).repeat(None)
    return dataset[HOST::HOSTS].map(lambda tokens: {"inputs": tokens})


by_name = {name: corpus(name, 40) for name in WEIGHTS}
mixed = grain.MapDataset.mix([by_name[name] for name in WEIGHTS], list(WEIGHTS.values()))
stream = mixed.seed(7).to_iter_dataset()
packed = ConcatThenSplitIterDataset(
    stream,
    length_struct={"inputs": 32},
    bos_handling=BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
    bos_features=("inputs",),
    bos_token_id=1,
)
batches = iter(packed.batch(4))

files = [
    grain.MapDataset.source(documents(word, 8)).to_iter_dataset() for word in keyword.kwlist[:5]
]
interleaved = WindowShuffleIterDataset(
    InterleaveIterDataset(files, cycle_length=3), window_size=10, seed=3
)
bins = FirstFitPackIterDataset(
    interleaved.map(lambda tokens: {"inputs": tokens, "targets": tokens[1:]}),
    length_struct={"inputs": 40, "targets": 40},
    num_packing_bins=4,
    seed=2,
    max_sequences_per_bin=3,
)
pad = functools.partial(grain.experimental.batch_and_pad, batch_size=3)
padded = bins.batch(3, batch_fn=pad).mp_prefetch(grain.MultiprocessingOptions(num_workers=WORKERS))  # noqa: F821
elements = [*(next(batches) for _ in range(6)), *padded]
