"""Random programs for the real Grain and for ours: datasets nested in datasets, streams of these, packings.

In: a number. Out: a function of a Grain that makes a stream; the same number gives the same stream.
"""

import random

import numpy as np


def noisy(x, rng):
    """Draws twice."""
    return (x, rng.random(), int(rng.integers(1000)))


def number_of(x):
    """A whole number of any element."""
    if isinstance(x, dict):
        return number_of(x[min(x)]) if x else 0
    if isinstance(x, (list, tuple)):
        return number_of(x[0]) if len(x) else 0
    return int(np.asarray(x).sum()) if isinstance(x, (np.ndarray, np.generic)) else int(x or 0)


def document(x):
    """Token arrays whose lengths depend on a number; some are empty."""
    n = number_of(x)
    return {
        "x": np.arange(1, 1 + n * 7 % 11, dtype=np.int32),
        "y": np.full(n * 5 % 6, n % 100, np.int64),
        "id": n % 5 + 1,
        "e": np.ones((n * 3 % 4, 2), np.float32) * (n % 9),
    }


class Copies:
    """The functions of a flat map: several of an element, or none."""

    def __init__(self, most):
        self.max_fan_out = most

    def flat_map(self, element):
        return [(element, number) for number in range(number_of(element) % (self.max_fan_out + 1))]


def flat_map(g, most):
    """A flat map of either Grain."""
    return type("FlatMap", (Copies, g.experimental.FlatMapTransform), {})(most)


def every_so_manieth(n):
    """A filter."""
    return lambda x: number_of(x) % (n % 3 + 2)


def leaf(g, r):
    """Consecutive numbers."""
    start = r.randrange(200)
    return g.MapDataset.range(start, start + r.choice([1, 2, 3, 5, 8, 13, 21]))


def several(make, g, r, depth):
    """Some datasets of a kind."""
    return [make(g, r, depth - 1) for _ in range(r.randint(1, 3))]


MAP_METHODS = {
    "seed": lambda g, d, r, n: d.seed(n),
    "shuffle": lambda g, d, r, n: d.shuffle(seed=n),
    "seeded shuffle": lambda g, d, r, n: d.seed(n).shuffle(),
    "map": lambda g, d, r, n: d.map(lambda x: (x, n)),
    "random map": lambda g, d, r, n: d.random_map(noisy, seed=n),
    "map with index": lambda g, d, r, n: d.map_with_index(lambda i, x: (x, i)),
    "filter": lambda g, d, r, n: d.filter(every_so_manieth(n)),
    "repeat": lambda g, d, r, n: d.repeat(n % 3 + 1, reseed_each_epoch=n % 2 == 0),
    "slice": lambda g, d, r, n: d[n % 3 :: n % 2 + 1],
    "head": lambda g, d, r, n: d[: n % 9 + 1],
    "backwards": lambda g, d, r, n: d[::-1],
    "window": lambda g, d, r, n: g.experimental.WindowShuffleMapDataset(d, window_size=n % 5 + 1, seed=n),
    "zip": lambda g, d, r, n: g.experimental.ZipMapDataset([d, d.shuffle(seed=n)]),
    "flat map": lambda g, d, r, n: g.experimental.FlatMapMapDataset(d, flat_map(g, n % 3 + 1)),
    "batch": lambda g, d, r, n: d.batch(n % 3 + 1, drop_remainder=n % 2 == 0, batch_fn=list),
}

STREAM_METHODS = {
    "seed": lambda g, d, r, n: d.seed(n),
    "map": lambda g, d, r, n: d.map(lambda x: (x, n)),
    "random map": lambda g, d, r, n: d.random_map(noisy, seed=n),
    "seeded random map": lambda g, d, r, n: d.seed(n).random_map(noisy),
    "map with index": lambda g, d, r, n: d.map_with_index(lambda i, x: (x, i)),
    "filter": lambda g, d, r, n: d.filter(every_so_manieth(n)),
    "window": lambda g, d, r, n: g.experimental.WindowShuffleIterDataset(d, window_size=n % 5 + 1, seed=n),
    "limit": lambda g, d, r, n: g.experimental.LimitIterDataset(d, n % 9 + 3),
    "repeat": lambda g, d, r, n: g.experimental.RepeatIterDataset(d, n % 2 + 1),
    "cache": lambda g, d, r, n: g.experimental.CacheIterDataset(d),
    "flat map": lambda g, d, r, n: g.experimental.FlatMapIterDataset(d, flat_map(g, n % 3 + 1)),
    "batch": lambda g, d, r, n: d.batch(n % 4 + 1, drop_remainder=n % 2 == 0, batch_fn=list),
    "rebatch": lambda g, d, r, n: g.experimental.RebatchIterDataset(
        d.map(number_of).batch(n % 4 + 1), n % 3 + 1, drop_remainder=n % 2 == 0
    ),
    "prefetch on a thread": lambda g, d, r, n: g.experimental.ThreadPrefetchIterDataset(d, prefetch_buffer_size=n % 4),
    "no workers": lambda g, d, r, n: d.mp_prefetch(g.MultiprocessingOptions(0)),
    "options": lambda g, d, r, n: g.experimental.WithOptionsIterDataset(d, g.experimental.DatasetOptions()),
}


