"""Names, arguments and habits of other libraries: each error says what to write here, and what it
says runs.
"""

from __future__ import annotations

import functools
import glob
import inspect
import itertools
import pickle
import re
from collections.abc import Iterator

import cloudpickle
import jax
import numpy as np
import pandas
import pytest
from jax.sharding import Mesh, PartitionSpec

import headrace
import headrace.compat.grain as grain
from headrace import DataLoader, IndexSampler, IterDataset, MapDataset, load
from headrace.migration_hints.hints import methods_instead, tables

SOURCE = [{"text": "abc"[: number % 3], "label": number} for number in range(100)]
DATASET = MapDataset.source(SOURCE)
STREAM = DATASET.to_iter_dataset()
LOADER = load(range(6), batch_size=2, num_epochs=1)
KINDS = {
    "MapDataset": MapDataset,
    "IterDataset": IterDataset,
    "DataLoader": DataLoader,
    "DataLoaderIterator": headrace.DataLoaderIterator,
    "IndexSampler": IndexSampler,
}
GRAIN = grain.MapDataset.range(3)
LIMIT = 500


def names():
    """What the code in remedies may use."""
    return {
        "array": np.arange(100),
        "batches": DATASET.batch(10),
        "count": 2,
        "dataset": DATASET,
        "device": jax.devices()[0],
        "documents": MapDataset.range(1, 9).map(np.arange).to_iter_dataset(),
        "function": lambda x: x,
        "functools": functools,
        "generator": lambda: iter(range(3)),
        "glob": glob,
        "iterator": iter(LOADER),
        "itertools": itertools,
        "loader": load(range(6), batch_size=2, num_epochs=3),
        "headrace": headrace,
        "np": np,
        "print": lambda *values: None,
        "sampler": IndexSampler(100),
        "settings": {},
        "source": SOURCE,
        "state": iter(LOADER).get_state(),
        "stream": STREAM,
        "table": pandas.DataFrame({"x": [1, 2, 3]}),
    }


def run(code):
    """Run the code of a remedy; what it makes gives its first element, unless that takes worker
    processes.
    """
    if re.match(r"\w+=", code):
        given = eval(f"dict({code})", names())
        if given.keys() <= {"num_records", "seed"}:
            return IndexSampler(**{"num_records": 100, "shuffle": True, "seed": 1, **given})
        of_loader = given.keys() & {"data_source", "sampler", "operations"}
        base = {"data_source": SOURCE, "sampler": IndexSampler(100, num_epochs=1)}
        made = DataLoader(**{**base, **given}) if of_loader else load(SOURCE, **given)
    else:
        try:
            made = eval(code, names())
        except SyntaxError:
            return exec(code, names())
    execution = getattr(
        getattr(made, "chain_stream", getattr(made, "_description", None)), "execution", None
    )
    if isinstance(made, (MapDataset, IterDataset, DataLoader)) and (
        execution is None or execution.worker_count == 0
    ):
        next(iter(made))
    return made


def remedies():
    """Every remedy of every table, by where it stands."""
    found = {f"methods of {kind}": methods_instead(kind) for kind in KINDS}
    found |= {f"arguments of {owners}": table for owners, table in tables()["arguments"].items()}
    return [
        (f"{place}: {names}", told)
        for place, table in found.items()
        for names, told in table.items()
    ]


CODES = sorted({code for _, told in remedies() for code in re.findall(r"`([^`]+)`", told)})


