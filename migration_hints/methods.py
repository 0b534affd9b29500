"""Methods of other libraries that people look for on a dataset, a loader or an iterator: what to write instead.

In: a kind of object, and a name that it has not. Out: the end of the message of an error.

Code in the tables stands between backticks. `test_foreign_names.py` runs all of it.
"""

from __future__ import annotations

_CALLS = {
    "cache": "cache()",
    "mp_prefetch": "mp_prefetch(2)",
    "to_device": "to_device(device)",
    "with_options": "with_options(worker_count=2)",
}
"""Methods that only an `IterDataset` has."""

_A_SOURCE = {
    "from_dict": "use `headrace.MapDataset.source({'x': array, 'y': array})`",
    "from_generator": "use `headrace.MapDataset.source(list(generator()))`; a stream that is too long for a list goes into "
    "files, with headrace.convert",
    "from_list": "use `headrace.MapDataset.source([1, 2, 3])`",
    "from_pandas": "use `headrace.MapDataset.source({name: table[name].to_numpy() for name in table})`",
    "from_parquet": "use headrace.MapDataset.source(headrace.ParquetDataSource(path))",
    "from_json": "use headrace.MapDataset.source(headrace.JsonLinesDataSource(path))",
    "from_csv": "make Parquet or ArrayRecord files with headrace.convert; they are read as sources",
    "from_tensor_slices": "use `headrace.MapDataset.source({'x': array, 'y': array})`, a dict of arrays",
    "from_tensors": "use `headrace.MapDataset.source([array])`",
    "list_files": "use `headrace.MapDataset.source(sorted(glob.glob('*.txt')))`; sources of files take patterns themselves",
    "load_from_disk": "use headrace.MapDataset.source(datasets.load_from_disk(path))",
    "load_dataset": "use headrace.MapDataset.source(datasets.load_dataset(name, split='train'))",
    "sample_from_datasets": "use `headrace.MapDataset.mix([dataset, dataset], [0.7, 0.3])`",
    "choose_from_datasets": "use `headrace.MapDataset.select_from_datasets([dataset, dataset], [(0, 0), (1, 0)])`",
    "interleave_datasets": "use `headrace.MapDataset.mix([dataset, dataset])`",
    "concatenate_datasets": "use `headrace.MapDataset.concatenate([dataset, dataset])`",
}

_FIELD = "use `dataset.map(lambda x: {'text': x['text']})`, with the keys that you want"
_NO_EPOCHS = "each epoch has another order by itself"
_NUMPY = "elements are NumPy arrays as they are, `for x in dataset: print(x)`"
_SPLIT = "slice the dataset before it is shuffled, `dataset[:80]` and `dataset[80:]`; `dataset[::2]` takes every second element"
_TO_PLACE = (
    "`iterator = iter({0})` has a place in it: get_state, set_state, state_dict and load_state_dict are its methods"
)

