"""Filters that leave much out: the warnings and errors of real Grain, as DatasetOptions ask."""

import logging
import math
import re

import numpy as np
import pytest
from support import both

import headrace.compat.grain as grain
from headrace.compat.adapters.inner import trees as tree_lib


class Third(grain.transforms.Filter):
    """Keeps a third."""

    def filter(self, element):
        return element % 3 == 0


def thirds(g):
    """A class that is a filter of either."""
    return type(
        "Third", (g.transforms.Filter,), {"filter": lambda self, element: element % 3 == 0}
    )()


def numbers(g, count=2500):
    """A stream."""
    return g.MapDataset.range(count).to_iter_dataset()


def with_options(g, dataset, **options):
    """The same with options."""
    return g.experimental.WithOptionsIterDataset(dataset, g.experimental.DatasetOptions(**options))


def packed(g, dataset):
    """A packing of what is left."""
    documents = dataset.map(lambda x: {"x": np.full(3, x % 7)})
    return g.experimental.FirstFitPackIterDataset(
        documents, length_struct={"x": 9}, num_packing_bins=2
    )


PROGRAMS = {
    "too much": lambda g: with_options(
        g, numbers(g).filter(thirds(g)), filter_raise_threshold_ratio=0.6
    ),
    "not too much": lambda g: with_options(
        g, numbers(g).filter(thirds(g)), filter_raise_threshold_ratio=0.7
    ),
    "too few to tell": lambda g: with_options(
        g, numbers(g, 999).filter(thirds(g)), filter_raise_threshold_ratio=0.1
    ),
    "by index": lambda g: with_options(
        g,
        g.MapDataset.range(2500).filter(thirds(g)).to_iter_dataset(),
        filter_raise_threshold_ratio=0.6,
    ),
    "before the filter": lambda g: with_options(
        g, numbers(g), filter_raise_threshold_ratio=0.6
    ).filter(thirds(g)),
    "both sides": lambda g: with_options(
        g,
        with_options(g, numbers(g).filter(thirds(g)), filter_raise_threshold_ratio=0.9).map(
            lambda x: x
        ),
        filter_raise_threshold_ratio=0.5,
    ),
    "both sides, the last counts": lambda g: with_options(
        g,
        with_options(g, numbers(g).filter(thirds(g)), filter_raise_threshold_ratio=0.5).map(
            lambda x: x
        ),
        filter_raise_threshold_ratio=0.9,
    ),
    "a mix": lambda g: with_options(
        g,
        g.IterDataset.mix([numbers(g), numbers(g).filter(thirds(g))]),
        filter_raise_threshold_ratio=0.6,
    ),
    "an interleave": lambda g: with_options(
        g,
        g.experimental.InterleaveIterDataset(
            [numbers(g), numbers(g).filter(thirds(g))], cycle_length=2
        ),
        filter_raise_threshold_ratio=0.6,
    ),
    "a packing": lambda g: with_options(
        g, packed(g, numbers(g).filter(thirds(g))), filter_raise_threshold_ratio=0.6
    ),
}


def what_comes(g, program):
    """The elements, and the words that the error has in common with Grain's."""
    found = []
    try:
        for element in PROGRAMS[program](g):
            found.append(both.told(element))
    except ValueError as error:
        return found, re.match(r".* skipped [\d.]+ % of the last seen 1000 elements\.", str(error))[
            0
        ]
    return found, None


@pytest.mark.parametrize("program", PROGRAMS)
def test_filters_raise_where_grain_raises(program):
    """At the same element, in the same words."""
    with both.quiet():
        assert what_comes(grain, program) == what_comes(both.real, program)


def test_much_left_out_is_a_warning_in_the_log(caplog):
    """Once a minute, with Grain's words, and nothing where the option is None."""
    dataset = numbers(grain, 3000).filter(lambda x: x < 50)
    with caplog.at_level(logging.WARNING):
        assert len(list(dataset)) == 50
        (record,) = caplog.records
        caplog.clear()
        assert len(list(with_options(grain, dataset, filter_warn_threshold_ratio=None))) == 50
        assert not caplog.records
    assert "skipped 95.00 % of the last seen 1000 elements" in record.getMessage()


def test_each_iterator_counts_anew():
    """What one left out does not count for the next."""
    dataset = with_options(
        grain, numbers(grain, 900).filter(lambda x: False), filter_raise_threshold_ratio=0.5
    )
    assert list(dataset) == list(dataset) == []


def test_options_change_no_fingerprint():
    """A state goes on in the same dataset with other options."""
    dataset = packed(grain, numbers(grain).filter(Third()))
    iterator = iter(dataset.map(lambda x: x))
    before = [both.told(next(iterator)) for _ in range(3)]
    again = iter(with_options(grain, dataset, filter_warn_threshold_ratio=0.99).map(lambda x: x))
    again.set_state(iterator.get_state())
    assert before
    assert both.told(next(again)) == both.told(next(iterator))