@pytest.mark.one_in(6)
@pytest.mark.parametrize("part", range(6))
def test_the_code_of_every_remedy_runs(part, tmp_path, monkeypatch):
    """What an error tells to write exists, and takes the arguments that it is shown with."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.txt").write_text("one")
    failed = {}
    for code in CODES[part::6]:
        try:
            run(code)
        except Exception as error:
            failed[code] = error
    assert failed == {}


def test_a_remedy_has_code_or_says_to_leave_it_out():
    """No row of the tables is empty, or a remark that helps nobody."""
    words = (
        "leave it out",
        "without a name",
        "headrace.convert",
        "headrace.MapDataset.source(",
        "keep the source",
    )
    assert [
        place
        for place, told in remedies()
        if "`" not in told and not any(word in told for word in words)
    ] == []
    assert all(told.count("`") % 2 == 0 for _, told in remedies())


@pytest.mark.parametrize("kind", KINDS)
def test_a_method_of_another_library_says_what_to_write(kind):
    """Asked of the class, of an object, and of one that was pickled; the name is on none of them,
    and no message is long.
    """
    thing = {"MapDataset": DATASET, "IterDataset": STREAM, "IndexSampler": IndexSampler(3)}.get(
        kind, LOADER
    )
    again = cloudpickle.loads(cloudpickle.dumps(thing))
    objects = [
        KINDS[kind],
        *(map(iter, (thing, again)) if kind == "DataLoaderIterator" else (thing, again)),
    ]
    for asked, name in itertools.product(objects, methods_instead(kind)):
        assert not hasattr(asked, name)
        with pytest.raises(AttributeError, match=rf"{kind} has no {name}\(\); ") as caught:
            getattr(asked, name)
        assert len(str(caught.value)) < LIMIT
        assert "`" not in str(caught.value)


def test_a_name_that_nobody_has_is_told_as_python_tells_it():
    """Also of a class, and special names, of which Python asks."""
    for asked in (MapDataset, DATASET, IterDataset, STREAM, DataLoader, LOADER):
        for name in ("shufle", "__array__", "_repr_html_"):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
                getattr(asked, name)


CALLS = {
    "load": lambda **given: load(SOURCE, **given),
    "DataLoader": lambda **given: DataLoader(
        data_source=SOURCE, sampler=IndexSampler(100), **given
    ),
    "MapDataset.map": lambda **given: DATASET.map(abs, **given),
    "MapDataset.shuffle": lambda **given: DATASET.shuffle(seed=0, **given),
    "MapDataset.batch": lambda **given: DATASET.batch(2, **given),
    "MapDataset.mix": lambda **given: MapDataset.mix([DATASET], **given),
    "MapDataset.to_iter_dataset": lambda **given: DATASET.to_iter_dataset(**given),
    "IterDataset.map": lambda **given: STREAM.map(abs, **given),
    "IterDataset.filter": lambda **given: STREAM.filter(abs, **given),
    "IterDataset.window_shuffle": lambda **given: STREAM.window_shuffle(3, seed=0, **given),
    "IterDataset.mp_prefetch": lambda **given: STREAM.mp_prefetch(**given),
    "IterDataset.prefetch": lambda **given: STREAM.prefetch(**given),
    "IterDataset.with_options": lambda **given: STREAM.with_options(**given),
    "Batch": lambda **given: headrace.Batch(2, **given),
    "Pack": lambda **given: STREAM.pack(8, **given),
    "IndexSampler": lambda **given: IndexSampler(100, **given),
    "to_device": lambda **given: LOADER.to_device(jax.devices()[0], **given),
    "IterDataset.mix": lambda **given: IterDataset.mix([STREAM], **given),
}


@pytest.mark.parametrize(
    ("function", "argument", "remedy"),
    [
        ("load", "num_epoch", r"use num_epochs=\."),
        ("DataLoader", "num_epoch", r"headrace\.IndexSampler\(len\(source\), num_epochs=3\)"),
        ("load", "batchsize", r"use batch_size=\."),
        ("load", "num_worker", r"use worker_count=2"),
        ("load", "num_parallel_calls", "use worker_count=2"),
        ("load", "buffer_size", "use worker_buffer_size=2"),
        ("load", "nonsense", r"it has num_epochs, shuffle, seed, .* more\."),
        ("MapDataset.map", "num_parallel_calls", r"to_iter_dataset\(\)\.mp_prefetch\(2\)"),
        ("MapDataset.map", "batched", r"dataset\.batch\(32\)"),
        ("MapDataset.map", "with_indices", "map_with_index"),
        ("MapDataset.map", "nonsense", r"it has transform\."),
        (
            "MapDataset.shuffle",
            "buffer_size",
            r"whole epoch .* dataset\.window_shuffle\(1000, seed=0\)",
        ),
        ("MapDataset.shuffle", "reseed_each_epoc", "use reseed_each_epoch="),
        ("MapDataset.shuffle", "reshuffle_each_iteration", "reseed_each_epoch=False"),
        ("MapDataset.batch", "drop_last", "drop_remainder=True"),
        ("MapDataset.mix", "stopping_strategy", 'when_exhausted="all"'),
        ("MapDataset.mix", "probabilities", r"weights=\[0\.7, 0\.3\]"),
        ("MapDataset.to_iter_dataset", "num_workers", "mp_prefetch"),
        ("IterDataset.map", "num_parallel_calls", r"stream\.mp_prefetch\(2\)"),
        ("IterDataset.filter", "num_proc", r"stream\.mp_prefetch\(2\)"),
        ("IterDataset.window_shuffle", "buffer_size", "window_size is the number of elements"),
        ("IterDataset.mp_prefetch", "num_workers", r"stream\.mp_prefetch\(2\), the number"),
        ("IterDataset.prefetch", "buffer_size", "made ahead on a thread"),
        ("IterDataset.with_options", "num_workers", r"with_options\(worker_count=2\)"),
        ("IterDataset.with_options", "nonsense", "it has worker_count, "),
        ("Batch", "collate_fn", r"headrace\.Batch\(32, batch_fn=function\)"),
        ("Batch", "drop_last", "drop_remainder=True"),
        ("Batch", "num_workers", "it has batch_size, drop_remainder, batch_fn"),
        ("Pack", "pad_values", "use pad_value="),
        ("IndexSampler", "rank", r"shard_options=headrace\.ShardOptions\(0, 4\)"),
        ("IndexSampler", "replacement", "each record comes once"),
        ("to_device", "prefetch", "host_buffer=4, device_buffer=2"),
        ("IterDataset.mix", "stop_on_empty_dataset", 'when_exhausted="first"'),
    ],
)
def test_an_argument_of_another_library_or_a_slip_is_told_with_ours(function, argument, remedy):
    """By the name of the function as it was called, and briefly."""
    with pytest.raises(
        TypeError, match=f"^{re.escape(function)} has no argument {argument}=; .*{remedy}"
    ) as caught:
        CALLS[function](**{argument: 1})
    assert len(str(caught.value)) < LIMIT


def test_methods_keep_their_signatures():
    """For help(), for editors and for documentation: they take what they took."""
    assert list(inspect.signature(MapDataset.shuffle).parameters) == [
        "self",
        "seed",
        "reseed_each_epoch",
    ]
    assert (
        inspect.signature(MapDataset.zip).parameters["datasets"].default is inspect.Parameter.empty
    )
    assert STREAM.map.__doc__.startswith("Apply a function")


@pytest.mark.parametrize(
    "thing",
    [
        DATASET,
        STREAM,
        LOADER,
        LOADER.to_device(jax.devices()[0]),
        GRAIN.to_iter_dataset(),
        grain.DataLoader(data_source=range(3), sampler=grain.samplers.IndexSampler(3, seed=0)),
    ],
    ids=lambda thing: type(thing).__module__,
)
def test_datasets_and_loaders_are_no_iterators(thing):
    """isinstance(dataset, Iterator) is False, since no class has a `__next__`, not even one that
    refuses.
    """
    assert not isinstance(thing, Iterator)
    assert inspect.getattr_static(thing, "__next__", None) is None
    assert not hasattr(type(thing), "__next__")
    assert next(iter(thing)) is not None


def test_datasets_that_are_added_say_how_to_put_them_one_after_the_other():
    """As those of PyTorch are added."""
    for one in (DATASET, STREAM):
        with pytest.raises(
            TypeError,
            match=r"not added; .*headrace\.MapDataset\.concatenate\(\[dataset, dataset\]\)",
        ):
            one + one
    assert len(MapDataset.concatenate([DATASET, DATASET])) == 200


def test_a_class_of_ones_own_may_be_its_own_iterator():
    """What a user defines counts."""

    class Own(IterDataset):
        def __iter__(self):
            return self

        def __next__(self):
            return 7

    assert next(Own()) == 7


@pytest.mark.parametrize(
    "thing", [STREAM, LOADER, iter(LOADER)], ids=lambda thing: type(thing).__name__
)
def test_streams_have_no_elements_by_index(thing):
    """stream[0] is a TypeError, and no class has a `__getitem__`, not even one that refuses."""
    with pytest.raises(TypeError, match="not subscriptable"):
        thing[0]
    assert inspect.getattr_static(thing, "__getitem__", None) is None
    assert not isinstance(thing, headrace.DataSource)
    assert list(IterDataset[int].__parameters__) == []


@pytest.mark.parametrize(
    "thing",
    [
        GRAIN.to_iter_dataset(),
        GRAIN.to_iter_dataset().map(str).batch(2),
        grain.DataLoader(
            data_source=range(3), sampler=grain.samplers.IndexSampler(3, num_epochs=1, seed=0)
        ),
    ],
    ids=["stream", "mapped", "loader"],
)
def test_streams_under_grains_names_have_no_length_as_in_grain(thing):
    """len() is a TypeError, and streams are no sources for a protocol that is checked
    at run time.
    """
    with pytest.raises(TypeError, match="has no len"):
        len(thing)
    assert inspect.getattr_static(thing, "__len__", None) is None
    assert not isinstance(thing, grain.sources.RandomAccessDataSource)
    assert isinstance(GRAIN, grain.sources.RandomAccessDataSource)
    assert bool(thing)


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        (LOADER, "a DataLoader is not a source"),
        (iter(LOADER), "a DataLoaderIterator is"),
        (STREAM, "an IterDataset is not"),
        (LOADER.to_device(jax.devices()[0]), "a DeviceLoader is not a source"),
        (headrace.ParquetDataSource, r"ParquetDataSource is a class, .* ParquetDataSource\(…\)"),
        (dict, "dict is a class"),
    ],
)
def test_what_holds_a_stream_or_is_a_class_is_no_source(source, remedy):
    """In load, in a DataLoader and at the beginning of a chain."""
    for make in (
        load,
        MapDataset.source,
        lambda it: DataLoader(data_source=it, sampler=IndexSampler(3)),
    ):
        with pytest.raises(TypeError, match=remedy) as caught:
            make(source)
        assert len(str(caught.value)) < LIMIT


@pytest.mark.parametrize(
    "records", [["a", "b", "c"], [1, 2, 3], [{"text": "a"}, {"text": "b"}, {"text": "c"}], range(3)]
)
def test_a_dict_of_lists_is_told_as_columns_and_as_parts_of_a_mix(records):
    """Both remedies run as they are told."""
    data = {"web": records, "books": list(records)[:2]}
    with pytest.raises(
        TypeError,
        match=r"\{name: np\.asarray\(column\) .* sampler=headrace\.MixSampler\(data\)\)\.$",
    ):
        load(data)
    mixed = list(headrace.DataLoader(data_source=data, sampler=headrace.MixSampler(data)))
    assert len(mixed) >= 4
    columns = {name: np.asarray(column) for name, column in {"x": records, "y": records}.items()}
    assert len(load(columns, num_epochs=1)) == 3


def test_a_dict_with_arrays_in_lists_is_a_tree_of_columns_as_it_was():
    """Only lists without an array are refused."""
    assert next(iter(load({"pair": [np.arange(3), np.arange(3)]}))) == {"pair": [0, 0]}


def test_an_iterator_is_not_pickled_and_says_what_is():
    """Its loader, and its state; what the error says goes on where the iterator stood."""
    iterator = iter(LOADER)
    next(iterator)
    for act in (pickle.dumps, cloudpickle.dumps):
        with pytest.raises(
            TypeError, match=r"state = iterator\.get_state\(\) .* iterator\.set_state\(state\)"
        ):
            act(iterator)
    state, there = iterator.get_state(), iter(pickle.loads(pickle.dumps(LOADER)))
    there.set_state(state)
    assert next(there).tolist() == next(iterator).tolist()


def test_a_state_file_of_a_loader_says_what_to_pass(tmp_path):
    """To save and to restore; no file is written."""
    file = headrace.checkpoint.StateFile(tmp_path / "state")
    for act in (file.save, file.restore):
        for thing in (LOADER, STREAM, DATASET):
            with pytest.raises(
                TypeError, match=r"state\. Write iterator = iter\(loader\), and pass iterator"
            ):
                act(thing)
    assert list(tmp_path.iterdir()) == []


def test_a_check_of_an_iterator_says_to_pass_the_loader():
    """check_resume(iter(loader)) and check_resume([…])."""
    with pytest.raises(TypeError, match=r"Pass the loader of this iterator"):
        headrace.check_resume(iter(LOADER))
    with pytest.raises(TypeError, match="a loader, or a dataset"):
        headrace.check_resume([1, 2, 3])


def test_a_partition_spec_without_a_mesh_says_to_pass_both():
    """Alone, and in a tree; what it says runs."""
    mesh, spec = Mesh(jax.devices()[:1], ("data",)), PartitionSpec("data")
    for target in (spec, {"x": spec}):
        with pytest.raises(
            TypeError,
            match=(
                r"is a PartitionSpec without a mesh\. Pass both, \(mesh, P\('data',\)\), or "
                r"NamedSharding\(mesh"
            ),
        ):
            LOADER.to_device(target)
    assert len(list(LOADER.to_device((mesh, spec)))) == 3


@pytest.mark.parametrize(
    "act",
    [
        lambda options: load(SOURCE, shard_options=options),
        lambda options: IndexSampler(100, shard_options=options),
        lambda options: DATASET.to_iter_dataset(shard_options=options),
        STREAM.shard,
    ],
)
def test_the_class_of_shard_options_says_to_call_it(act):
    """Wherever shard options are passed."""
    with pytest.raises(
        TypeError, match=r"is a class\. Pass an instance, headrace\.ShardByJaxProcess\(\)"
    ):
        act(headrace.ShardByJaxProcess)
    with pytest.raises(TypeError, match=r"headrace\.ShardOptions\(index, count\)"):
        act(headrace.ShardOptions)
    with pytest.raises(TypeError, match=r"is a class\. Pass an instance, headrace\.NoSharding\(\)"):
        act(headrace.NoSharding)
    act(headrace.ShardByJaxProcess())


def test_names_of_other_libraries_in_the_package_are_told():
    """Of tf.data, PyTorch and Hugging Face."""
    for name in (
        "AUTOTUNE",
        "ConcatDataset",
        "SubsetRandomSampler",
        "random_split",
        "load_dataset",
        "get_worker_info",
        "from_tensor_slices",
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; "):
            getattr(headrace, name)


def _as_pytorch_loads(dataset, batch_size):
    """As `torch.utils.data.DataLoader(dataset, batch_size)` fetches from a dataset by index."""
    indices = list(range(len(dataset)))
    for start in range(0, len(indices), batch_size):
        wanted = indices[start : start + batch_size]
        yield (
            dataset.__getitems__(wanted)
            if getattr(dataset, "__getitems__", None)
            else [dataset[i] for i in wanted]
        )


@pytest.mark.parametrize(
    "dataset",
    [
        MapDataset.range(10).map(lambda x: x * 2),
        MapDataset.range(10).shuffle(seed=3).random_map(lambda x, rng: x + rng.random(), seed=1),
        MapDataset.range(20).batch(2),
        MapDataset.zip([MapDataset.range(10), MapDataset.range(10)]),
        MapDataset.source({"x": np.arange(10.0)}),
        MapDataset.concatenate([MapDataset.range(5), MapDataset.range(5)])[2:],
    ],
)
def test_a_chain_takes_lists_of_indices_as_pytorchs_loader_gives_them(dataset):
    """The same elements as one by one, in lists."""
    fetched = list(_as_pytorch_loads(dataset, 4))
    assert all(isinstance(batch, list) for batch in fetched)
    expected = [dataset[index] for index in range(len(dataset))]
    assert repr(list(itertools.chain.from_iterable(fetched))) == repr(expected)


def test_pytorchs_loader_holds_a_chain():
    """With PyTorch's own, where it is installed."""
    data = pytest.importorskip("torch.utils.data")
    batches = list(data.DataLoader(MapDataset.range(10).map(lambda x: x * 2), batch_size=4))
    assert [batch.tolist() for batch in batches] == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]


def test_indices_that_are_none_are_refused_by_name():
    """A list of floats, or of lists."""
    for wrong in ([0.5], [[1], [2]], ["a"]):
        with pytest.raises(TypeError, match="list of whole numbers"):
            MapDataset.range(10).__getitems__(wrong)
    assert MapDataset.range(10).__getitems__([]) == []
    assert isinstance(iter(LOADER), Iterator)