_OF_DATASETS = {
    **_A_SOURCE,
    "add_column": "use `dataset.map(lambda x: {**x, 'more': 0})`",
    "as_numpy_iterator": _NUMPY,
    "bucket_by_sequence_length": "use `documents.pack(512)`, which puts several documents into a row, or "
    "`stream.batch(32, batch_fn=headrace.pad_batch())`",
    "cardinality": "use `len(dataset)`",
    "cast": "use `dataset.map(lambda x: {**x, 'label': np.int32(x['label'])})`",
    "cast_column": "use `dataset.map(lambda x: {**x, 'label': np.int32(x['label'])})`",
    "collate": "use `dataset.batch(32, batch_fn=function)`",
    "column_names": "look at an element, `dataset[0].keys()`",
    "device_put": "use `dataset.to_iter_dataset().to_device(device)`",
    "element_spec": "look at an element, `next(iter(dataset))`",
    "enumerate": "use Python's, `enumerate(dataset)`, or `dataset.map_with_index(lambda index, x: (index, x))` for elements "
    "with their index",
    "features": "look at an element, `dataset[0]`",
    "get_single_element": "use `next(iter(dataset))`",
    "ignore_errors": 'use `dataset.to_iter_dataset().with_options(on_error="skip")`',
    "iter": "use `iter(dataset.batch(32))`",
    "map_batches": "use `dataset.batch(32).map(function)`",
    "num_rows": "use `len(dataset)`",
    "padded_batch": "use `dataset.batch(32, batch_fn=headrace.pad_batch())`; pad_batch takes length=, value= and mask_key=",
    "ragged_batch": "use `dataset.batch(32, batch_fn=list)`, or headrace.pad_batch() in the place of list",
    "random_split": _SPLIT,
    "reduce": "use Python's, `functools.reduce(lambda total, x: total + x['label'], dataset, 0)`",
    "remove_columns": _FIELD,
    "rename_column": "use `dataset.map(lambda x: {'words': x['text']})`",
    "rename_columns": "use `dataset.map(lambda x: {'words': x['text']})`",
    "scan": "leave it out: what an element is made of must not depend on those before it, or no place could be gone to",
    "select_columns": _FIELD,
    "set_epoch": f"leave it out: {_NO_EPOCHS}, `dataset.shuffle(seed=0).repeat(3)`",
    "set_format": _NUMPY,
    "set_transform": "use `dataset.map(function)`",
    "sharding_filter": "use `dataset.to_iter_dataset().shard(headrace.ShardOptions(0, 4))`",
    "snapshot": "write the records to files with headrace.convert",
    "to_dict": "use `dataset.batch(len(dataset))[0]`",
    "to_iterable_dataset": "use `dataset.to_iter_dataset()`",
    "to_pandas": "use `dataset.batch(len(dataset))[0]`, a dict of arrays",
    "to_tf_dataset": _NUMPY,
    "train_test_split": _SPLIT,
    "unbatch": "use `batches.to_iter_dataset().rebatch(32)` for batches of another size, or "
    "`batches.to_iter_dataset().flat_map(lambda batch: list(batch['label']))` for rows",
    "window": "use `dataset.batch(32, drop_remainder=True)`",
    "with_epoch": "use `stream.limit(100)`",
    "with_format": _NUMPY,
    "with_transform": "use `dataset.map(function)`",
    "get_state": _TO_PLACE.format("dataset"),
    "set_state": _TO_PLACE.format("dataset"),
    "state_dict": _TO_PLACE.format("dataset"),
    "load_state_dict": _TO_PLACE.format("dataset"),
}

_OF_MAP = {
    **{name: f"use `dataset.to_iter_dataset().{call}`" for name, call in _CALLS.items()},
    "get": "use `dataset[3]`",
    "interleave": "use `headrace.MapDataset.mix([dataset, dataset])`, or `headrace.IterDataset.interleave([stream, stream])`",
    "limit": "use `dataset[:count]`",
    "prefetch": "leave it out: elements are read ahead as it is; `dataset.to_iter_dataset().mp_prefetch(2)` makes them in two "
    "worker processes",
    "rebatch": "use `batches.to_iter_dataset().rebatch(32)`",
    "select": "use `dataset[10:20]`, or `dataset[[3, 1, 4]]` for a list of elements",
    "set_slice": "use `dataset[10:20]`",
    "shard": "use `dataset.to_iter_dataset().shard(headrace.ShardOptions(0, 4))`, the index of this process and how many "
    "there are",
    "skip": "use `dataset[count:]`",
    "sort": "sort the records of the source, `headrace.MapDataset.source(sorted([3, 1, 2]))`",
    "take": "use `dataset[:count]`",
}

_IN_MAP = "the MapDataset, before `dataset.{0}.to_iter_dataset()`"

_OF_ITER = {
    "block_shuffle": "use it on " + _IN_MAP.format("block_shuffle(16, seed=0)"),
    "concatenate": "join the MapDatasets, `headrace.MapDataset.concatenate([dataset, dataset]).to_iter_dataset()`",
    "range": "use `headrace.MapDataset.range(10).to_iter_dataset()`",
    "select": "take a slice of " + _IN_MAP.format("slice(slice(10, 20))"),
    "shuffle": "shuffle the MapDataset, `dataset.shuffle(seed=0).to_iter_dataset()`, or use "
    "`stream.window_shuffle(1000, seed=0)`, whose window_size is the number of elements of a window",
    "skip": "slice the MapDataset, `dataset[count:].to_iter_dataset()`",
    "slice": "slice the MapDataset, `dataset[10:20].to_iter_dataset()`, or use `stream.limit(count)`",
    "source": "use `headrace.MapDataset.source([1, 2, 3]).to_iter_dataset()`",
    "take": "use limit(count), `stream.limit(count)`",
    "take_while": "use `itertools.takewhile(function, stream)`",
    "to_iter_dataset": "leave it out: it is one",
}

