"""Records that do not go together in a batch: what is refused, and what is told."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import headrace
from headrace import (
    Batch,
    BudgetBatch,
    Filter,
    FlatMap,
    MapTransform,
    ReadOptions,
    batch_and_pad,
    load,
    pad_batch,
)
from headrace.errors import BatchError, NoElementError, PromotionWarning

RAGGED = Filter(lambda record: True)


def _without_return(record: Any) -> None:
    pass


def _five_without_return(x: int) -> int | None:
    return x if x != 5 else None


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("operations", "maker", "key"),
    [
        ([_without_return, Batch(4)], "operation 0, MapTransform(_without_return),", 0),
        (
            [abs, _five_without_return, Batch(4)],
            "operation 1, MapTransform(_five_without_return),",
            5,
        ),
        ([_without_return, RAGGED, Batch(4)], "operation 0, MapTransform(_without_return),", 0),
        ([FlatMap(lambda x: [None]), Batch(4)], "operation 0, FlatMap(<lambda>),", 0),
        ([Batch(2), _without_return, Batch(2)], "operation 1, MapTransform(_without_return),", 0),
        (
            [_without_return, Batch(4, batch_fn=headrace.pad_batch())],
            "operation 0, MapTransform(_without_return),",
            0,
        ),
    ],
)
@pytest.mark.one_in(12)
def test_an_operation_that_forgets_its_return_is_named(
    workers: int, operations: list[Any], maker: str, key: int
):
    """A batch of None is nothing that anybody wants."""
    loader = load(range(20), transformations=operations, num_epochs=1, worker_count=workers)
    with iter(loader) as iterator, pytest.raises(NoElementError, match="is None") as caught:
        list(iterator)
    assert f"{maker} failed on record key {key} at position {key}." in caught.value.__notes__[0]


def test_a_source_that_gives_none_is_named():
    """No operation made it."""
    with pytest.raises(NoElementError) as caught:
        list(load([1, None, 3], batch_size=3, num_epochs=1))
    assert "reading failed on record key 1" in caught.value.__notes__[0]


@pytest.mark.parametrize("rest", [[], [RAGGED]])
@pytest.mark.parametrize(
    ("usual", "odd", "dtypes"),
    [
        (1, "text", ("int64", "object (str)")),
        (1, 2**70, ("int64", "object (int)")),
        ("text", 1, ("object (str)", "int64")),
        (2**70, 1.5, ("object (int)", "float64")),
        (np.float32(1), b"bytes", ("float32", "object (bytes)")),
        ("text", b"bytes", ("object (str)", "object (bytes)")),
        (b"bytes", np.str_("text"), ("object (bytes)", "object (str")),
        (np.array(["ab"]), np.array([1]), ("<U2", "int64")),
        (np.arange(3), np.array([1, None, 3]), ("int64", "object (ndarray)")),
        (np.datetime64("2020-01-01"), 1.5, ("datetime64[D]", "float64")),
    ],
)
@pytest.mark.parametrize("place", [1, 70])
def test_one_record_does_not_turn_its_batch_into_objects(
    usual: Any, odd: Any, dtypes: tuple, place: int, rest: list
):
    """It is an error that names the leaf, both dtypes and the record."""
    records = [{"x": odd if number == place else usual} for number in range(100)]
    with pytest.raises(BatchError) as caught:
        list(load(records, transformations=rest, batch_size=100, num_epochs=1))
    message = str(caught.value)
    assert "leaf ['x'] has dtype" in message
    assert all(dtype in message for dtype in dtypes)
    assert f"record key {place} at" in caught.value.__notes__[0]


def test_leaves_that_are_all_objects_are_kept():
    """Strings with strings, and any object with another."""
    (batch,) = load(["a", np.str_("bc"), frozenset()], batch_size=3, num_epochs=1)
    assert batch.tolist() == ["a", "bc", frozenset()]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("more", [{}, {"worker_count": 2}])
@pytest.mark.parametrize("operations", [[], [RAGGED]])
def test_a_promotion_among_numbers_is_told_once_for_each_leaf(
    operations: list[Any], more: dict[str, Any]
):
    """In the user's process, wherever the batches are made."""
    records = [
        {"x": i if i % 3 else i / 2, "y": np.float32(i) if i % 2 else i, "z": i} for i in range(80)
    ]
    with pytest.warns(PromotionWarning) as caught:
        batches = list(
            load(records, transformations=operations, batch_size=4, num_epochs=3, **more)
        )
    assert len(batches) == 60
    assert {warning.filename for warning in caught} == {__file__}
    told = sorted(str(warning.message) for warning in caught)
    assert [text.partition(" is of dtype ")[0] for text in told] == ["leaf ['x']", "leaf ['y']"]
    assert "float64 in some elements and int64 in others" in told[0]
    assert "float32 in some elements and int64 in others" in told[1]


def test_what_is_no_promotion_of_numbers_is_told_to_nobody():
    """Another byte order, longer strings and finer dates lose nothing."""
    records = [
        {
            "x": np.array([i], "<f4" if i % 2 else ">f4"),
            "s": np.array(["a" * (i + 1)]),
            "t": np.datetime64("2020", "YD"[i % 2]),
        }
        for i in range(8)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (batch,) = load(records, batch_size=8, num_epochs=1)
    assert batch["s"].dtype == "<U8"


MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])


