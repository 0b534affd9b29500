"""`headrace.compat.install()`: a program's `import grain` takes ours; and the private modules that
programs import.
"""

import gc
import importlib
import io
import struct
import subprocess
import sys
import warnings

import numpy as np
import pytest
from grain._src.python.data_loader import _determine_worker_count as real_count
from support import both

import headrace.compat.grain as grain
from headrace.compat import grain_replaced, install

NOT_INSTALLED = "raise ImportError('Grain is not installed.')\n"

OPERATIONS = """
import grain
from grain._src.core import transforms
from grain._src.python.dataset import dataset


class Double(transforms.Map):
    def map(self, element):
        return 2 * grain.Record(None, element).data


class Twice(dataset.MapDataset):
    def __len__(self):
        return len(self._parent)

    def __getitem__(self, index):
        with self._stats.record_self_time():
            return self._stats.record_output_spec(2 * self._parent[index])
"""

PROGRAM = """
import headrace.compat

headrace.compat.install()
import grain
import operations

workers = grain.MultiprocessingOptions(1)
loader = grain.DataLoader(
    data_source=grain.sources.RangeDataSource(0, 4, 1),
    sampler=grain.samplers.SequentialSampler(4),
    operations=[operations.Double()],
    worker_count=1,
)
print(list(loader), list(operations.Twice(grain.MapDataset.range(4)).to_iter_dataset().mp_prefetch(workers)))
"""


