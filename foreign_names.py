"""Names of Grain and PyTorch that people look for in `millrace`: where they are here.

In: a name that the package has not. Out: the end of the message of an AttributeError.
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