@pytest.mark.parametrize("place", [0, 1, 70])
@pytest.mark.parametrize(
    ("usual", "masked"),
    [
        (2.0, np.ma.masked),
        (np.float64(2), np.ma.masked),
        (MASKED[:1], MASKED[1:2]),
        (np.zeros(3), MASKED),
        (1, np.ma.masked),
    ],
)
def test_what_is_masked_is_refused(usual: Any, masked: Any, place: int):
    """A batch has no mask, and the value under it means nothing."""
    records = [{"x": masked if number == place else usual} for number in range(100)]
    with pytest.raises(BatchError, match=r"leaf \['x'\] is a masked") as caught:
        list(load(records, batch_size=100, num_epochs=1))
    assert f"record key {place} at" in caught.value.__notes__[0]


def test_an_array_that_masks_nothing_is_an_array():
    """Its values are what they are."""
    (batch,) = load([{"x": MASKED[:1]}, {"x": MASKED[2:]}], batch_size=2, num_epochs=1)
    assert batch["x"].tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize(
    "record",
    [
        {"tokens": [1, 2, 3], "label": 0},
        {"tokens": [], "label": 0},
        {"tokens": ["a", "b"], "label": 0},
        {"tokens": [[1, 2], [3, 4]], "label": 0},
        {"tokens": [{"x": 1}, {"x": 2}], "label": 0},
        {"tokens": [np.float32(1), np.float32(2)], "label": 0},
    ],
)
@pytest.mark.parametrize("batch", [Batch(2), Batch(2, batch_fn=headrace.pad_batch())])
def test_a_list_of_numbers_is_refused_not_transposed(record: dict[str, Any], batch: Batch):
    """Records of other libraries hold lists where arrays are meant."""
    with pytest.raises(
        BatchError, match=r"leaf \['tokens'\] is a list.*np\.asarray.*pad_batch.*tuple"
    ):
        list(load([record, record], transformations=[batch], num_epochs=1))


def test_lists_of_arrays_and_tuples_of_numbers_are_trees():
    """Their parts are stacked one by one, as in jax."""
    records = [{"layers": [np.zeros(2), i], "size": (i, 2 * i)} for i in range(2)]
    (batch,) = load(records, batch_size=2, num_epochs=1)
    assert [leaf.shape for leaf in batch["layers"]] == [(2, 2), (2,)]
    assert [leaf.tolist() for leaf in batch["size"]] == [[0, 1], [0, 2]]


def test_lists_of_unequal_lengths_are_mapped_to_arrays_and_padded():
    """As the error says."""
    records = [{"tokens": [1, 2, 3]}, {"tokens": [4]}]
    to_arrays = MapTransform(lambda record: {"tokens": np.asarray(record["tokens"])})
    pad = Batch(2, batch_fn=headrace.pad_batch())
    (batch,) = load(records, transformations=[to_arrays, pad], num_epochs=1)
    assert batch["tokens"].tolist() == [[1, 2, 3], [4, 0, 0]]


MIXED_DTYPES = {
    "pad_batch": lambda: Batch(4, batch_fn=pad_batch()),
    "a function of the user's": lambda: Batch(
        4, batch_fn=lambda elements: pad_batch(length=9)(elements)
    ),
    "batch_and_pad": lambda: Batch(4, batch_fn=batch_and_pad(batch_size=4)),
    "budget of a stream": lambda: BudgetBatch(36, pad_to=(9,), window=4),
    "planned budget": lambda: BudgetBatch(36, pad_to=(9,), lengths=np.full(80, 2)),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "more", [{}, {"worker_count": 2}, {"read_options": ReadOptions(num_threads=2)}]
)
@pytest.mark.parametrize("name", MIXED_DTYPES)
def test_padded_batches_tell_of_a_promotion_as_plain_ones_do(name: str, more: dict[str, Any]):
    """A mixture of int64 and uint64 becomes float64 with one warning, wherever the batches are
    made.
    """
    records = [{"x": np.array([i, i], "u8" if i % 2 else "i8")} for i in range(80)]
    with pytest.warns(PromotionWarning) as caught:
        batches = list(load(records, transformations=[MIXED_DTYPES[name]()], num_epochs=1, **more))
    assert np.dtype("f8") in {batch["x"].dtype for batch in batches}
    (told,) = {str(warning.message) for warning in caught}
    assert told.startswith("leaf ['x'] is of dtype int64 in some elements and uint64 in others")
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("name", ["pad_batch", "budget of a stream", "planned budget"])
def test_an_empty_array_takes_the_dtype_of_its_neighbours(name: str, place: int):
    """`np.asarray([])` is of float64, and says nothing about what it lacks; no warning either."""
    records = [{"x": np.array([]) if i % 4 == place else np.array([i, i])} for i in range(80)]
    batches = list(load(records, transformations=[MIXED_DTYPES[name]()], num_epochs=1))
    assert {batch["x"].dtype for batch in batches} == {np.dtype("i8")}


@pytest.mark.parametrize("name", ["budget of a stream", "planned budget"])
def test_batches_by_budget_make_no_text_of_numbers(name: str):
    """Arrays of numbers among arrays of text are an error, as in a plain `Batch`."""
    records = [{"x": np.array(["ab", "c"]) if i % 2 else np.array([i, i])} for i in range(80)]
    with pytest.raises(
        BatchError,
        match=(
            r"leaf \['x'\] has dtype int64 in one element of the batch and <U2 in another, and no "
            r"dtype can hold both"
        ),
    ):
        list(load(records, transformations=[MIXED_DTYPES[name]()], num_epochs=1))
