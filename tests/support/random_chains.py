"""Elements of random chains, and what they raise."""

from __future__ import annotations

import itertools
from typing import Any

from headrace import ShardOptions
from headrace.errors import EmptyStreamError
from support.pipelines import stream
from support.random_programs import MOST_ELEMENTS, ONE, Recipe, stream_of


def opened(recipe: Recipe, shard: ShardOptions = ONE, **options: Any) -> Any:
    """An iterator of a chain; None if it has not a single element."""
    try:
        return iter(stream_of(recipe, shard).with_options(**{"worker_count": 0, **options}))
    except EmptyStreamError:
        return None


def taken(iterator: Any, count: int = MOST_ELEMENTS) -> list[Any]:
    """The first elements, comparable; none if there is none at all."""
    if iterator is None:
        return []
    with iterator:
        try:
            return stream(itertools.islice(iterator, count))
        except EmptyStreamError:
            return []
