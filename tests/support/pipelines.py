"""Pipelines of every kind, for tests that hold for all of them."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import settings

import headrace
from headrace import (
    Batch,
    BudgetBatch,
    Filter,
    FlatMap,
    MapTransform,
    MapWithIndexTransform,
    Pack,
    RandomMapTransform,
)


class Pair(NamedTuple):
    """A named tuple element."""

    number: int
    array: Any


@dataclasses.dataclass(frozen=True)
class Point:
    """A dataclass element."""

    x: int
    y: Any


class Noise(RandomMapTransform):
    """Adds random numbers."""

    def random_map(self, element, rng):
        return element + rng.random()


def _copies(x):
    return [np.full(2, x, np.int64) + i for i in range(x % 4)]


def _large(x):
    """Arrays of 600 bytes and more, which travel on slabs, in every kind of dtype."""
    numbers = np.arange(x, x + 600)
    pairs = np.zeros(600, dtype=[("i", "i4"), ("f", ">f8")])
    pairs["i"] = numbers
    return {
        "bfloat16": numbers.astype(ml_dtypes.bfloat16),
        "float8": (numbers % 8).astype(ml_dtypes.float8_e5m2),
        "int4": (numbers % 8).astype(ml_dtypes.int4),
        "big endian": numbers.astype(">i4"),
        "structured": pairs,
        "when": np.datetime64("2020-01-01") + numbers.astype("m8[D]"),
        "bytes": numbers.astype("S4"),
        "text": numbers.astype("U4"),
        "strided": np.arange(2400).reshape(3, 800).T[::2] + x,
        "void": numbers.astype("i4").view("V4"),
    }


def _document(x):
    return np.arange(x, x + x % 12, dtype=np.int32)


_noisy = RandomMapTransform(lambda row, rng: {**row, "noise": rng.random()})


PIPELINES: dict[str, list[Any]] = {
    "single records": [],
    "map": [lambda x: x * 2],
    "batch": [Batch(7)],
    "batch without remainder": [Batch(7, drop_remainder=True)],
    "map, batch, map": [lambda x: x + 1, Batch(5), lambda b: b / 2],
    "batch of batches": [Batch(2), Batch(3)],
    "batch of batches without remainder": [Batch(2), Batch(3, drop_remainder=True)],
    "random": [Noise(), Batch(4), Noise()],
    "indexed": [MapWithIndexTransform(lambda i, x: {"i": i, "x": x}), Batch(6)],
    "filter": [Filter(lambda x: x % 3 != 0)],
    "filter, batch": [Filter(lambda x: x % 3 != 0), Batch(4)],
    "filter, batch without remainder": [
        Filter(lambda x: x % 3 != 0),
        Batch(4, drop_remainder=True),
    ],
    "batch, filter": [Batch(3), Filter(lambda b: b.sum() % 2 == 0)],
    "flat map": [FlatMap(_copies)],
    "flat map, batch": [FlatMap(_copies), Batch(5)],
    "flat map, random, batch, random": [FlatMap(_copies), Noise(), Batch(5), Noise()],
    "flat map twice": [FlatMap(_copies), FlatMap(lambda a: list(a)), Noise(), Batch(4)],
    "filter, batch, flat map, batch": [
        Filter(lambda x: x % 5 != 0),
        Batch(2),
        FlatMap(lambda b: [b + i for i in range(int(b[0]) % 3)]),
        Batch(3),
    ],
    "batch, flat map back, batch": [Batch(4), FlatMap(list), Batch(3)],
    "custom batch_fn": [
        Batch(4, batch_fn=lambda elements: {"sum": sum(elements), "list": list(elements)})
    ],
    "padded": [
        lambda x: np.arange(x % 5),
        Batch(4, batch_fn=headrace.pad_batch(length=5, value=-1)),
    ],
    "strings": [lambda x: {"text": "é" * (x % 4), "bytes": b"\0" * (x % 3), "x": x}, Batch(4)],
    "objects": [lambda x: {"set": frozenset([x]), "x": float(x)}, Batch(4)],
    "trees": [
        lambda x: Pair(x, {"a": [np.full((2, 3), x), (x, x / 2)], "p": Point(x, np.float32(x))}),
        Batch(4),
    ],
    "nothing in it": [
        lambda x: {"empty": np.zeros((0, 3)), "none": None, "x": np.bool_(x % 2)},
        Batch(4),
    ],
    "strange arrays": [
        lambda x: {
            "big endian": np.arange(x, x + 3).astype(">i4"),
            "strided": np.arange(12).reshape(3, 4).T[::2] + x,
            "structured": np.array([(x, x / 2)], dtype=[("i", "i4"), ("f", "f8")]),
            "zero-d": np.array(x, dtype=np.uint8),
            "when": np.datetime64("2020-01-01") + np.timedelta64(x, "D"),
        },
        Batch(4),
    ],
    "large arrays of all dtypes": [_large],
    "batches of all dtypes": [_large, Batch(4)],
    "filter, batches of all dtypes": [
        _large,
        Filter(lambda row: int(row["big endian"][0]) % 3),
        Batch(4),
    ],
    "mixed dtypes": [lambda x: x if x % 2 else x / 2, Batch(4)],
    "pack": [_document, Pack(8, window=11)],
    "map, batch, pack": [
        lambda x: np.arange(x, x + 5),
        Batch(2),
        Pack(6, "first_fit", window=3, too_long="cut"),
    ],
    "pack in order, batch, flat map": [
        _document,
        Pack(8, "next_fit", window=9),
        Batch(3),
        FlatMap(lambda batch: [batch] * 2),
    ],
    "pack, random, batch": [_document, Pack(8, "concat_then_split", window=9), _noisy, Batch(3)],
    "filter, pack, batch, flat map": [
        lambda x: {"inputs": _document(x), "targets": _document(x + 3), "id": x},
        Filter(lambda element: element["id"] % 5 != 0),
        Pack(
            {"inputs": 9, "targets": 12},
            "first_fit",
            6,
            max_segments=3,
            pad_value=-1,
            meta_features=["id"],
        ),
        Batch(2),
        FlatMap(lambda batch: [batch] * (int(batch["id"][0, 0]) % 3)),
    ],
    "planned budget, random": [
        _document,
        BudgetBatch(48, pad_to=(4, 8, 12), lengths=lambda x: x % 12, window=25),
        _noisy,
    ],
    "filter, budget, random": [
        _document,
        Filter(len),
        BudgetBatch(36, pad_to=(4, 12), window=11),
        _noisy,
    ],
}


def loader(
    name: str,
    records: int = 40,
    shuffle: bool = True,
    num_epochs: int | None = 2,
    data_source: Any = None,
    **more: Any,
):
    """The loader of a pipeline over the numbers below `records`."""
    sampler = headrace.IndexSampler(records, shuffle=shuffle, seed=3, num_epochs=num_epochs)
    source = list(range(records)) if data_source is None else data_source
    return headrace.DataLoader(
        data_source=source, sampler=sampler, operations=PIPELINES[name], **more
    )


def chosen(values: Any, *always: Any) -> list[Any]:
    """Parameters of a test: some of them run always, the others with the option --long."""
    return [value if value in always else _long(value) for value in values]


def _long(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else [value]), marks=pytest.mark.long)


def tries(count: int) -> Any:
    """How many examples a property test tries: a twentieth of `count`, and all with the option
    --long, as a long test.
    """
    if "HEADRACE_LONG_TESTS" not in os.environ:
        return settings(max_examples=max(count // 20, 5), deadline=None)
    return lambda test: pytest.mark.long(settings(max_examples=count, deadline=None)(test))


def plain(element: Any) -> Any:
    """An element as something that `==` compares completely: dtypes, shapes and bytes."""
    if isinstance(element, np.ndarray):
        content = (
            [plain(item) for item in element.tolist()]
            if element.dtype.hasobject
            else element.tobytes()
        )
        return ("array", str(element.dtype), element.shape, content)
    if dataclasses.is_dataclass(element):
        return type(element).__name__, plain(vars(element))
    if isinstance(element, dict):
        return {key: plain(value) for key, value in element.items()}
    if isinstance(element, (list, tuple)):
        return type(element).__name__, [plain(value) for value in element]
    return type(element).__name__, element


def stream(iterator: Any) -> list[Any]:
    """All that comes, comparable."""
    return [plain(element) for element in iterator]


__all__ = ["PIPELINES", "MapTransform", "chosen", "loader", "plain", "stream"]