_AS_CHAIN = "pass it to load, `headrace.load(source, transformations=[function])`, or write a chain, `dataset.{0}`"

_OF_LOADERS = {
    "as_numpy_iterator": "batches are NumPy arrays as they are, `for batch in loader: print(batch)`",
    "batch": "use `headrace.load(source, batch_size=32)`, or `loader.with_batch_size(32)` for another size",
    "batch_size": "the size is that of the headrace.Batch among the operations; `loader.with_batch_size(32)` changes it",
    "dataset": "keep the source that you made it with",
    "device_put": "use `loader.to_device(device)`",
    "enumerate": "use Python's, `enumerate(loader)`",
    "filter": "use `headrace.load(source, transformations=[headrace.Filter(function)])`",
    "from_tensor_slices": "use `headrace.load({'x': array, 'y': array}, batch_size=32)`",
    "map": _AS_CHAIN.format("map(function)"),
    "mp_prefetch": "use `headrace.load(source, worker_count=2)`",
    "num_workers": "use `headrace.load(source, worker_count=2)`",
    "padded_batch": "use `headrace.load(source, transformations=[headrace.Batch(32, batch_fn=headrace.pad_batch())])`",
    "prefetch": "leave it out: batches are made ahead; `headrace.load(source, worker_count=2, worker_buffer_size=4)` says how "
    "many, and `loader.to_device(device)` transfers them ahead",
    "repeat": "use `headrace.load(source, num_epochs=3)`, or `loader.epochs(3)` for a loop of each epoch",
    "set_epoch": f"leave it out: {_NO_EPOCHS}; `loader.epochs(3)` gives a loop of each",
    "shard": "use `headrace.load(source, shard_options=headrace.ShardOptions(0, 4))`",
    "shuffle": "use `headrace.load(source, shuffle=True, seed=0)`",
    "take": "use `itertools.islice(loader, count)`",
    "train_test_split": "make a loader of each part of the source, `headrace.load(source[:80])` and "
    "`headrace.load(source[80:])`",
    "get_state": _TO_PLACE.format("loader"),
    "set_state": _TO_PLACE.format("loader"),
    "set_states": _TO_PLACE.format("loader"),
    "start_prefetch": _TO_PLACE.format("loader"),
    "state_dict": _TO_PLACE.format("loader"),
    "load_state_dict": _TO_PLACE.format("loader"),
    "stats": "ask the iterator, `iter(loader).stats()`",
}

_TO_DESCRIBE = "an iterator is of what its loader says; `iter(dataset.{0})`, or another argument of headrace.load"

_OF_ITERATORS = {
    "as_numpy_iterator": "leave it out: elements are NumPy arrays as they are",
    "batch": _TO_DESCRIBE.format("batch(32)"),
    "enumerate": "use Python's, `enumerate(iterator)`",
    "get_next": "use `next(iterator)`",
    "has_next": "use `next(iterator, None)`, or a for loop",
    "map": _TO_DESCRIBE.format("map(function)"),
    "next": "use `next(iterator)`",
    "prefetch": "leave it out: elements are made ahead; `iterator.start_prefetch()` begins before the first next",
    "reset": "take another, `iter(loader)`",
    "rewind": "take another, `iter(loader)`",
    "seek": "use `iterator.set_state(state)`, a state that get_state gave; `iter(loader.skip([(0, 2)]))` begins at step 2",
    "set_epoch": f"leave it out: {_NO_EPOCHS}; `loader.epochs(3)` gives a loop of each",
    "shuffle": "use `iter(headrace.load(source, shuffle=True, seed=0))`",
    "skip": "use `iter(loader.skip([(0, 2)]))`",
    "take": "use `itertools.islice(iterator, count)`",
}

METHODS = {
    "MapDataset": {**_OF_DATASETS, **_OF_MAP},
    "IterDataset": {
        **{name: told.replace("dataset.to_iter_dataset()", "stream") for name, told in _OF_DATASETS.items()},
        **_OF_ITER,
    },
    "DataLoader": _OF_LOADERS,
    "DataLoaderIterator": _OF_ITERATORS,
}
"""What to write in the place of a method, by kind of object."""


def method_instead(kind: str, name: str) -> str:
    """The replacement of a method that a kind of object does not have; empty for a name that no other library has either.

    >>> method_instead("MapDataset", "take")
    'use dataset[:count]'
    """
    return METHODS[kind].get(name, "").replace("`", "")
