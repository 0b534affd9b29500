"""Names of other libraries that people look for in `headrace`, and where they are here.

In: a name that the package has not. Out: the end of the message of an error.
"""

from __future__ import annotations

from ..common.messages import short_repr

_CHAINS = "what it does is a method of headrace.MapDataset or headrace.IterDataset, as far as it is here"

_HERE = {
    "BatchOperation": "headrace.Batch",
    "AUTOTUNE": 'worker_count="auto" of headrace.load and DataLoader',
    "ChainDataset": "headrace.MapDataset.concatenate([dataset, …])",
    "CheckpointHandler": "headrace.checkpoint.CheckpointHandler",
    "CheckpointRestore": "headrace.checkpoint.CheckpointRestore",
    "CheckpointSave": "headrace.checkpoint.CheckpointSave",
    "ConcatDataset": "headrace.MapDataset.concatenate([dataset, …])",
    "Dataset": "any object with __len__ and __getitem__",
    "assert_equal_output_after_checkpoint": "headrace.check_resume",
    "DatasetIterator": "headrace.DataLoaderIterator",
    "ImageFolder": "headrace.ImageFolderDataSource, with headrace.DecodeImage",
    "TFRecordDataset": "headrace.TFRecordDataSource",
    "WebDataset": "headrace.TarDataSource",
    "DistributedSampler": "shard_options=headrace.ShardOptions(rank, world_size)",
    "ElasticIterator": "iterator.set_states(states), which goes on with another number of shards",
    "FilterOperation": "headrace.Filter",
    "FilterTransform": "headrace.Filter",
    "FlatMapTransform": "headrace.FlatMap",
    "InMemoryDataSource": "headrace.MemorySource",
    "Map": "headrace.MapTransform",
    "MapOperation": "headrace.MapTransform",
    "MapWithIndex": "headrace.MapWithIndexTransform",
    "MultiprocessingOptions": "worker_count= and worker_buffer_size= of headrace.DataLoader",
    "PyGrainCheckpointHandler": "headrace.checkpoint.CheckpointHandler",
    "PyGrainCheckpointRestore": "headrace.checkpoint.CheckpointRestore",
    "PyGrainCheckpointSave": "headrace.checkpoint.CheckpointSave",
    "PyGrainDatasetIterator": "headrace.DataLoaderIterator",
    "RandomAccessDataSource": "headrace.DataSource",
    "RandomMap": "headrace.RandomMapTransform",
    "RandomMapOperation": "headrace.RandomMapTransform",
    "RandomSampler": "headrace.IndexSampler(…, shuffle=True, seed=…)",
    "SharedMemoryDataSource": "headrace.MemorySource, whose memory worker processes share",
    "StackDataset": "headrace.MapDataset.zip({name: dataset, …})",
    "StateFile": "headrace.checkpoint.StateFile",
    "StatefulDataLoader": "headrace.DataLoader, whose iterators have state_dict and load_state_dict",
    "Subset": "a slice of a chain, headrace.MapDataset.source(source)[start:stop]",
    "TensorDataset": "a dict of arrays, which is a source",
    "Transformation": "headrace.Operation",
    "Transformations": "a list of operations",
    "WeightedRandomSampler": "headrace.WeightedSampler(weights, num_samples, seed=0)",
    "concatenate_datasets": "headrace.MapDataset.concatenate([dataset, …])",
    "default_collate": "headrace.Batch, which stacks without a function",
    "from_grain_state": "headrace.checkpoint.from_grain_state",
    "from_generator": "a list, headrace.load(list(generator())), or files that headrace.convert makes",
    "from_tensor_slices": "a dict of arrays, headrace.load({'x': array, 'y': array})",
    "interleave_datasets": "headrace.MapDataset.mix([dataset, …], weights)",
    "load_dataset": "datasets.load_dataset(name, split='train'), which is a source",
    "load_from_disk": "datasets.load_from_disk(path), which is a source",
    "python": "headrace, which has these names itself",
    "random_split": "slices of a chain before it is shuffled, dataset[:80] and dataset[80:]",
    "sharding": "headrace.ShardOptions, NoSharding and ShardByJaxProcess",
    "transforms": "headrace.MapTransform, RandomMapTransform, MapWithIndexTransform, Filter, FlatMap and Batch",
}

_REMARKS = {
    "BatchSampler": "docs/from-pytorch.md shows a source whose records are batches",
    "IterableDataset": "give it __len__ and __getitem__; a stream with a state of its own can be a headrace.IterDataset",
    "SubsetRandomSampler": "choose the records in a source, and shuffle it; docs/from-pytorch.md shows how",
    "compat": "import headrace.compat.grain, which has Grain's names",
    "get_worker_info": "no operation needs it: what is made does not depend on the worker, and each has records of its own",
    "experimental": "device_put and batch_and_pad are in headrace; headrace.compat.grain.experimental has all of Grain's",
    "multiprocessing": "worker_count= of headrace.DataLoader starts worker processes; there is nothing to set up",
    "pick_performance_config": "worker_count=None takes one worker for each CPU; headrace.compat.grain.experimental has it",
}

_OF_GRAIN = (
    "BOSHandling, DATASET_INDEX, DatasetOptions, DatasetSelectionMap, EPOCH, ExecutionTrackingMode, INDEX, META_FEATURES, "
    "PackAndBatchOperation, PerformanceConfig, RECORD, RECORD_KEY, Record, RngPool, SEED, ShapeDtypeStruct, "
    "ShapeDtypeStructProtocol, SharedMemoryArray, TfRandomMap, ThreadPrefetchDatasetIterator, apply_transformations, config, "
    "constants, get_element_spec, get_next_index, index_shuffle, monitoring, multithread_prefetch, proto, set_next_index"
)


def remark(name: str) -> str:
    """The remark on a name of another library; empty for any other name.

    >>> remark("FilterTransform")
    '; use headrace.Filter'
    """
    if name in _HERE:
        return f"; use {_HERE[name]}"
    if name in _REMARKS:
        return f"; {_REMARKS[name]}"
    if name.endswith(("MapDataset", "IterDataset")):
        return f"; {_CHAINS}"
    return (
        "; import headrace.compat.grain, which has what there is of this name of Grain"
        if name in _OF_GRAIN.split(", ")
        else ""
    )


def no_attribute(name: str) -> AttributeError:
    """The error for a name that the package has not."""
    return AttributeError(f"module 'headrace' has no attribute {short_repr(name)}{remark(name)}")
