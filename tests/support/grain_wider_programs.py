"""Wider random programs for the real Grain and for ours: packings of trees, lazy interleaves;
packings; loaders.

In: a number. Out: a function of a Grain that makes a stream, or a loader; the same number gives the
same one.
"""

import random

import numpy as np

from support.grain_programs import (
    LOADER_OPERATIONS,
    More,
    array_of,
    document,
    every_so_manieth,
    flat_map,
    noisy,
    number_of,
    stream,
    transform,
)


def nested(x):
    """A document whose features are trees, of unequal lengths; some are empty."""
    flat = document(x)
    return {
        "tree": {"x": flat["x"], "deep": [flat["y"], flat["e"]]},
        "y": flat["y"],
        "id": flat["id"],
    }


def packed_trees(g, r, dataset):
    """Rows of documents that are trees: a length, a filling and an alignment for each leaf."""
    features = r.sample(["tree", "y"], r.randint(1, 2))
    lengths = {
        "tree": {"x": r.choice([10, 12]), "deep": [r.choice([6, 9]), 5]},
        "y": r.choice([6, 20]),
    }
    paddings = {"tree": {"x": -1, "deep": [r.choice([0, 7]), -2]}, "y": 3}
    alignments = {"tree": {"x": 4, "deep": [1, r.choice([1, 2])]}, "y": 2}
    kind = r.choice([g.experimental.FirstFitPackIterDataset, g.experimental.BestFitPackIterDataset])
    some = r.random() < 0.5
    return kind(
        dataset.map(nested),
        length_struct={name: lengths[name] for name in features},
        num_packing_bins=r.choice([1, 2, 5]),
        seed=r.randrange(5),
        shuffle_bins=r.random() < 0.7,
        meta_features=("tree", *r.sample(["id", "y"], r.randint(0, 2))),
        max_sequences_per_bin=r.choice([None, None, 1, 2]),
        pack_alignment_struct={name: alignments[name] for name in features} if some else None,
        padding_struct={name: paddings[name] for name in features} if r.random() < 0.5 else None,
    )


def lazily_interleaved(g, r, dataset, n):
    """An interleave of datasets that are made by a map, of either kind."""
    is_stream = r.random() < 0.5

    def made(number):
        one = g.MapDataset.range(number * 10, number * 10 + number % 4 + n % 3).map(
            lambda x: (x, number)
        )
        one = one.shuffle(seed=number) if n % 2 and len(one) else one
        return one.to_iter_dataset() if is_stream else one

    datasets = g.MapDataset.range(n % 5 + 1).map(made)
    return g.experimental.InterleaveIterDataset(datasets, cycle_length=r.randint(1, 4))


class Selection:
    """A map of indices for `select_from_datasets`."""

    def __init__(self, count, step):
        self.count, self.step = count, step

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index * self.step % 2, index // 2


def selected(g, d, n):
    """Elements of a dataset and of another one, by a map."""
    kind = type("Selected", (Selection, g.transforms.DatasetSelectionMap), {})
    return g.MapDataset.select_from_datasets(
        [d, g.MapDataset.range(50, 55)], kind(n % 9 + 1, n % 3 + 1)
    )


def random_transform(g, n):
    """A random map of a class."""
    return transform(g, "RandomMap", lambda self, x, rng: (x, rng.random(), n))