def indexed(g, r, depth):
    """A MapDataset."""
    kind = r.random()
    if depth <= 0 or kind < 0.5:
        dataset = leaf(g, r)
    else:
        parts = several(indexed, g, r, depth)
        weights = [r.choice([1, 0.3, 2.5, 7]) for _ in parts]
        dataset = g.MapDataset.mix(parts, weights) if kind < 0.8 else g.MapDataset.concatenate(parts)
    for _ in range(r.randint(0, 3)):
        dataset = MAP_METHODS[r.choice([*MAP_METHODS])](g, dataset, r, r.randrange(21))
    return dataset


def stream(g, r, depth):
    """An IterDataset."""
    is_one = depth <= 0 or r.random() < 0.5
    dataset = indexed(g, r, depth).to_iter_dataset() if is_one else joined(g, r, several(stream, g, r, depth))
    for _ in range(r.randint(0, 3)):
        dataset = STREAM_METHODS[r.choice([*STREAM_METHODS])](g, dataset, r, r.randrange(21))
    return packed(g, r, dataset) if r.random() < 0.25 else dataset


def joined(g, r, parts):
    """One stream of several."""
    weights = [r.choice([1, 0.3, 2.5, 7]) for _ in parts]
    return r.choice(
        [
            lambda: g.IterDataset.mix(parts, weights),
            lambda: g.IterDataset.mix({f"{9 - i}": each for i, each in enumerate(parts)}),
            lambda: g.experimental.ZipIterDataset(parts, strict=False),
            lambda: g.experimental.ZipIterDataset(parts),
            lambda: g.experimental.InterleaveIterDataset(parts, cycle_length=len(weights) // 2 + 1),
        ]
    )()


def packed(g, r, dataset):
    """Rows of documents."""
    features = r.sample(["x", "y", "e"], r.randint(1, 3))
    lengths = {name: r.choice([10, 12, 33]) for name in features}
    documents = dataset.map(document)
    meta = tuple(r.sample(["id", *features], r.randint(0, 1)))
    if r.random() < 0.3:
        return concatenated(g, r, documents, lengths, [name for name in meta if name != "id"])
    kind = r.choice([g.experimental.FirstFitPackIterDataset, g.experimental.BestFitPackIterDataset])
    return kind(
        documents,
        length_struct=lengths,
        num_packing_bins=r.choice([1, 2, 3, 5]),
        seed=r.randrange(5),
        shuffle_bins=r.random() < 0.7,
        shuffle_bins_group_by_feature=r.choice([None, None, *meta, *features[:1]]),
        meta_features=meta,
        max_sequences_per_bin=r.choice([None, None, 1, 2]),
        pack_alignment_struct=r.choice([None, None, dict.fromkeys(features, 4)]),
        padding_struct=r.choice([None, None, dict.fromkeys(features, -1)]),
    )


def concatenated(g, r, documents, lengths, meta):
    """Rows without padding."""
    kept = documents.map(lambda element: {name: element[name] for name in lengths})
    handling, others = g.experimental.BOSHandling, [name for name in lengths if name not in meta and name != "e"]
    bos = {}
    if r.random() < 0.3 and others:
        bos = {"bos_handling": handling.REPLACE_FIRST_TOKEN_WITH_BOS, "bos_features": others, "bos_token_id": 77}
    return g.experimental.ConcatThenSplitIterDataset(
        kept, length_struct=lengths, meta_features=meta, split_full_length_features=r.random() < 0.5, **bos
    )


def program(number):
    """The program of a number."""
    return lambda g: stream(g, random.Random(number), 2)
