"""Names of Grain and PyTorch that people look for in `millrace`, and arguments of their loaders: where they are here.

In: a name that the package, or a function of it, has not. Out: the end of the message of an error.
"""

from __future__ import annotations

from .wording import shown

_CHAINS = "what it does is a method of millrace.MapDataset or millrace.IterDataset, as far as it is here"

_HERE = {
    "BatchOperation": "millrace.Batch",
    "CheckpointHandler": "millrace.checkpoint.CheckpointHandler",
    "CheckpointRestore": "millrace.checkpoint.CheckpointRestore",
    "CheckpointSave": "millrace.checkpoint.CheckpointSave",
    "Dataset": "any object with __len__ and __getitem__",
    "assert_equal_output_after_checkpoint": "millrace.check_resume",
    "DatasetIterator": "millrace.DataLoaderIterator",
    "ImageFolder": "millrace.ImageFolderDataSource, with millrace.DecodeImage",
    "TFRecordDataset": "millrace.TFRecordDataSource",
    "WebDataset": "millrace.TarDataSource",
    "DistributedSampler": "shard_options=millrace.ShardOptions(rank, world_size)",
    "ElasticIterator": "iterator.set_states(states), which goes on with another number of shards",
    "FilterOperation": "millrace.Filter",
    "FilterTransform": "millrace.Filter",
    "FlatMapTransform": "millrace.FlatMap",
    "InMemoryDataSource": "millrace.MemorySource",
    "Map": "millrace.MapTransform",
    "MapOperation": "millrace.MapTransform",
    "MapWithIndex": "millrace.MapWithIndexTransform",
    "MultiprocessingOptions": "worker_count= and worker_buffer_size= of millrace.DataLoader",
    "PyGrainCheckpointHandler": "millrace.checkpoint.CheckpointHandler",
    "PyGrainCheckpointRestore": "millrace.checkpoint.CheckpointRestore",
    "PyGrainCheckpointSave": "millrace.checkpoint.CheckpointSave",
    "PyGrainDatasetIterator": "millrace.DataLoaderIterator",
    "RandomAccessDataSource": "millrace.DataSource",
    "RandomMap": "millrace.RandomMapTransform",
    "RandomMapOperation": "millrace.RandomMapTransform",
    "RandomSampler": "millrace.IndexSampler(…, shuffle=True, seed=…)",
    "SharedMemoryDataSource": "millrace.MemorySource, whose memory worker processes share",
    "StateFile": "millrace.checkpoint.StateFile",
    "StatefulDataLoader": "millrace.DataLoader, whose iterators have state_dict and load_state_dict",
    "TensorDataset": "a dict of arrays, which is a source",
    "Transformation": "millrace.Operation",
    "Transformations": "a list of operations",
    "default_collate": "millrace.Batch, which stacks without a function",
    "from_grain_state": "millrace.checkpoint.from_grain_state",
    "python": "millrace, which has these names itself",
    "sharding": "millrace.ShardOptions, NoSharding and ShardByJaxProcess",
    "transforms": "millrace.MapTransform, RandomMapTransform, MapWithIndexTransform, Filter, FlatMap and Batch",
}

_REMARKS = {
    "BatchSampler": "docs/from-pytorch.md shows a source whose records are batches",
    "IterableDataset": "give it __len__ and __getitem__; a stream with a state of its own can be a millrace.IterDataset",
    "SubsetRandomSampler": "choose the records in a source, and shuffle it; docs/from-pytorch.md shows how",
    "WeightedRandomSampler": "docs/from-pytorch.md shows one that can be resumed anywhere",
    "compat": "import millrace.compat.grain, which has Grain's names",
    "experimental": "device_put and batch_and_pad are in millrace; millrace.compat.grain.experimental has all of Grain's",
    "multiprocessing": "worker_count= of millrace.DataLoader starts worker processes; there is nothing to set up",
    "pick_performance_config": "worker_count=None takes one worker for each CPU; millrace.compat.grain.experimental has it",
}

