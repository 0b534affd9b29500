"""`grain.experimental`."""

from ..adapters.chains.elastic import ElasticIterator
from ..adapters.chains.files import ParquetIterDataset, TFRecordIterDataset
from ..adapters.chains.iter_datasets import (
    CacheIterDataset,
    FlatMapIterDataset,
    LimitIterDataset,
    RebatchIterDataset,
    RepeatIterDataset,
    ThreadPrefetchIterDataset,
    WithOptionsIterDataset,
    ZipIterDataset,
    apply_transformations,
    multithread_prefetch,
)
from ..adapters.chains.iterators import get_next_index, set_next_index
from ..adapters.chains.map_datasets import FlatMapMapDataset, WindowShuffleMapDataset, ZipMapDataset
from ..adapters.chains.streams import InterleaveIterDataset, WindowShuffleIterDataset
from ..adapters.helpers import (
    PerformanceConfig,
    RngPool,
    ShapeDtypeStruct,
    ShapeDtypeStructProtocol,
    ThreadPrefetchDatasetIterator,
    assert_equal_output_after_checkpoint,
    batch_and_pad,
    device_put,
    get_element_spec,
    index_shuffle,
    pick_performance_config,
)
from ..adapters.options import DatasetOptions, ExecutionTrackingMode
from ..adapters.packing.bin_packing import BestFitPackIterDataset, FirstFitPackIterDataset
from ..adapters.packing.concat_then_split import BOSHandling, ConcatThenSplitIterDataset
from ..adapters.transforms import FlatMap as FlatMapTransform
from ..adapters.transforms import MapWithIndex as MapWithIndexTransform

__all__ = [
    "BOSHandling",
    "BestFitPackIterDataset",
    "CacheIterDataset",
    "ConcatThenSplitIterDataset",
    "DatasetOptions",
    "ElasticIterator",
    "ExecutionTrackingMode",
    "FirstFitPackIterDataset",
    "FlatMapIterDataset",
    "FlatMapMapDataset",
    "FlatMapTransform",
    "InterleaveIterDataset",
    "LimitIterDataset",
    "MapWithIndexTransform",
    "ParquetIterDataset",
    "PerformanceConfig",
    "RebatchIterDataset",
    "RepeatIterDataset",
    "RngPool",
    "ShapeDtypeStruct",
    "ShapeDtypeStructProtocol",
    "TFRecordIterDataset",
    "ThreadPrefetchDatasetIterator",
    "ThreadPrefetchIterDataset",
    "WindowShuffleIterDataset",
    "WindowShuffleMapDataset",
    "WithOptionsIterDataset",
    "ZipIterDataset",
    "ZipMapDataset",
    "apply_transformations",
    "assert_equal_output_after_checkpoint",
    "batch_and_pad",
    "device_put",
    "get_element_spec",
    "get_next_index",
    "index_shuffle",
    "multithread_prefetch",
    "pick_performance_config",
    "set_next_index",
]