TEXTS = {
    "prefetch buffer": lambda g: g.experimental.ThreadPrefetchIterDataset(
        numbers(g), prefetch_buffer_size=-1
    ),
    "sequences": lambda g: g.experimental.FirstFitPackIterDataset(
        numbers(g), length_struct={"x": 1}, num_packing_bins=1, max_sequences_per_bin=-1
    ),
    "index": lambda g: iter(numbers(g, 20)).set_state({"next_index": 30}),
    "index before the first": lambda g: iter(numbers(g, 20)).set_state({"next_index": -1}),
    "features": lambda g: list(
        g.experimental.ConcatThenSplitIterDataset(
            g.MapDataset.source([{"x": [1]}]).to_iter_dataset(), length_struct={"x": 2, "y": 2}
        )
    ),
}
BEGINNINGS = {
    "prefetch buffer": "`prefetch_buffer_size` must be greater than or equal to 0",
    "sequences": "If specified, `max_sequences_per_bin` must be a positive integer, but got -1.",
    "index": "Checkpoint `next_index` 30 is out of range for dataset of length 20.",
    "index before the first": (
        "Checkpoint `next_index` -1 is out of range for dataset of length 20."
    ),
    "features": "Parent element has structure",
}


@pytest.mark.parametrize("case", TEXTS)
def test_errors_begin_with_grains_words(case):
    """Programs that look for these find them; the type is one of Grain's, too."""
    errors = []
    for g in (both.real, grain):
        with pytest.raises((ValueError, IndexError)) as caught:
            TEXTS[case](g)
        errors.append(caught.value)
    theirs, ours = errors
    assert str(theirs).startswith(BEGINNINGS[case])
    assert str(ours).startswith(BEGINNINGS[case])
    assert isinstance(ours, type(theirs))


def _documents(*features):
    return grain.MapDataset.source(list(features)).to_iter_dataset()


_PACK, _CONCAT = (
    grain.experimental.FirstFitPackIterDataset,
    grain.experimental.ConcatThenSplitIterDataset,
)
REFUSED = {
    "num_packing_bins=0 must be at least 1": lambda: _PACK(
        _documents({"x": [1]}), length_struct={"x": 4}, num_packing_bins=0
    ),
    "group_by_feature='z' is not a feature of a row. Name one of x, m": lambda: _PACK(
        _documents({"x": [1]}),
        length_struct={"x": 4},
        num_packing_bins=1,
        shuffle_bins_group_by_feature="z",
        meta_features=["m"],
    ),
    "tokens, but a row holds at most": lambda: list(
        _PACK(
            _documents({f"a long name {key}": [1, 2] for key in range(40)}),
            length_struct={f"a long name {key}": 1 for key in range(40)},
            num_packing_bins=1,
        )
    ),
    "length_struct['y']=0 must be at least 1": lambda: _CONCAT(
        _documents({"x": [1]}), length_struct={"x": 4, "y": 0}
    ),
    "have {'m': 5} tokens, more than a row of {'x': 4, 'm': 3}": lambda: list(
        _CONCAT(
            _documents({"x": [1], "m": [1] * 5}),
            length_struct={"x": 4, "m": 3},
            meta_features=["m"],
        )
    ),
    "batch_size=0 must be at least 1": lambda: grain.experimental.PackAndBatchOperation(
        {"x": 4}, 0
    ),
    "max_sequences_per_bin=0 must be at least 1": lambda: grain.experimental.PackAndBatchOperation(
        {"x": 4}, 1, 0
    ),
    "Pass 2 finite positive numbers of similar size": lambda: grain.MapDataset.mix(
        [grain.MapDataset.range(3)] * 2, [1, math.nan]
    ),
    "Pass 2 finite positive numbers of similar size, ": lambda: grain.MapDataset.mix(
        [grain.MapDataset.range(3)] * 2, [1e-300, 1e300]
    ),
    "two structures differ: PyTreeSpec([*]) and": lambda: tree_lib.assert_same_structure([1], (1,)),
    "and only one has the leaf ('k40',)": lambda: tree_lib.map_structure(
        max, {f"k{key}": key for key in range(41)}, {f"k{key}": key for key in range(40)}
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_arguments_are_refused(message):
    """With the value, and what to pass; no packing makes rows without end."""
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        REFUSED[message]()
    assert len(str(caught.value)) < 500


def test_a_dataset_of_files_may_be_a_maps_function(tmp_path):
    """Files by index become streams, which an interleave takes; `set_slice` reads some of the files
    only.
    """
    import pyarrow as pa
    from pyarrow import parquet

    paths = [str(tmp_path / f"{number}.parquet") for number in range(3)]
    for number, path in enumerate(paths):
        parquet.write_table(pa.table({"x": [number * 10, number * 10 + 1]}), path)
    found = []
    for g in (both.real, grain):
        kind = g.experimental.ParquetIterDataset
        files = g.MapDataset.source(paths).map(kind)
        some = kind(paths)
        some.set_slice(slice(1, 3))
        found.append(
            both.told(
                [list(g.experimental.InterleaveIterDataset(files, cycle_length=2)), list(some)]
            )
        )
    assert found[0] == found[1]
