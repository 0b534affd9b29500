"""Splits, folds and samples: each record in one part, classes in their shares, groups whole, the
same every time.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import tries

import headrace
from headrace import MapDataset, kfold, sample, split

SHARES = st.lists(st.integers(1, 20), min_size=2, max_size=4).map(
    lambda parts: [part / sum(parts) for part in parts]
)


def keys_of(parts):
    """The keys of subsets of a range."""
    return [list(part) for part in parts]


@tries(100)
@given(SHARES, st.integers(100, 300), st.integers(0, 2**32 - 1))
def test_each_record_is_in_exactly_one_part_of_its_share(shares, count, seed):
    """Rounded to one record."""
    parts = keys_of(split(range(count), shares, seed=seed))
    assert sorted(chain(*parts)) == list(range(count))
    for part, share in zip(parts, shares):
        assert part == sorted(part)
        assert abs(len(part) - share * count) < 1


@tries(100)
@given(SHARES, st.lists(st.integers(0, 5), min_size=100, max_size=300), st.integers(0, 2**32 - 1))
def test_each_part_has_of_every_class_its_share(shares, labels, seed):
    """Rounded to one record; and the whole is not off by more than the parts are."""
    parts = keys_of(split(range(len(labels)), shares, seed=seed, stratify=labels))
    assert sorted(chain(*parts)) == list(range(len(labels)))
    sizes = Counter(labels)
    for part, share in zip(parts, shares):
        counts = Counter(labels[key] for key in part)
        assert all(abs(counts[label] - share * sizes[label]) < 1 + 1e-9 for label in sizes)
        assert abs(len(part) - share * len(labels)) <= len(parts)


@tries(100)
@given(SHARES, st.integers(0, 2**32 - 1), st.booleans())
def test_groups_stay_together(shares, seed, stratified):
    """And parts have their shares, to within the largest group."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 120, 1000)
    labels = rng.integers(0, 3, 120)[groups] if stratified else None
    parts = keys_of(
        split(
            range(1000),
            shares,
            seed=seed,
            groups=[f"speaker {group}" for group in groups],
            stratify=labels,
        )
    )
    assert sorted(chain(*parts)) == list(range(1000))
    of_parts = [set(groups[part].tolist()) for part in parts]
    assert sum(map(len, of_parts)) == len(set(groups.tolist()))
    largest = np.bincount(groups).max()
    for part, share in zip(parts, shares):
        assert abs(len(part) - share * 1000) <= largest * (3 if stratified else 1)


