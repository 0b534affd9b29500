"""Arguments of other libraries that people pass, and slips of the pen: what to write instead.

In: the name of a function and of an argument that it has not. Out: a TypeError that says what to write.

Code in the tables stands between backticks. `test_foreign_names.py` runs all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..common.messages import first_few, shorten

_BATCH = "a Batch among the operations, `operations=[function, headrace.Batch(32)]`, or `headrace.load(source, batch_size=32)`"
_BOTH = "use `operations=[function]`, or `headrace.load(source, transformations=[function])`"
_DROP = "use `headrace.Batch(32, drop_remainder=True)`"
_SHUFFLE = (
    "use `sampler=headrace.IndexSampler(len(source), shuffle=True, seed=0)`, or "
    "`headrace.load(source, shuffle=True, seed=0)`"
)
_TO_DEVICE = "leave it out: `loader.to_device(device)` puts batches on devices, ahead of your loop"
_IN_ORDER = "leave it out: elements always come in one order, whoever makes them"
_EACH_EPOCH = "leave it out: each epoch has another order by itself"
_OF_CHAIN = "leave it out; `dataset.to_iter_dataset().mp_prefetch(2)` runs the whole chain in two worker processes"
_OF_STREAM = "leave it out; `stream.mp_prefetch(2)` runs the whole chain in two worker processes"
_ONE_BY_ONE = "leave it out: a function gets one element; after `dataset.batch(32)` it gets a batch"
_COLUMNS = "leave it out, and give a dict with the keys that you want, `dataset.map(lambda x: {'text': x['text']})`"
_SHARD = "use `shard_options=headrace.ShardOptions(0, 4)`, the index of this process and how many there are"
_FIRST = "pass it first, without a name"

_OF_LOADERS = {
    "autotune": 'use `worker_count="auto"`',
    "batch_sampler": f"use sampler= with {_BATCH}",
    "batch_size": f"use {_BATCH}",
    "buffer_size": "use `worker_buffer_size=2`, the finished batches that are held ready for each worker; a shuffle needs no "
    "buffer, `headrace.load(source, shuffle=True, seed=0)`",
    "collate_fn": "use `headrace.Batch(32, batch_fn=function)`",
    "count": "use `headrace.load(source, num_epochs=3)`",
    "data": "pass the source first, `headrace.load(source)`, or use `data_source=source`",
    "data_source": "pass the source first, `headrace.load(source)`",
    "dataset": "use `data_source=source`, or `headrace.load(source)`",
    "deterministic": _IN_ORDER,
    "device": _TO_DEVICE,
    "drop_last": f"{_DROP}, or `headrace.load(source, batch_size=32, drop_remainder=True)`",
    "drop_remainder": _DROP,
    "epochs": "use `headrace.load(source, num_epochs=3)`",
    "generator": "use the seed of the sampler, `sampler=headrace.IndexSampler(len(source), shuffle=True, seed=0)`",
    "in_order": _IN_ORDER,
    "map_fn": _BOTH,
    "multiprocessing_context": "leave it out: workers start in the same way everywhere, and your program needs no guard",
    "num_epochs": "use `sampler=headrace.IndexSampler(len(source), num_epochs=3)`, or `headrace.load(source, num_epochs=3)`",
    "num_parallel_calls": "use `worker_count=2`, a number of worker processes",
    "num_proc": "use `worker_count=2`, a number of worker processes",
    "num_replicas": _SHARD,
    "num_shards": _SHARD,
    "num_threads": "use `read_options=headrace.ReadOptions(num_threads=16)`",
    "num_workers": "use `worker_count=2`",
    "operations": "use `transformations=[function]`, a list",
    "persistent_workers": "leave it out: with num_epochs=n one iterator runs through all epochs, with the same workers, "
    "`headrace.load(source, num_epochs=3)`",
    "pin_memory": _TO_DEVICE,
    "pin_memory_device": _TO_DEVICE,
    "prefetch": "use `worker_buffer_size=2`, the finished batches that are held ready for each worker",
    "prefetch_factor": "use `worker_buffer_size=2`, the finished batches that are held ready for each worker",
    "rank": _SHARD,
    "repeat": "use `headrace.load(source, num_epochs=3)`",
    "reshuffle_each_iteration": _EACH_EPOCH,
    "sampler": "use `headrace.DataLoader(data_source=source, sampler=sampler)`, as load makes the sampler itself",
    "seed": _SHUFFLE,
    "shard_index": _SHARD,
    "shuffle": _SHUFFLE,
    "shuffle_buffer_size": "leave it out: a shuffle is one of the whole epoch and needs no buffer, "
    "`headrace.load(source, shuffle=True, seed=0)`",
    "source": "use `data_source=source`",
    "transform": _BOTH,
    "transformations": "use `operations=[function]`",
    "transforms": _BOTH,
    "worker_init_fn": "leave it out: operations draw from the generator of a RandomMapTransform, and sources open files when "
    "they are first read",
    "world_size": _SHARD,
}
"""Also the names that only the other of `DataLoader` and `load` has."""

_OF_CHAINS = {
    "batched": _ONE_BY_ONE,
    "collate_fn": "use `dataset.batch(32, batch_fn=function)`",
    "count": "use `dataset.repeat(3)` for epochs, and `dataset[:3]` for elements",
    "desc": "leave it out; `headrace.progress(iter(dataset))` shows a bar",
    "deterministic": _IN_ORDER,
    "drop_last": "use `dataset.batch(32, drop_remainder=True)`",
    "drop_last_batch": "use `dataset.batch(32, drop_remainder=True)`",
    "fn_kwargs": "use `functools.partial(function, **settings)`",
    "function": _FIRST,
    "generator": "use `dataset.shuffle(seed=0)`",
    "input_columns": "leave it out: a function gets the whole element, `dataset.map(lambda x: function(x['text']))`",
    "keep_in_memory": "leave it out; `dataset.to_iter_dataset().cache().repeat(3)` keeps elements in memory",
    "load_from_cache_file": "leave it out: nothing is written to files",
    "map_func": _FIRST,
    "name": "leave it out: operations are known by the names of their functions",
    "num_parallel_batches": _OF_CHAIN,
    "num_proc": _OF_CHAIN,
    "predicate": _FIRST,
    "remove_columns": _COLUMNS,
    "reshuffle_each_iteration": "use `dataset.shuffle(seed=0, reseed_each_epoch=False)` for the same order in each epoch",
    "stop_on_empty_dataset": 'use `headrace.MapDataset.mix([dataset, dataset], when_exhausted="first")`',
    "stopping_strategy": 'use `headrace.MapDataset.mix([dataset, dataset], when_exhausted="all")`',
    "probabilities": "use `headrace.MapDataset.mix([dataset, dataset], weights=[0.7, 0.3])`",
    "with_indices": "use `dataset.map_with_index(lambda index, x: (index, x))`",
    "with_rank": "leave it out: what is made does not depend on the worker",
}

_PREFETCH = {
    "buffer_size": "leave it out: elements are read ahead as it is; `stream.prefetch(2)` takes a number of worker processes, "
    "and `stream.with_options(worker_count=2, worker_buffer_size=4)` has how many batches each holds ready",
    "num_workers": "use `stream.mp_prefetch(2)`, the number of worker processes",
    "per_worker_buffer_size": "use `stream.with_options(worker_count=2, worker_buffer_size=4)`",
    "worker_count": "use `stream.mp_prefetch(2)`, the number of worker processes",
}

_SEVERAL = "leave it out: `dataset.shuffle(seed=0)` shuffles the whole epoch and needs no buffer"

_AHEAD = "use `loader.to_device(device, host_buffer=4, device_buffer=2)`, batches that may wait on the host and on the devices"

_OF_ONE = {
    "load": _OF_LOADERS,
    "DataLoader": _OF_LOADERS,
    "MapDataset": {
        **_OF_CHAINS,
        "num_parallel_calls": _OF_CHAIN,
        "num_workers": _OF_CHAIN,
        "worker_count": _OF_CHAIN,
    },
    "IterDataset": {
        **_OF_CHAINS,
        "num_parallel_calls": _OF_STREAM,
        "num_workers": _OF_STREAM,
        "num_proc": _OF_STREAM,
    },
    "mp_prefetch": _PREFETCH,
    "prefetch": _PREFETCH,
    "with_options": {
        **_OF_LOADERS,
        "num_workers": "use `stream.with_options(worker_count=2)`",
        "workers": "use `stream.with_options(worker_count=2)`",
    },
    "MapDataset.shuffle": {
        "buffer_size": f"{_SEVERAL}; `dataset.window_shuffle(1000, seed=0)` shuffles within windows",
    },
    "window_shuffle": {
        "buffer_size": "use `dataset.window_shuffle(1000, seed=0)`, whose window_size is the number of elements of a window",
    },
    "Batch": {
        "collate_fn": "use `headrace.Batch(32, batch_fn=function)`",
        "drop_last": _DROP,
        "num_parallel_calls": _IN_ORDER,
        "size": "use `headrace.Batch(32)`",
        "padded_shapes": "use `headrace.Batch(32, batch_fn=headrace.pad_batch(length=512))`",
        "padding_values": "use `headrace.Batch(32, batch_fn=headrace.pad_batch(length=512, value=-1))`",
    },
    "IndexSampler": {
        "batch_size": "use `headrace.Batch(32)` among the operations",
        "data_source": "use `num_records=len(source)`",
        "dataset": "use `num_records=len(source)`",
        "drop_last": "use `shard_options=headrace.ShardOptions(0, 4, drop_remainder=True)`",
        "drop_remainder": "use `shard_options=headrace.ShardOptions(0, 4, drop_remainder=True)`",
        "epochs": "use `num_epochs=3`",
        "generator": "use `seed=0`",
        "num_replicas": _SHARD,
        "num_samples": "use `num_records=len(source)`",
        "num_shards": _SHARD,
        "rank": _SHARD,
        "replacement": "leave it out: each record comes once in an epoch; docs/from-pytorch.md shows a sampler that draws "
        "with replacement",
        "shard_count": _SHARD,
        "shard_index": _SHARD,
        "world_size": _SHARD,
    },
    "to_device": {
        "buffer_size": _AHEAD,
        "cpu_buffer_size": _AHEAD,
        "device": "pass it first, `loader.to_device(device)`",
        "device_buffer_size": _AHEAD,
        "drop_remainder": "use `loader.to_device(device, on_uneven='drop')`",
        "prefetch": _AHEAD,
        "prefetch_size": _AHEAD,
        "sharding": "pass it first, `loader.to_device(device)`",
        "size": _AHEAD,
    },
}
"""For one function, method or class, by its name."""


def unknown_argument(function: str, name: str, known: Sequence[str]) -> TypeError:
    """The error for an argument that a function has not.

    Args:
        function: as it is called: "load", "MapDataset.shuffle".
        name: of the argument.
        known: the arguments that it has.

    >>> unknown_argument("load", "num_epoch", ["source", "num_epochs"])
    TypeError('load has no argument num_epoch=; use num_epochs=.')
    """
    return TypeError(f"{function} has no argument {shorten(name)}=; {argument_instead(function, name, known)}.")


def argument_instead(function: str, name: str, known: Sequence[str]) -> str:
    """The replacement of an argument that a function does not have: another library's, or a misspelled one.

    >>> argument_instead("load", "num_workers", [])
    'use worker_count=2'
    """
    from difflib import get_close_matches  # here: few programs need it

    kind, _, method = function.rpartition(".")
    remedies: dict[str, str] = {}
    for key in (kind, method, function):
        remedies |= _OF_ONE.get(key, {})
    meant = [name] if name in remedies else get_close_matches(name, [*known, *remedies], 1, 0.8)
    if meant and meant[0] in known:
        return f"use {meant[0]}="
    if meant:
        return remedies[meant[0]].replace("`", "")
    return f"it has {first_few(known, 12)}" if known else "it takes none by name"