@pytest.mark.long
def test_workers_of_a_program_whose_grain_is_ours_import_ours(tmp_path):
    """Where Grain is not installed: they import the program's modules anew."""
    for name, text in (("grain", NOT_INSTALLED), ("operations", OPERATIONS), ("program", PROGRAM)):
        (tmp_path / f"{name}.py").write_text(text)
    result = subprocess.run(
        [sys.executable, "program.py"], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.stdout == "[0, 2, 4, 6] [0, 2, 4, 6]\n", result.stderr


def test_workers_of_others_do_not_import_it():
    """What is put in Grain's place for a while is taken away, for workers too."""
    from headrace.common.pickled import CALLED_FIRST

    assert CALLED_FIRST == []
    with grain_replaced():
        assert [install] == CALLED_FIRST
    assert CALLED_FIRST == []


OLDER = ["MapTransform", "FlatMapTransform", "TfRandomMapTransform", "BatchTransform"]
"""Names of Grain's earlier versions, which programs import still."""

PRIVATE = {
    "core.config": ["config"],
    "core.constants": ["INDEX"],
    "core.exceptions": ["PyGrainInternalError"],
    "core.sharding": ["ShardOptions", "NoSharding", "ShardByJaxProcess", "even_split"],
    "core.transforms": [
        "FlatMap",
        "Map",
        "MapTransform",
        "RandomMap",
        "Batch",
        "Filter",
        "TfRandomMap",
        *OLDER,
    ],
    "core.tree_lib": [
        "map_structure",
        "flatten",
        "unflatten_as",
        "assert_same_structure",
        "map_structure_with_path",
    ],
    "python.data_loader": ["DataLoader", "DataLoaderIterator", "_determine_worker_count"],
    "python.data_sources": [
        "ArrayRecordDataSource",
        "RangeDataSource",
        "SharedMemoryDataSource",
        "SupportsIndex",
    ],
    "python.samplers": ["IndexSampler", "SequentialSampler", "Sampler"],
    "python.options": ["ReadOptions", "MultiprocessingOptions"],
    "python.operations": ["Operation", "MapOperation", "BatchOperation"],
    "python.record": ["Record", "RecordMetadata"],
    "python.load": ["load"],
    "python.ipc.shared_memory_array": ["SharedMemoryArray", "SharedMemoryArrayMetadata"],
    "python.dataset.base": ["RandomAccessDataSource", "DatasetSelectionMap", "DatasetOptions"],
    "python.dataset.dataset": [
        "MapDataset",
        "IterDataset",
        "DatasetIterator",
        "get_next_index",
        "set_next_index",
        "get_execution_summary",
    ],
    "python.dataset.stats": [
        "record_next_duration_if_output",
        "trace_input_pipeline_next",
        "Timer",
        "pretty_format_summary",
    ],
    "python.dataset.elastic_iterator": ["ElasticIterator"],
    "python.dataset.transformations.batch": [
        "BatchMapDataset",
        "BatchIterDataset",
        "batch_and_pad",
    ],
    "python.dataset.transformations.filter": ["FilterMapDataset", "FilterIterDataset"],
    "python.dataset.transformations.flatmap": ["FlatMapMapDataset", "FlatMapIterDataset"],
    "python.dataset.transformations.interleave": ["InterleaveIterDataset"],
    "python.dataset.transformations.limit": ["LimitIterDataset"],
    "python.dataset.transformations.map": ["MapMapDataset", "MapIterDataset", "RngPool"],
    "python.dataset.transformations.mix": [
        "MixedMapDataset",
        "MixedIterDataset",
        "ConcatenateMapDataset",
    ],
    "python.dataset.transformations.packing": ["FirstFitPackIterDataset", "BestFitPackIterDataset"],
    "python.dataset.transformations.packing_concat_then_split": [
        "BOSHandling",
        "ConcatThenSplitIterDataset",
    ],
    "python.dataset.transformations.prefetch": ["PrefetchIterDataset", "ThreadPrefetchIterDataset"],
    "python.dataset.transformations.process_prefetch": [
        "multiprocess_prefetch",
        "_PROCESS_KILL_TIMEOUT_S",
    ],
    "python.dataset.sources.parquet_dataset": ["ParquetIterDataset"],
    "python.dataset.sources.tfrecord_dataset": [
        "TFRecordIterDataset",
        "_TFRecordReader",
        "_TFRecordDatasetIterator",
    ],
    "python.dataset.transformations.repeat": ["RepeatMapDataset", "RepeatIterDataset"],
    "python.dataset.transformations.shuffle": [
        "ShuffleMapDataset",
        "WindowShuffleMapDataset",
        "WindowShuffleIterDataset",
    ],
    "python.dataset.transformations.slice": ["SliceMapDataset"],
    "python.dataset.transformations.source": ["SourceMapDataset", "RangeMapDataset"],
    "python.dataset.transformations.zip": ["ZipMapDataset", "ZipIterDataset"],
    "python.experimental.device_put.device_put": ["device_put"],
    "python.experimental.example_packing.packing": ["PackAndBatchOperation"],
    "python.experimental.index_shuffle.python.index_shuffle_module": ["index_shuffle"],
}


@pytest.mark.parametrize("module", PRIVATE)
def test_private_modules_have_the_names_that_programs_take(module):
    """All of them are names of Grain's at the same place, but for older ones."""
    ours = importlib.import_module(f"headrace.compat.grain._src.{module}")
    theirs = importlib.import_module(f"grain._src.{module}")
    for name in PRIVATE[module]:
        assert getattr(ours, name) is not None
        assert hasattr(theirs, name) or name in OLDER, name
    with pytest.raises(AttributeError, match=r"headrace has no nothing for grain\._src\."):
        _ = ours.nothing


def test_the_number_of_workers_is_as_grain_determines_it():
    """None is one for each CPU."""
    for count in (None, 0, 3):
        assert grain._src.python.data_loader._determine_worker_count(count) == real_count(count)


def test_a_summary_of_an_iterator_is_its_table():
    """As programs print it."""
    iterator = iter(grain.MapDataset.range(3).to_iter_dataset().map(str))
    assert next(iterator) == "0"
    summary = grain._src.python.dataset.dataset.get_execution_summary(iterator)
    assert "waited in next()" in grain._src.python.dataset.stats.pretty_format_summary(summary)
    iterator.close()


def test_tfrecord_files_are_opened_by_classes_of_the_users(tmp_path):
    """Readers, iterators and datasets of a program, made from private classes, open files in their
    own way.
    """
    path = tmp_path / "records"
    path.write_bytes(
        b"".join(struct.pack("<QI", len(each), 0) + each + bytes(4) for each in (b"a", b"bcd", b""))
    )
    opened = []

    def program(g):
        private = importlib.import_module(f"{g}._src.python.dataset.sources.tfrecord_dataset")
        public = importlib.import_module(g)

        class Reader(private._TFRecordReader):
            def __init__(self, path):
                opened.append(path)
                self._reader = io.BytesIO(open(path, "rb").read())  # noqa: SIM115

        class Records(private._TFRecordDatasetIterator):
            def __init__(self, path):
                public.DatasetIterator.__init__(self)
                self._reader = Reader(path)

        class Dataset(private.TFRecordIterDataset):
            def __iter__(self):
                return Records(self._path)

        dataset = Dataset(str(path))
        iterator = iter(dataset.map(lambda record: record * 2))
        first = next(iterator)
        plain = iter(private.TFRecordIterDataset(str(path)))
        return (
            first,
            iterator.get_state(),
            list(iterator),
            list(iter(dataset)),
            next(plain),
            plain.get_state(),
        )

    with both.quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        first, _, *expected = program("grain")
        assert program("headrace.compat.grain")[2:] == tuple(expected)
        gc.collect()
    assert first == b"aa"
    assert opened == [str(path)] * len(opened)
    public_state = {"reader_offset": 17}
    again = iter(grain.experimental.TFRecordIterDataset(str(path)))
    again.set_state(public_state)
    assert list(again) == [b"bcd", b""]


def test_datasets_that_private_classes_make_are_those_of_methods():
    """The same elements."""
    inner = grain._src.python.dataset.transformations
    dataset = inner.source.SourceMapDataset([3, 1, 2])
    made = inner.batch.BatchMapDataset(
        inner.map.MapMapDataset(dataset, lambda x: x + 1), batch_size=2
    )
    assert [batch.tolist() for batch in made] == [[4, 2], [3]]
    assert list(
        inner.slice.SliceMapDataset(inner.shuffle.ShuffleMapDataset(dataset, seed=1), slice(0, 1))
    ) == [dataset.shuffle(seed=1)[0]]
    stream = inner.prefetch.PrefetchIterDataset(dataset, read_options=grain.ReadOptions(1, 1))
    assert list(inner.filter.FilterIterDataset(stream, lambda x: x > 1)) == [3, 2]


def test_private_classes_take_arguments_by_grains_names():
    """Mixes by parents and proportions; what is no slice is refused in Grain's words; a batch of
    nothing, too.
    """
    inner = grain._src.python.dataset.transformations
    parts = [grain.MapDataset.range(3), grain.MapDataset.range(10, 13)]
    mixed = inner.mix.MixedMapDataset(parents=parts, proportions=[2, 1])
    assert list(mixed) == list(grain.MapDataset.mix(parts, [2, 1]))
    streams = [part.to_iter_dataset() for part in parts]
    assert list(inner.mix.MixedIterDataset(parents=streams, proportions=[1, 1])) == [
        0,
        10,
        1,
        11,
        2,
        12,
    ]
    with pytest.raises(ValueError, match="Must specify all non-zero proportions for mixing"):
        inner.mix.MixedIterDataset(streams, [1, 0])
    with pytest.raises(ValueError, match="Cannot set both"):
        inner.mix.MixedMapDataset(parts, [1, 1], selection_map=object())
    with pytest.raises(ValueError, match="sl is not a slice: <class 'int'>"):
        inner.slice.SliceMapDataset(parts[0], 5)
    with pytest.raises(ValueError, match="Cannot batch 0 values"):
        inner.batch.make_batch([])


def test_trees_are_those_of_grain():
    """Structure, paths and leaves, in the same order."""
    from grain._src.core import tree_lib as theirs

    ours = grain._src.core.tree_lib
    tree, other = {"b": [1, 2], "a": (3, {"c": 4})}, {"b": [10, 20], "a": (30, {"c": 40})}
    for function in (
        lambda lib: lib.map_structure(lambda x, y: x + y, tree, other),
        lambda lib: lib.map_structure_up_to({"b": 0, "a": 0}, lambda x: len(x), tree),
        lambda lib: lib.flatten(tree),
        lambda lib: lib.unflatten_as(tree, [5, 6, 7, 8]),
    ):
        assert function(ours) == function(theirs)
    odd = {
        "a": np.zeros((2, 3), np.int8),
        "b": [1, "x", [2.5]],
        "c": [[1], [2, 3]],
        "d": [],
        "e": ((1, 2), None),
        "f": "xyz",
    }
    for state in (odd, {"next_index": 3}, [{"x": 1}, {"x": 2}], (b"x", np.float32(1))):
        assert ours.spec_like(state) == theirs.spec_like(state)
    spec = grain.experimental.ShapeDtypeStruct((2,), int)
    assert ours.flatten({"a": spec}) == [spec]
    with pytest.raises(ValueError, match="differ"):
        ours.assert_same_structure(tree, {"b": 1})


@pytest.mark.long
def test_a_look_at_all_modules_leaves_grain_as_it_is():
    """No module of ours takes Grain's place by being imported: tools that list packages import
    each.
    """
    program = """
import importlib, pkgutil, grain, headrace, headrace.compat
for module in pkgutil.walk_packages(headrace.compat.__path__, "headrace.compat."):
    importlib.import_module(module.name)
import grain._src.python.dataset.transformations.mix as mix
print(mix.__file__.endswith("mix.py"))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout == "True\n", result.stderr