def test_classes_of_groups_come_about_as_often_in_each_part():
    """Far nearer to their shares than by chance."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(300), rng.integers(1, 20, 300))
    labels = (rng.random(300) < 0.1)[groups].astype(int)
    train, test = keys_of(split(range(len(groups)), [0.8, 0.2], groups=groups, stratify=labels))
    assert abs(labels[train].mean() - labels[test].mean()) < 0.01
    assert 0.19 < len(test) / len(groups) < 0.21


@pytest.mark.slow
def test_every_record_is_as_likely_in_a_part_as_any_other():
    """Over many seeds, also of a class of one."""
    labels = [0] * 6 + [1] * 3 + [2]
    for stratify in (None, labels):
        counts = Counter()
        for seed in range(200):
            counts.update(split(range(10), [0.7, 0.3], seed=seed, stratify=stratify)[1])
        assert all(32 < counts[key] < 89 for key in range(10))


@pytest.mark.slow
def test_the_same_call_gives_the_same_parts_in_every_process():
    """Of any kind of source; another seed gives others."""
    code = (
        "import headrace; print([list(part) for part in headrace.split(range(50), [0.5, 0.5], "
        "seed=3)])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    ).stdout
    parts = keys_of(split(range(50), [0.5, 0.5], seed=3))
    assert told.strip() == str(parts)
    assert keys_of(split(list(range(50)), [25, 25], seed=3)) == parts
    assert keys_of(split(range(50), [0.5, 0.5], seed=4)) != parts


def test_parts_by_name_and_by_number():
    """As `parts` is; of a source, subsets that can be loaded, and of a dataset, datasets."""
    by_name = split(range(20), {"train": 15, "test": 5})
    assert {name: len(part) for name, part in by_name.items()} == {"train": 15, "test": 5}
    loader = headrace.load(by_name["train"], shuffle=True, seed=0, num_epochs=1, batch_size=4)
    assert sorted(np.concatenate(list(loader)).tolist()) == list(by_name["train"])
    datasets = split(MapDataset.range(20).map(lambda x: x * 2), {"train": 15, "test": 5})
    assert [x // 2 for x in datasets["train"]] == list(by_name["train"])


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_chains_are_divided_and_go_on(workers):
    """What comes after a split is as after any dataset: shuffled, repeated, batched, resumed,
    sharded.
    """
    whole = MapDataset.source([{"x": np.int64(number)} for number in range(40)]).map(
        lambda x: x["x"] + 100
    )
    train, test = split(whole, [0.75, 0.25], seed=1)
    stream = train.shuffle(seed=0).repeat(2).batch(4).to_iter_dataset()
    epochs = [batch.tolist() for batch in stream]
    assert sorted(chain(*epochs)) == sorted(2 * list(train))
    assert sorted([*train, *test]) == list(range(100, 140))
    headrace.check_resume(stream, steps=5, worker_counts=[0, workers])
    again = split(whole, [0.75, 0.25], seed=1)[0]
    assert again.fingerprint == train.fingerprint != test.fingerprint
    shards = [
        train.to_iter_dataset(shard_options=headrace.ShardOptions(shard, 3)) for shard in range(3)
    ]
    assert sorted(element for shard in shards for element in shard) == sorted(train)


def test_what_is_selected_is_at_its_index():
    """Also after maps and filters, in later epochs, and below others; an index outside
    is refused.
    """
    dataset = MapDataset.range(10).filter(lambda x: x % 2).select([3, 4, 9, 3])
    assert (len(dataset), list(dataset), dataset[1], dataset[4]) == (4, [3, 9, 3], None, 3)
    assert (
        list(MapDataset.range(10).shuffle(seed=0).select([1, 2]))
        == MapDataset.range(10).shuffle(seed=0)[[1, 2]]
    )
    assert list(MapDataset.concatenate([dataset, MapDataset.range(2)])) == [3, 9, 3, 0, 1]
    for wrong in ([10], [-1]):
        with pytest.raises(IndexError, match="outside"):
            MapDataset.range(10).select(wrong)
    with pytest.warns(UserWarning, match="shuffle"):
        MapDataset.range(10).shuffle(seed=0).select([1, 2]).repeat(2)


@pytest.mark.parametrize("of", [list, MapDataset.source])
@pytest.mark.parametrize(
    "more", [{}, {"stratify": [0, 1] * 11}, {"groups": [number // 2 for number in range(22)]}]
)
def test_folds_are_each_once_the_test_set(of, more):
    """Of almost equal size; train and test together are everything."""
    folds = kfold(of(list(range(22))), 4, seed=2, **more)
    assert sorted(record for fold in folds for record in fold.test) == list(range(22))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(22))
        assert 4 <= len(test) <= 7


@pytest.mark.slow
def test_no_fold_is_empty_if_there_is_a_record_for_each():
    """Though classes of few records are rounded."""
    for seed in range(12):
        for labels in ([1, 1, 2, 2], [1, 2, 1, 2], [1, 2, 3, 4], [1, 1, 1, 2, 2]):
            for k in range(2, len(labels) + 1):
                folds = kfold(range(len(labels)), k, stratify=labels, seed=seed)
                assert all(len(fold.test) for fold in folds)
                assert sorted(record for fold in folds for record in fold.test) == list(
                    range(len(labels))
                )


@pytest.mark.parametrize("sizes", [[17, 2, 1], [1, 10, 10], [5, 90, 1, 1, 1, 2]])
@pytest.mark.parametrize("stratified", [False, True])
def test_no_fold_is_empty_if_there_is_a_group_for_each(sizes, stratified):
    """However unequal they are."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    for k, seed in product(range(2, len(sizes) + 1), range(5)):
        folds = kfold(
            range(len(groups)),
            k,
            seed=seed,
            groups=groups,
            stratify=groups % 2 if stratified else None,
        )
        members = [set(groups[list(fold.test)].tolist()) for fold in folds]
        assert all(members)
        assert sorted(chain(*members)) == list(range(len(sizes)))
    with pytest.raises(ValueError, match="a group is not divided"):
        kfold(range(len(groups)), len(sizes) + 1, groups=groups)


def test_a_sample_has_records_at_most_once_in_random_order():
    """The same every time; all of them if there are fewer."""
    drawn = list(sample(range(100), 30, seed=1))
    assert len(set(drawn)) == 30
    assert drawn != sorted(drawn)
    assert (
        drawn
        == list(sample(MapDataset.range(100), 30, seed=1))
        != list(sample(range(100), 30, seed=2))
    )
    assert sorted(sample(list("abc"), 9)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (([0.5, 0.6],), ValueError, "sum to 1.1"),
        (([8, 1],), ValueError, "sum to 9"),
        (([1.0, -0.0],), ValueError, "above 0"),
        (([0.5, float("nan")],), ValueError, "nan"),
        (({"a": "x"},), TypeError, "'x'"),
        ((0.5,), TypeError, "a dict with a share for each name"),
        (([],), ValueError, "parts= is empty"),
        (([0.99, 0.01],), ValueError, "part '1' would be empty"),
        (([0.5, 0.5], {"stratify": [1, 2]}), ValueError, "2 labels, but there are 10 records"),
        (([0.5, 0.5], {"groups": [1.5] * 10}), TypeError, "all integers or all strings"),
        (([0.5, 0.5], {"groups": [1] * 10}), ValueError, "a group is not divided"),
        (([0.5, 0.5], {"seed": -1}), ValueError, "seed"),
        (([0.5, 0.5], {"seed": 1 << 32}), ValueError, "seed"),
    ],
)
def test_what_cannot_be_divided_is_refused(arguments, error, match):
    """Value, limit and remedy."""
    parts, more = (*arguments, {})[:2]
    with pytest.raises(error, match=match):
        split(range(10), parts, **more)


def test_too_many_folds_and_endless_datasets_are_refused():
    """And a source without records."""
    with pytest.raises(ValueError, match="k=3 is more than the 2 records"):
        kfold(range(2), 3)
    with pytest.raises(ValueError, match="never ends"):
        split(MapDataset.range(3).repeat(), [0.5, 0.5])
    with pytest.raises(ValueError, match="at least one record"):
        sample([], 3)
