"""Documents of several datasets, mixed and packed: what happens to them on other shards, with
killed workers, on devices.
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

from headrace import IterDataset, MapDataset
from headrace.errors import WorkerCrashedError

SIZES = {"web": 40, "books": 25, "code": 9}
WEIGHTS = {"web": 0.6, "books": 0.3, "code": 0.1}
FIRST = {name: 10_000 * number for number, name in enumerate(SIZES, 1)}


def documents(name):
    """Of a dataset: arrays of up to eleven tokens, of which no two are the same."""
    lengths = np.random.default_rng(FIRST[name]).integers(0, 12, SIZES[name])
    stops = FIRST[name] + np.cumsum(lengths)
    return [np.arange(stop - length, stop, dtype=np.int32) for length, stop in zip(lengths, stops)]


DOCUMENTS = {name: documents(name) for name in SIZES}


def packed(rows):
    """The stream of packed rows."""
    return rows.pack(16, window=7)


def tokens(elements):
    """How often each token stands in rows, or in batches of rows."""
    rows = [
        row for element in elements for row in (element if isinstance(element, list) else [element])
    ]
    return Counter(
        token for row in rows for token in row["tokens"][row["tokens_segment_ids"] > 0].tolist()
    )


def test_a_document_that_ends_its_worker_is_named_with_its_dataset():
    """After what comes before it."""
    deadly = int(DOCUMENTS["books"][3][0])

    def ends(document):
        if deadly in document:
            os._exit(3)
        return document

    def chain(function):
        parts = {
            name: MapDataset.source(DOCUMENTS[name]).to_iter_dataset().filter(np.size)
            for name in SIZES
        }
        return packed(IterDataset.mix(parts, WEIGHTS).map(function)).mp_prefetch(1)

    with pytest.raises(WorkerCrashedError, match="3 of books"):
        list(chain(ends))
