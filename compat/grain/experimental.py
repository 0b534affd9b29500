"""`grain.experimental`: headrace's versions of the names in this module of Grain."""

from ..adapters import transforms as _transforms
from ..adapters.chains.elastic import ElasticIterator as ElasticIterator
from ..adapters.chains.files import InterleaveIterDataset as InterleaveIterDataset
from ..adapters.chains.files import ParquetIterDataset as ParquetIterDataset
from ..adapters.chains.files import TFRecordIterDataset as TFRecordIterDataset
from ..adapters.chains.iter_dataset import CacheIterDataset as CacheIterDataset
from ..adapters.chains.iter_dataset import LimitIterDataset as LimitIterDataset
from ..adapters.chains.iter_dataset import RepeatIterDataset as RepeatIterDataset
from ..adapters.chains.iter_dataset import WindowShuffleIterDataset as WindowShuffleIterDataset
from ..adapters.chains.iter_dataset import ZipIterDataset as ZipIterDataset
from ..adapters.chains.iterators import get_next_index as get_next_index
from ..adapters.chains.iterators import set_next_index as set_next_index
from ..adapters.chains.map_dataset import FlatMapMapDataset as FlatMapMapDataset
from ..adapters.chains.map_dataset import WindowShuffleMapDataset as WindowShuffleMapDataset
from ..adapters.chains.map_dataset import ZipMapDataset as ZipMapDataset
from ..adapters.element_specs import ShapeDtypeStruct as ShapeDtypeStruct
from ..adapters.element_specs import ShapeDtypeStructProtocol as ShapeDtypeStructProtocol
from ..adapters.element_specs import get_element_spec as get_element_spec
from ..adapters.helpers import PerformanceConfig as PerformanceConfig
from ..adapters.helpers import RngPool as RngPool
from ..adapters.helpers import ThreadPrefetchDatasetIterator as ThreadPrefetchDatasetIterator
from ..adapters.helpers import (
    assert_equal_output_after_checkpoint as assert_equal_output_after_checkpoint,
)
from ..adapters.helpers import batch_and_pad as batch_and_pad
from ..adapters.helpers import device_put as device_put
from ..adapters.helpers import index_shuffle as index_shuffle
from ..adapters.helpers import pick_performance_config as pick_performance_config
from ..adapters.options import DatasetOptions as DatasetOptions
from ..adapters.options import ExecutionTrackingMode as ExecutionTrackingMode
from ..adapters.packing.bin_packing import BestFitPackIterDataset as BestFitPackIterDataset
from ..adapters.packing.bin_packing import FirstFitPackIterDataset as FirstFitPackIterDataset
from ..adapters.packing.concat_then_split import BOSHandling as BOSHandling
from ..adapters.packing.concat_then_split import (
    ConcatThenSplitIterDataset as ConcatThenSplitIterDataset,
)
from ..adapters.packing.pack_and_batch import PackAndBatchOperation as PackAndBatchOperation
from ..adapters.prefetching import FlatMapIterDataset as FlatMapIterDataset
from ..adapters.prefetching import RebatchIterDataset as RebatchIterDataset
from ..adapters.prefetching import ThreadPrefetchIterDataset as ThreadPrefetchIterDataset
from ..adapters.prefetching import WithOptionsIterDataset as WithOptionsIterDataset
from ..adapters.prefetching import apply_transformations as apply_transformations
from ..adapters.prefetching import multithread_prefetch as multithread_prefetch

FlatMapTransform = _transforms.FlatMap
MapWithIndexTransform = _transforms.MapWithIndex