class Widest(More):
    """With packings of trees, interleaves of what a map makes, selections, transforms
    of classes.
    """

    map_methods = More.map_methods | {
        "selection": lambda g, d, r, n: selected(g, d, n) if len(d) else d,
        "transforms": lambda g, d, r, n: d.apply(
            [
                transform(g, "Map", lambda self, x: (x, n)),
                transform(g, "Filter", lambda self, x: number_of(x) % 5 > 0),
            ]
        ),
        "random transform": lambda g, d, r, n: d.seed(n).random_map(random_transform(g, n)),
        "concatenation": lambda g, d, r, n: g.MapDataset.concatenate([d, d.shuffle(seed=n)]),
        "every other one": lambda g, d, r, n: d.repeat(3)[n % 2 :: 2],
        "batch of batches": lambda g, d, r, n: d.batch(2, batch_fn=list).batch(
            n % 3 + 1, batch_fn=list
        ),
        "batches of arrays": lambda g, d, r, n: (
            d.map(number_of).batch(n % 3 + 1).batch(2, drop_remainder=True)
        ),
        "seeds above one another": lambda g, d, r, n: (
            d.seed(n).random_map(noisy).seed(n + 1).random_map(noisy)
        ),
        "flat map and shuffle": lambda g, d, r, n: g.experimental.FlatMapMapDataset(
            d, flat_map(g, n % 3 + 1)
        ).shuffle(seed=n),
        "zip of a mix": lambda g, d, r, n: g.experimental.ZipMapDataset(
            [d, g.MapDataset.mix([d, d.map(lambda x: (x, "b"))], [1, n % 3 + 1])[: len(d)]]
        ),
        "windows of epochs": lambda g, d, r, n: g.experimental.WindowShuffleMapDataset(
            d.repeat(2), window_size=n % 7 + 1, seed=n
        ),
    }
    stream_methods = More.stream_methods | {
        "packed trees": lambda g, d, r, n: packed_trees(g, r, d),
        "lazy interleave": lambda g, d, r, n: g.IterDataset.mix(
            [d, lazily_interleaved(g, r, d, n)], [1, n % 3 + 1]
        ),
        "transforms": lambda g, d, r, n: d.apply(
            [
                transform(g, "Map", lambda self, x: (x, n)),
                transform(g, "Filter", lambda self, x: number_of(x) % 5 > 0),
            ]
        ),
        "random transform": lambda g, d, r, n: d.seed(n).random_map(random_transform(g, n)),
        "seeds above one another": lambda g, d, r, n: (
            d.seed(n).random_map(noisy).seed(n + 1).random_map(noisy)
        ),
        "window of draws": lambda g, d, r, n: g.experimental.WindowShuffleIterDataset(
            d.random_map(noisy, seed=n).map_with_index(lambda i, x: (i, x)),
            window_size=n % 4 + 1,
            seed=n,
        ),
        "batch of batches": lambda g, d, r, n: d.batch(2, batch_fn=list).batch(
            n % 3 + 1, batch_fn=list
        ),
        "draws of batches": lambda g, d, r, n: d.batch(n % 4 + 1, batch_fn=list).random_map(
            noisy, seed=n
        ),
        "rebatched twice": lambda g, d, r, n: g.experimental.RebatchIterDataset(
            g.experimental.RebatchIterDataset(d.map(number_of).batch(n % 4 + 1), n % 3 + 1),
            n % 5 + 1,
        ),
        "rebatched trees": lambda g, d, r, n: g.experimental.RebatchIterDataset(
            d.map(
                lambda x: {"a": np.int64(number_of(x)), "b": (np.float32(1), number_of(x) % 2)}
            ).batch(n % 4 + 1),
            n % 3 + 1,
            drop_remainder=n % 2 == 0,
        ),
        "zip of a cache": lambda g, d, r, n: g.experimental.ZipIterDataset(
            [g.experimental.CacheIterDataset(d), d.filter(lambda x: number_of(x) % 3 > 0)],
            strict=False,
        ),
        "mix of dicts in a zip": lambda g, d, r, n: g.experimental.ZipIterDataset(
            [g.IterDataset.mix({"b": d, "a": d.map(lambda x: (x, "a"))}, {"a": 1, "b": 2}), d],
            strict=False,
        ),
        "endless in a mix": lambda g, d, r, n: g.experimental.LimitIterDataset(
            g.IterDataset.mix([g.experimental.RepeatIterDataset(d), d], [1, n % 4 + 1]), n % 9 + 5
        ),
        "repeated packing": lambda g, d, r, n: g.experimental.RepeatIterDataset(
            packed_trees(g, r, d), 2
        ),
        "threads": lambda g, d, r, n: g.experimental.multithread_prefetch(
            d, num_threads=0, buffer_size=1
        ),
    }
    packs = 0.3
    sizes = (5, 13, 21, 34, 55)


def wider_program(number):
    """The program of a number."""
    return lambda g: stream(g, Widest(number), 2)


LENGTHS = {"x": (12, 13, 30), "y": (12, 20), "z": (3, 6), "id": (1, 3, 8), "n": (2, 8)}
PADDINGS = {"x": -1, "y": 0.5, "z": [9, {"w": -2}], "id": -7, "n": -1}
ALIGNMENTS = {"x": 4, "y": 3, "z": [2, {"w": 1}], "id": 1, "n": 2}


