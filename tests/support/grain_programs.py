"""Random programs for the real Grain and for ours: datasets nested in datasets, streams of these,
packings; loaders.

In: a number. Out: a function of a Grain that makes a stream, or a loader; the same number gives the
same one.
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


def array_of(x):
    """A tree of arrays of any element."""
    n = number_of(x)
    return {
        "n": np.arange(3, dtype=np.int16) + n,
        "deep": (np.float32(n) / 3, {"flag": n % 2 == 0}),
    }


def flat_map(g, most):
    """A flat map of either Grain."""
    return type("FlatMap", (Copies, g.experimental.FlatMapTransform), {})(most)


def every_so_manieth(n):
    """A filter."""
    return lambda x: number_of(x) % (n % 3 + 2)


def leaf(g, r):
    """Consecutive numbers."""
    start = r.randrange(200)
    return g.MapDataset.range(start, start + r.choice(r.sizes))


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
    "window": lambda g, d, r, n: g.experimental.WindowShuffleMapDataset(
        d, window_size=n % 5 + 1, seed=n
    ),
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
    "window": lambda g, d, r, n: g.experimental.WindowShuffleIterDataset(
        d, window_size=n % 5 + 1, seed=n
    ),
    "limit": lambda g, d, r, n: g.experimental.LimitIterDataset(d, n % 9 + 3),
    "repeat": lambda g, d, r, n: g.experimental.RepeatIterDataset(d, n % 2 + 1),
    "cache": lambda g, d, r, n: g.experimental.CacheIterDataset(d),
    "flat map": lambda g, d, r, n: g.experimental.FlatMapIterDataset(d, flat_map(g, n % 3 + 1)),
    "batch": lambda g, d, r, n: d.batch(n % 4 + 1, drop_remainder=n % 2 == 0, batch_fn=list),
    "rebatch": lambda g, d, r, n: g.experimental.RebatchIterDataset(
        d.map(number_of).batch(n % 4 + 1), n % 3 + 1, drop_remainder=n % 2 == 0
    ),
    "prefetch on a thread": lambda g, d, r, n: g.experimental.ThreadPrefetchIterDataset(
        d, prefetch_buffer_size=n % 4
    ),
    "no workers": lambda g, d, r, n: d.mp_prefetch(g.MultiprocessingOptions(0)),
    "options": lambda g, d, r, n: g.experimental.WithOptionsIterDataset(
        d, g.experimental.DatasetOptions()
    ),
}


class Fewer(random.Random):
    """Draws of a program, with the methods that it may have."""

    map_methods, stream_methods, packs = MAP_METHODS, STREAM_METHODS, 0.25
    endless = 0  # share of datasets that are repeated without end, of which a part is taken
    sizes = (1, 2, 3, 5, 8, 13, 21)


class More(Fewer):
    """With arrays, endless repetitions, packings in the middle, options of interleaves."""

    map_methods = MAP_METHODS | {
        "part of two epochs": lambda g, d, r, n: d.repeat(2)[n % 4 : len(d) + n % 5],
        "array": lambda g, d, r, n: d.map(array_of),
        "arrays in a batch": lambda g, d, r, n: d.map(array_of).batch(
            n % 4 + 1, drop_remainder=n % 3 == 0
        ),
        "without some": lambda g, d, r, n: d.filter(lambda x: number_of(x) % 7 != n % 7).filter(
            every_so_manieth(n)
        ),
        "epochs of a shuffle": lambda g, d, r, n: d.shuffle(seed=n).repeat(2).shuffle(seed=n + 1),
        "numbered epochs": lambda g, d, r, n: (
            d.repeat(2).map_with_index(lambda i, x: (x, i)).random_map(noisy, seed=n)
        ),
        "zip of a mix": lambda g, d, r, n: g.experimental.ZipMapDataset(
            [d, g.MapDataset.mix([d, d.map(lambda x: (x, "b"))], [1, n % 3 + 1])]
        ),
    }
    stream_methods = STREAM_METHODS | {
        "array": lambda g, d, r, n: d.map(array_of),
        "arrays in a batch": lambda g, d, r, n: d.map(array_of).batch(
            n % 4 + 1, drop_remainder=n % 3 == 0
        ),
        "padded batch": lambda g, d, r, n: d.map(array_of).batch(
            n % 4 + 1,
            batch_fn=lambda rows: g.experimental.batch_and_pad(rows, batch_size=n % 4 + 1),
        ),
        "packed": lambda g, d, r, n: packed(g, r, d),
        "windows in windows": lambda g, d, r, n: g.experimental.WindowShuffleIterDataset(
            g.experimental.WindowShuffleIterDataset(d, window_size=n % 3 + 1, seed=n),
            window_size=4,
            seed=n,
        ),
        "interleave with buffers": lambda g, d, r, n: g.experimental.InterleaveIterDataset(
            [d, d.map(lambda x: (x, "b")), d],
            cycle_length=n % 3 + 1,
            num_make_iter_threads=n % 2 + 1,
            make_iter_buffer_size=n % 3 + 1,
            iter_buffer_size=n % 2 + 1,
        ),
        "zip with itself": lambda g, d, r, n: g.experimental.ZipIterDataset(
            [d, d.random_map(noisy, seed=n)]
        ),
        "mix with a part": lambda g, d, r, n: g.IterDataset.mix(
            {"b": d, "a": g.experimental.LimitIterDataset(d, n % 5 + 1)}, {"a": 1, "b": n % 3 + 0.5}
        ),
        "rows of batches": lambda g, d, r, n: g.experimental.FlatMapIterDataset(
            d.batch(n % 4 + 1, batch_fn=list), flat_map(g, n % 4 + 1)
        ),
    }
    packs, endless = 0.4, 0.1


def indexed(g, r, depth):
    """A MapDataset."""
    kind = r.random()
    if depth <= 0 or kind < 0.5:
        dataset = leaf(g, r)
    else:
        parts = several(indexed, g, r, depth)
        weights = [r.choice([1, 0.3, 2.5, 7]) for _ in parts]
        dataset = (
            g.MapDataset.mix(parts, weights) if kind < 0.8 else g.MapDataset.concatenate(parts)
        )
    for _ in range(r.randint(0, 3)):
        dataset = r.map_methods[r.choice([*r.map_methods])](g, dataset, r, r.randrange(21))
    return dataset


def stream(g, r, depth):
    """An IterDataset."""
    is_one = depth <= 0 or r.random() < 0.5
    dataset = of_indexed(g, r, depth) if is_one else joined(g, r, several(stream, g, r, depth))
    for _ in range(r.randint(0, 3)):
        dataset = r.stream_methods[r.choice([*r.stream_methods])](g, dataset, r, r.randrange(21))
    return packed(g, r, dataset) if r.random() < r.packs else dataset


def of_indexed(g, r, depth):
    """The stream of a MapDataset."""
    dataset = indexed(g, r, depth)
    if r.endless and r.random() < r.endless and len(dataset):
        dataset = dataset.repeat()[r.randrange(5) : r.randrange(5, 30)]
    return dataset.to_iter_dataset()


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
    handling, others = (
        g.experimental.BOSHandling,
        [name for name in lengths if name not in meta and name != "e"],
    )
    bos = {}
    if r.random() < 0.3 and others:
        bos = {
            "bos_handling": handling.REPLACE_FIRST_TOKEN_WITH_BOS,
            "bos_features": others,
            "bos_token_id": 77,
        }
    return g.experimental.ConcatThenSplitIterDataset(
        kept,
        length_struct=lengths,
        meta_features=meta,
        split_full_length_features=r.random() < 0.5,
        **bos,
    )


def program(number, kind=Fewer):
    """The program of a number."""
    return lambda g: stream(g, kind(number), 2)


LOADER_OPERATIONS = {
    "map": lambda g, n: transform(g, "Map", lambda self, x: (x, n)),
    "random map": lambda g, n: transform(
        g, "RandomMap", lambda self, x, rng: (x, None if rng is None else rng.random())
    ),
    "filter": lambda g, n: transform(g, "Filter", lambda self, x: number_of(x) % (n % 3 + 2) > 0),
    "flat map": lambda g, n: flat_map(g, n % 3 + 1),
    "batch": lambda g, n: g.transforms.Batch(n % 4 + 1, drop_remainder=n % 2 == 0, batch_fn=list),
    "array": lambda g, n: transform(g, "Map", lambda self, x: array_of(x)),
}
METHOD_NAMES = {"Map": "map", "RandomMap": "random_map", "Filter": "filter"}


def transform(g, kind, function):
    """A transform of a class of one's own."""
    return type(kind, (getattr(g.transforms, kind),), {METHOD_NAMES[kind]: function})()


def loader_program(number):
    """The loader of a number: any order, shard and operations."""

    def made(g):
        r = random.Random(number)
        records, count = r.randint(5, 30), r.randint(1, 3)
        shard = g.sharding.ShardOptions(r.randrange(count), count, r.random() < 0.5)
        epochs = r.randint(1, 3)
        sampler = r.choice(
            [
                lambda: g.samplers.IndexSampler(
                    records, shard, shuffle=True, num_epochs=epochs, seed=records
                ),
                lambda: g.samplers.IndexSampler(records, shard, num_epochs=epochs, seed=3),
                lambda: g.samplers.SequentialSampler(records, shard, seed=5),
            ]
        )()
        names = r.choices([*LOADER_OPERATIONS], k=r.randint(0, 5))
        operations = [LOADER_OPERATIONS[name](g, r.randrange(21)) for name in names]
        if r.random() < 0.3:
            operations += [
                transform(g, "Map", lambda self, x: array_of(x)),
                g.transforms.Batch(r.randint(1, 4)),
            ]
        return g.DataLoader(
            data_source=range(100, 100 + records), sampler=sampler, operations=operations
        )

    return made
