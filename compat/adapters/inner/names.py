"""Find headrace's objects for the names in Grain's private modules.

In: the name of a module below `grain._src`, and a name in it. Out: headrace's object.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

from .by_method import Batched, Sliced, by_method, multiprocess_prefetch, process_prefetch

_GRAIN = "headrace.compat.grain"
_INNER = "headrace.compat.adapters.inner"
_CHAINS = "headrace.compat.adapters.chains"

_WHOLE: dict[str, tuple[str, ...]] = {
    "core.config": (_GRAIN,),
    "core.exceptions": (),
    "core.constants": (f"{_GRAIN}.constants",),
    "core.sharding": (f"{_GRAIN}.sharding", f"{_INNER}.shards"),
    "core.transforms": (f"{_GRAIN}.transforms", f"{_GRAIN}.python"),
    "core.tree_lib": (f"{_INNER}.trees",),
    "core.tree": (f"{_INNER}.trees",),
    "python.options": (_GRAIN,),
    "python.samplers": (f"{_GRAIN}.samplers",),
    "python.data_sources": (f"{_GRAIN}.sources", f"{_GRAIN}.python"),
    "python.data_loader": (_GRAIN, f"{_GRAIN}.python"),
    "python.load": (_GRAIN,),
    "python.operations": (f"{_GRAIN}.python",),
    "python.record": (_GRAIN,),
    "python.shared_memory_array": (f"{_INNER}.by_method",),
    "python.ipc.shared_memory_array": (f"{_INNER}.by_method",),
    "python.checkpoint.handler": (f"{_GRAIN}.checkpoint",),
    "python.checkpoint_handlers": (f"{_GRAIN}.checkpoint",),
    "python.testing.experimental": (f"{_GRAIN}.experimental",),
    "python.experimental.device_put.device_put": (f"{_GRAIN}.experimental",),
    "python.experimental.index_shuffle.python.index_shuffle_module": (f"{_GRAIN}.experimental",),
    "python.experimental.example_packing.packing": (f"{_GRAIN}.experimental",),
    "python.dataset.base": (
        f"{_GRAIN}.experimental",
        f"{_GRAIN}.sources",
        f"{_GRAIN}.transforms",
        f"{_INNER}.protocols",
    ),
    "python.dataset.dataset": (_GRAIN, f"{_GRAIN}.experimental"),
    "python.dataset.stats": (f"{_INNER}.stats",),
    "python.dataset.elastic_iterator": (f"{_GRAIN}.experimental",),
    "python.dataset.sources.parquet_dataset": (f"{_GRAIN}.experimental",),
    "python.dataset.sources.tfrecord_dataset": (f"{_GRAIN}.experimental",),
    **{
        f"python.dataset.transformations.{name}": (
            f"{_GRAIN}.experimental",
            f"{_INNER}.by_method",
            f"{_INNER}.protocols",
        )
        for name in (
            "batch",
            "cache",
            "filter",
            "flatmap",
            "interleave",
            "limit",
            "map",
            "mix",
            "packing",
            "packing_concat_then_split",
            "prefetch",
            "prefetch_autotune",
            "process_prefetch",
            "rebatch",
            "repeat",
            "shuffle",
            "slice",
            "source",
            "zip",
        )
    },
}
"""The modules of headrace in which the names of a private module of Grain are looked up.

They are in the order of the search.
"""

_MADE = {
    "filter": "Filter",
    "map": "Map",
    "random_map": "RandomMap",
    "map_with_index": "MapWithIndex",
}

_OF_METHODS = {
    f"{word}{kind}": by_method(f"{word}{kind}", method)
    for method, word in _MADE.items()
    for kind in ("MapDataset", "IterDataset")
} | {
    "BatchMapDataset": Batched,
    "BatchIterDataset": Batched,
    "RepeatMapDataset": by_method("RepeatMapDataset", "repeat"),
    "SliceMapDataset": Sliced,
    "ReindexMapDataset": by_method("ReindexMapDataset", "slice"),
    "ShuffleMapDataset": by_method("ShuffleMapDataset", "shuffle"),
    "PrefetchIterDataset": by_method("PrefetchIterDataset", "to_iter_dataset"),
    "MultiprocessPrefetchIterDataset": by_method("MultiprocessPrefetchIterDataset", "mp_prefetch"),
    "multiprocess_prefetch": multiprocess_prefetch,
    "ProcessPrefetchIterDataset": process_prefetch,
}

_ELSEWHERE = {
    "MixedIterDataset": (f"{_CHAINS}.iter_dataset", "MixedIterDataset"),
    "MixedMapDataset": (f"{_INNER}.by_method", "mixed_map_dataset"),
    "make_batch": ("headrace.compat.adapters.helpers", "make_batch"),
    "ConcatenateMapDataset": (f"{_CHAINS}.map_dataset", "MapDataset.concatenate"),
    "SourceMapDataset": (f"{_CHAINS}.map_dataset", "MapDataset.source"),
    "RangeMapDataset": (f"{_CHAINS}.map_dataset", "MapDataset.range"),
}

_MORE = {
    "core.exceptions": {"PyGrainInternalError": f"{_INNER}.functions.PyGrainInternalError"},
    "core.transforms": {
        "FlatMapTransform": f"{_GRAIN}.experimental.FlatMapTransform",
        "TfRandomMapTransform": f"{_GRAIN}.transforms.TfRandomMap",
        "BatchTransform": f"{_GRAIN}.transforms.Batch",
    },
    "python.data_loader": {"_determine_worker_count": f"{_INNER}.functions.determine_worker_count"},
    "python.data_sources": {"SupportsIndex": "typing.SupportsIndex"},
    "python.dataset.dataset": {
        "get_execution_summary": f"{_INNER}.functions.get_execution_summary"
    },
    "python.dataset.stats": {"pretty_format_summary": "builtins.str"},
    "python.dataset.sources.tfrecord_dataset": {
        "_TFRecordReader": f"{_CHAINS}.files.TFRecordReader",
        "_TFRecordDatasetIterator": f"{_CHAINS}.files.TFRecordDatasetIterator",
    },
    "python.dataset.transformations.process_prefetch": {
        "_PROCESS_KILL_TIMEOUT_S": f"{_INNER}.functions.PROCESS_KILL_TIMEOUT_S"
    },
}
"""Names that differ in headrace: module, name in Grain, path of headrace's object.

These are private names, and names that Grain had in earlier versions.
"""


def modules() -> Iterator[str]:
    """Yield the names of the modules, without `grain._src.`.

    A package comes before each of its modules.
    """
    for name in _WHOLE:
        parts = name.split(".")
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def name_in(module: str, name: str) -> Any:
    """Return headrace's object for a name in a private module of Grain.

    Args:
        module: name of the module, without `grain._src.`.
        name: the name in it.

    Raises:
        AttributeError: if headrace has no such name.
    """
    for place in _WHOLE.get(module, ()):
        found = getattr(import_module(place), name, None)
        if found is not None:
            return found
    if ".transformations." in module:
        if name in _OF_METHODS:
            return _OF_METHODS[name]
        if name in _ELSEWHERE:
            place, path = _ELSEWHERE[name]
            return resolve_name(f"{place}:{path}")
    if name in (more := _MORE.get(module, {})):
        return resolve_name(more[name])
    raise AttributeError(
        f"headrace has no {name} for grain._src.{module}. Use a public name of grain.python "
        "instead."
    )