def records(r):
    """Documents of unequal length: arrays, numbers, trees, lists; some are empty."""
    lengths = [r.choice([0, 1, 2, 3, 5, 8, 12, r.randint(0, 12)]) for _ in range(r.randint(1, 60))]
    return [
        {
            "x": np.arange(1, length + 1),
            "y": np.full(r.choice([0, length, length // 2]), 7, np.float32),
            "z": [np.arange(length % 4), {"w": np.ones((length % 3, 2))}],
            "id": number % 5,
            "n": np.int64(number),
            "s": [number],
        }
        for number, length in enumerate(lengths)
    ]


def packing_program(number):
    """Packings alone, of any features and options; repeated, or in batches."""

    def made(g):
        r = random.Random(number)
        dataset = g.MapDataset.source(records(r))
        dataset = dataset.shuffle(seed=3) if r.random() < 0.3 else dataset
        stream = (
            dataset.filter(lambda x: x["id"] != 2) if r.random() < 0.2 else dataset
        ).to_iter_dataset()
        if r.random() < 0.2:
            stream = g.experimental.WindowShuffleIterDataset(stream, window_size=4, seed=2)
        lengths = {name: r.choice(LENGTHS[name]) for name in r.sample([*LENGTHS], r.randint(1, 4))}
        meta = set(r.sample(["id", "n", "x", "s", "y"], r.randint(0, 3)))
        rows = (
            in_bins(g, r, stream, lengths, meta)
            if r.random() < 0.7
            else end_to_end(g, r, stream, lengths, meta)
        )
        rows = g.experimental.RepeatIterDataset(rows, 2) if r.random() < 0.3 else rows
        return rows.batch(2) if r.random() < 0.2 else rows

    return made


def in_bins(g, r, stream, lengths, meta):
    """First or best fit; a group's feature may be a meta feature."""
    if "z" in lengths:
        lengths, meta = lengths | {"z": [lengths["z"], {"w": 4}]}, meta | {"z"}
    kind = r.choice([g.experimental.FirstFitPackIterDataset, g.experimental.BestFitPackIterDataset])
    return kind(
        stream,
        length_struct=lengths,
        num_packing_bins=r.choice([1, 1, 2, 3, 8]),
        seed=r.randrange(3),
        shuffle_bins=r.random() < 0.6,
        shuffle_bins_group_by_feature=r.choice(
            [None, None, None, *sorted({*meta, *lengths} - {"z", "s"})]
        ),
        meta_features=sorted(meta),
        max_sequences_per_bin=r.choice([None, None, 1, 2, 3]),
        padding_struct=r.choice([None, {name: PADDINGS[name] for name in lengths}]),
        pack_alignment_struct=r.choice([None, {name: ALIGNMENTS[name] for name in lengths}]),
    )


def end_to_end(g, r, stream, lengths, meta):
    """Documents one after the other."""
    lengths = {name: length for name, length in lengths.items() if name != "z"} or {"x": 12}
    kept = stream.map(lambda element: {name: element[name] for name in lengths})
    tokens = [name for name in lengths if name not in meta and name in ("x", "y")]
    bos = {}
    if tokens and r.random() < 0.5:
        handling = g.experimental.BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS
        bos = {"bos_handling": handling, "bos_features": tokens, "bos_token_id": 5}
    return g.experimental.ConcatThenSplitIterDataset(
        kept,
        length_struct=lengths,
        meta_features=[name for name in lengths if name in meta],
        split_full_length_features=r.random() < 0.5,
        **bos,
    )


class Sampler:
    """An order of one's own, with or without a length."""

    def __init__(self, g, records, seed):
        self.made, self.records, self.seed = g.RecordMetadata, records, seed

    def __getitem__(self, index):
        if index >= self.records:
            raise IndexError(index)
        generator = (
            None
            if self.seed is None
            else np.random.Generator(np.random.Philox(key=self.seed + index))
        )
        return self.made(index=index, record_key=index * 7 % self.records, rng=generator)


class SamplerOfLength(Sampler):
    """The same; tells how long it is."""

    def __len__(self):
        return self.records


def some_records(n):
    """An operation on an iterator of records, which leaves some out."""

    def kept(records):
        for record in records:
            if number_of(record.data) % (n % 3 + 2):
                yield type(record)(record.metadata, (record.data, n))

    return kept


OPERATIONS = LOADER_OPERATIONS | {
    "records": lambda g, n: some_records(n),
    "map operation": lambda g, n: g.python.MapOperation(lambda x: (x, n)),
    "filter operation": lambda g, n: g.python.FilterOperation(every_so_manieth(n)),
    "random map operation": lambda g, n: g.python.RandomMapOperation(
        lambda x, rng: (x, None if rng is None else rng.random())
    ),
}


def wider_loader_program(number):
    """A loader with a sampler of one's own, or operations of all kinds."""

    def made(g):
        r = random.Random(number)
        records, count = r.randint(1, 60), r.randint(1, 3)
        shard = g.sharding.ShardOptions(r.randrange(count), count, r.random() < 0.5)
        sampler = r.choice(
            [
                lambda: g.samplers.IndexSampler(
                    records, shard, shuffle=True, num_epochs=2, seed=records
                ),
                lambda: g.samplers.IndexSampler(records, shard, num_epochs=1, seed=None),
                lambda: Sampler(g, records, r.choice([None, 4])),
                lambda: SamplerOfLength(g, records, r.choice([None, 4])),
            ]
        )()
        names = r.choices([*OPERATIONS], k=r.randint(0, 5))
        operations = [OPERATIONS[name](g, r.randrange(21)) for name in names]
        if r.random() < 0.3:
            last = r.choice([g.transforms.Batch, g.python.BatchOperation])(r.randint(1, 4))
            operations += [transform(g, "Map", lambda self, x: array_of(x)), last]
        return g.DataLoader(
            data_source=range(100, 100 + records),
            sampler=sampler,
            operations=operations,
            shard_options=shard,
        )

    return made
