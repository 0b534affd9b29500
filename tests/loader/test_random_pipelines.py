"""Pipelines of any operations in any order do what a plain interpreter of lists does, from every place on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipelines import plain, stream, tries
from plain_model import PlainModel

from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    MapTransform,
    Pack,
    ReadOptions,
    ShardOptions,
    WindowShuffle,
)
from headrace.errors import EmptyStreamError
from headrace.loader.plan.nodes import Apply, Read

pytestmark = pytest.mark.filterwarnings("ignore:this loader was run to its end")  # as is meant here


def total(element) -> int:
    """One number for an element of any shape."""
    return int(np.asarray(element).sum())


OPERATIONS = {
    "double": lambda: MapTransform(lambda x: x * 2),
    "keep two thirds": lambda: Filter(lambda x: total(x) % 3 != 0),
    "keep few": lambda: Filter(lambda x: total(x) % 5 == 0),
    "copies": lambda: FlatMap(lambda x: [x + i for i in range(total(x) % 3)]),
    "twins": lambda: FlatMap(lambda x: [x, x + 1]),
    "batch 2": lambda: Batch(2),
    "batch 3": lambda: Batch(3, drop_remainder=True),
    "sum of 4": lambda: Batch(4, batch_fn=lambda rows: sum(total(row) for row in rows)),
    "batch 1": lambda: Batch(1),
    "document": lambda: MapTransform(lambda x: np.full(total(x) % 7, total(x))),
    "pack": lambda: Pack(5, "first_fit", window=4),
    "tokens": lambda: MapTransform(lambda row: row["tokens"]),
}
CHOICES = [*((name,) for name in OPERATIONS if name not in ("pack", "tokens")), ("document", "pack", "tokens")]
"""What can follow one another: only documents can be packed, and only numbers be summed up."""


def interpret(elements: list, operations: list) -> list:
    """What the operations mean, on a list."""
    for operation in operations:
        if isinstance(operation, MapTransform):
            elements = [operation.map(x) for x in elements]
        elif isinstance(operation, Filter):
            elements = [x for x in elements if operation.filter(x)]
        elif isinstance(operation, FlatMap):
            elements = [y for x in elements for y in operation.flat_map(x)]
        elif isinstance(operation, Pack):
            windows = [elements[start : start + 4] for start in range(0, len(elements), 4)]
            elements = [{"tokens": row} for window in windows for row in packed(window, 5)]
        else:
            size = operation.batch_size
            groups = [elements[start : start + size] for start in range(0, len(elements), size)]
            groups = [group for group in groups if len(group) == size or not operation.drop_remainder]
            elements = [(operation.batch_fn or np.stack)(group) for group in groups]
    return elements


def packed(documents: list, length: int) -> list:
    """Rows of documents, each put into the first that has room for it."""
    rows = []
    for document in documents:
        for start in range(0, len(document), length):
            piece = document[start : start + length].tolist()
            row = next((row for row in rows if len(row) + len(piece) <= length), None)
            if row is None:
                rows.append(piece)
            else:
                row += piece
    return [np.array(row + [0] * (length - len(row))) for row in rows]


@given(
    names=st.lists(st.sampled_from(CHOICES), max_size=5),
    records=st.integers(1, 60),
    epochs=st.integers(1, 2),
    shards=st.integers(1, 3),
    data=st.data(),
)
@tries(300)
def test_any_pipeline_is_exact_and_resumes_anywhere(names, records, epochs, shards, data):
    """The stream is the interpreter's; from the state of any step, the rest of it comes."""
    index = data.draw(st.integers(0, shards - 1))
    sampler = IndexSampler(records, ShardOptions(index, shards), shuffle=True, seed=7, num_epochs=epochs)
    operations = [OPERATIONS[name]() for choice in names for name in choice]
    options = ReadOptions(num_threads=0)
    order = sampler.record_keys(np.arange(len(sampler)))[index::shards].tolist()
    try:
        expected = [plain(np.asarray(element)) for element in interpret(order, operations)]
    except ValueError:
        return  # batches of a short remainder with full ones do not stack; the loader refuses them as well
    states, elements = [], []
    try:
        loader = DataLoader(
            data_source=list(range(records)), sampler=sampler, operations=operations, read_options=options
        )
        iterator = iter(loader)
        states.append(iterator.get_state())
        for element in iterator:
            elements.append(plain(np.asarray(element)))
            states.append(iterator.get_state())
    except EmptyStreamError:
        assert expected == []  # and a batch dropped all that there was
        return
    assert elements == expected
    step = data.draw(st.integers(0, len(elements)))
    resumed = iter(loader)
    resumed.set_state(states[step])
    assert stream(map(np.asarray, resumed)) == expected[step:]


def fails(x):
    """Some elements are bad."""
    if total(x) % 7 == 0:
        raise LookupError(total(x))
    return x


def pieces(x):
    """Some elements are bad after the first piece."""
    yield x
    yield fails(x) + 1


FAILING = {
    "fails": lambda: MapTransform(fails),
    "fails to keep": lambda: Filter(lambda x: total(fails(x)) % 3 != 0),
    "fails midway": lambda: FlatMap(pieces),
    "fails to sum": lambda: Batch(4, batch_fn=lambda rows: fails(sum(total(row) for row in rows))),
    "window": lambda: WindowShuffle(5, seed=3),
}


@given(
    names=st.lists(st.sampled_from([*CHOICES, *((name,) for name in FAILING)]), max_size=5),
    records=st.integers(1, 60),
    skips=st.booleans(),
    workers=st.sampled_from([0, 2]),
)
@tries(300)
def test_any_pipeline_fails_at_the_record_at_fault_or_leaves_it_out(names, records, skips, workers):
    """What comes before a failure comes first; what is left out is counted; from any state, the rest of it comes."""
    sampler = IndexSampler(records, shuffle=True, seed=7, num_epochs=1)
    operations = [{**OPERATIONS, **FAILING}[name]() for choice in names for name in choice]
    try:
        loader = DataLoader(
            data_source=list(range(records)),
            sampler=sampler,
            operations=operations,
            worker_count=workers,
            worker_kind="thread",
            on_error="skip" if skips else "raise",
        )
    except EmptyStreamError:  # too few records for a batch
        assert any("batch 3" in choice for choice in names)
        return
    model = PlainModel(Apply(Read(iter(loader)._pipeline.leaf), tuple(operations)), skips)
    expected, failure = taken(model)
    states, elements = [], []
    with iter(loader) as iterator:
        try:
            for _ in expected:
                states.append(iterator.get_state())
                elements.append(plain(np.asarray(next(iterator))))
            assert taken(iterator) == ([], failure)
        except EmptyStreamError:
            assert not expected
            return
        assert iterator.skipped_count == model.skipped
    assert elements == expected
    for step in range(0, len(states), 1 + len(states) // 5):
        with iter(loader) as iterator:
            iterator.set_state(states[step])
            assert taken(iterator) == (expected[step:], failure)


def taken(elements):
    """All that comes, comparable; and the kind of failure at its end."""
    found = []
    try:
        for element in elements:
            found.append(plain(np.asarray(element)))
    except EmptyStreamError:
        raise
    except Exception as failure:
        return found, type(failure)
    return found, None
