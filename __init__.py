"""headrace: input pipelines for JAX, made of a source, a sampler and operations; see README.md."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import chains as chains
    from . import checkpoint as checkpoint
    from . import conversion as conversion
    from . import errors as errors
    from . import formats as formats
    from . import loader as loader
    from . import operations as operations
    from . import reporting as reporting
    from . import samplers as samplers
    from . import sources as sources
    from . import tools as tools
    from .chains import HuggingFaceStream, IterDataset, MapDataset, kfold, sample, split
    from .conversion import convert, measure_lengths, verify
    from .formats import RaggedFeature, SparseFeature, decode_example, encode_example
    from .loader import (
        Auto,
        DataLoader,
        DataLoaderIterator,
        DeviceLoader,
        HostLoader,
        ReadOptions,
        RemoteLoader,
        device_put,
        load,
        shard_options_for,
    )
    from .operations import (
        Batch,
        BudgetBatch,
        CenterCrop,
        ColorJitter,
        CutMix,
        DecodeAudio,
        DecodeImage,
        DecodeVideo,
        Filter,
        FlatMap,
        GaussianBlur,
        MapTransform,
        MapWithIndexTransform,
        MixUp,
        Normalize,
        Operation,
        Pack,
        Pad,
        RandAugment,
        RandomClip,
        RandomErasing,
        RandomFlip,
        RandomMapTransform,
        RandomResizedCrop,
        Resize,
        WindowShuffle,
        batch_and_pad,
        pad_batch,
    )
    from .reporting import metrics, progress, watch_hosts, write_perfetto, write_report
    from .samplers import (
        Balance,
        BalancedSampler,
        BlockShuffle,
        BpttSampler,
        GrowthOptions,
        IndexSampler,
        MixSampler,
        NoSharding,
        RecordMetadata,
        Sampler,
        SequentialSampler,
        ShardByJaxProcess,
        ShardOptions,
        WeightedSampler,
    )
    from .sources import (
        ArrayRecordDataSource,
        BytesSource,
        DataSource,
        FormerKeys,
        HDF5Source,
        HuggingFaceDataSource,
        ImageFolderDataSource,
        JoinedByKey,
        JsonLinesDataSource,
        LanceSource,
        LeRobotSource,
        LitDataSource,
        MdsSource,
        MegatronSource,
        MemorySource,
        MixedSource,
        NpzSource,
        OffsetWindows,
        ParquetDataSource,
        RangeDataSource,
        SourceFacts,
        Subset,
        TarDataSource,
        TextLinesSource,
        TfdsDataSource,
        TFRecordDataSource,
        TokenSource,
        TokenWriter,
        XarraySource,
        ZarrSource,
        attention,
        lengths_of,
    )
    from .tools import Diagnosis, check_resume, diagnose, diff, find_omitted, trace

    __version__: str

__all__ = [
    "ArrayRecordDataSource",
    "Auto",
    "Balance",
    "BalancedSampler",
    "Batch",
    "BlockShuffle",
    "BpttSampler",
    "BudgetBatch",
    "BytesSource",
    "CenterCrop",
    "ColorJitter",
    "CutMix",
    "DataLoader",
    "DataLoaderIterator",
    "DataSource",
    "DecodeAudio",
    "DecodeImage",
    "DecodeVideo",
    "DeviceLoader",
    "Diagnosis",
    "Filter",
    "FlatMap",
    "FormerKeys",
    "GaussianBlur",
    "GrowthOptions",
    "HDF5Source",
    "HostLoader",
    "HuggingFaceDataSource",
    "HuggingFaceStream",
    "ImageFolderDataSource",
    "IndexSampler",
    "IterDataset",
    "JoinedByKey",
    "JsonLinesDataSource",
    "LanceSource",
    "LeRobotSource",
    "LitDataSource",
    "MapDataset",
    "MapTransform",
    "MapWithIndexTransform",
    "MdsSource",
    "MegatronSource",
    "MemorySource",
    "MixSampler",
    "MixUp",
    "MixedSource",
    "NoSharding",
    "Normalize",
    "NpzSource",
    "OffsetWindows",
    "Operation",
    "Pack",
    "Pad",
    "ParquetDataSource",
    "RaggedFeature",
    "RandAugment",
    "RandomClip",
    "RandomErasing",
    "RandomFlip",
    "RandomMapTransform",
    "RandomResizedCrop",
    "RangeDataSource",
    "ReadOptions",
    "RecordMetadata",
    "RemoteLoader",
    "Resize",
    "Sampler",
    "SequentialSampler",
    "ShardByJaxProcess",
    "ShardOptions",
    "SourceFacts",
    "SparseFeature",
    "Subset",
    "TFRecordDataSource",
    "TarDataSource",
    "TextLinesSource",
    "TfdsDataSource",
    "TokenSource",
    "TokenWriter",
    "WeightedSampler",
    "WindowShuffle",
    "Windows",
    "XarraySource",
    "ZarrSource",
    "attention",
    "batch_and_pad",
    "check_resume",
    "checkpoint",
    "convert",
    "decode_example",
    "device_put",
    "diagnose",
    "diff",
    "encode_example",
    "find_omitted",
    "kfold",
    "lengths_of",
    "load",
    "measure_lengths",
    "metrics",
    "on_preemption",
    "pad_batch",
    "progress",
    "sample",
    "shard_options_for",
    "split",
    "trace",
    "verify",
    "watch_hosts",
    "write_perfetto",
    "write_report",
]

_PACKAGES = (
    "samplers",
    "operations",
    "sources",
    "loader",
    "chains",
    "formats",
    "conversion",
    "reporting",
    "tools",
    "checkpoint",
)


if not TYPE_CHECKING:  # which would else believe that every name is here

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used.

        A worker process needs only few names, and starts sooner.
        """
        if name == "__version__":
            # which takes as long to import as half of a worker's own modules
            from importlib.metadata import version

            return version(__name__)
        if name == "metrics":
            return import_module(f"{__name__}.reporting.metrics")
        if name in ("errors", *_PACKAGES):
            return import_module(f"{__name__}.{name}")
        if name in __all__:
            for package in _PACKAGES:
                module = import_module(f"{__name__}.{package}")
                if name in module.__all__:
                    return getattr(module, name)
        raise import_module(f"{__name__}.migration_hints.hints").no_attribute(name)


def __dir__() -> list[str]:
    return sorted(__all__)