_OF_GRAIN = (
    "BOSHandling, DATASET_INDEX, DatasetOptions, DatasetSelectionMap, EPOCH, ExecutionTrackingMode, INDEX, META_FEATURES, "
    "PackAndBatchOperation, PerformanceConfig, RECORD, RECORD_KEY, Record, RngPool, SEED, ShapeDtypeStruct, "
    "ShapeDtypeStructProtocol, SharedMemoryArray, TfRandomMap, ThreadPrefetchDatasetIterator, apply_transformations, config, "
    "constants, get_element_spec, get_next_index, index_shuffle, monitoring, multithread_prefetch, proto, set_next_index"
)


_BATCH = "a Batch among the operations, operations=[…, millrace.Batch(batch_size)], or millrace.load(…, batch_size=…)"

_ARGUMENTS = {
    "batch_sampler": f"use sampler= with {_BATCH}",
    "batch_size": f"use {_BATCH}",
    "collate_fn": "use millrace.Batch(batch_size, batch_fn=…)",
    "data_source": "pass the source first, millrace.load(source, …)",
    "dataset": "use data_source=",
    "drop_last": "use millrace.Batch(batch_size, drop_remainder=True)",
    "drop_remainder": "use millrace.Batch(batch_size, drop_remainder=True)",
    "generator": "use seed= of the sampler, millrace.IndexSampler(len(source), shuffle=True, seed=…)",
    "in_order": "leave it out: batches always come in order",
    "multiprocessing_context": "leave it out: workers start in the same way everywhere, and your program needs no guard",
    "num_epochs": "use sampler=millrace.IndexSampler(len(source), num_epochs=…), or millrace.load(…, num_epochs=…)",
    "num_workers": "use worker_count=",
    "operations": "use transformations=, a list",
    "persistent_workers": "leave it out: with num_epochs=n one iterator runs through all epochs, with the same workers",
    "pin_memory": "leave it out: loader.to_device(device) puts batches on devices, ahead of your loop",
    "pin_memory_device": "leave it out: loader.to_device(device) puts batches on devices, ahead of your loop",
    "prefetch_factor": "use worker_buffer_size=",
    "sampler": "use millrace.DataLoader(data_source=…, sampler=…), as load makes the sampler itself",
    "seed": "use sampler=millrace.IndexSampler(len(source), seed=…), or millrace.load(…, seed=…)",
    "shuffle": "use sampler=millrace.IndexSampler(len(source), shuffle=True, seed=…), or millrace.load(…, shuffle=True)",
    "source": "use data_source=",
    "transform": "use operations=[…], or millrace.load(…, transformations=[…])",
    "transformations": "use operations=",
    "transforms": "use operations=[…], or millrace.load(…, transformations=[…])",
    "worker_init_fn": "leave it out: operations draw from the generator of a RandomMapTransform, and sources open files when "
    "they are first read",
}
"""What to write for a name of another library, or for a name that only the other of `DataLoader` and `load` has."""


def remark(name: str) -> str:
    """What there is to say of a name of another library; nothing for any other name.

    >>> remark("FilterTransform")
    '; use millrace.Filter'
    """
    if name in _HERE:
        return f"; use {_HERE[name]}"
    if name in _REMARKS:
        return f"; {_REMARKS[name]}"
    if name.endswith(("MapDataset", "IterDataset")):
        return f"; {_CHAINS}"
    return (
        "; import millrace.compat.grain, which has what there is of this name of Grain"
        if name in _OF_GRAIN.split(", ")
        else ""
    )


def no_attribute(name: str) -> AttributeError:
    """The error for a name that the package has not."""
    return AttributeError(f"module 'millrace' has no attribute {shown(name)}{remark(name)}")


def argument_instead(name: str) -> str:
    """What to write for an argument that `DataLoader` or `load` has not.

    >>> argument_instead("num_workers")
    'use worker_count='
    """
    return _ARGUMENTS.get(name, "see help(millrace.DataLoader) for the names there are")
