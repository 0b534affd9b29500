"""What the user is told when something fails: which exception, of which operation, on which record."""

from __future__ import annotations

from typing import Any

import pytest

from millrace import Filter, FlatMap, load


def _lacks_a_key(record: int) -> int:
    return {"x": record}["y"]


@pytest.mark.parametrize("dropping", [Filter(lambda x: True), FlatMap(lambda x: [x])])
@pytest.mark.parametrize("more", [{}, {"worker_count": 1}, {"batch_size": 4}])
def test_a_failure_is_told_as_it_is_although_no_row_came_before_it(dropping: Any, more: dict[str, Any]):
    """Over a small source that is read for ever, the user's KeyError is not taken for a filter that drops everything."""
    with (
        iter(load(range(8), transformations=[_lacks_a_key, dropping], **more)) as iterator,
        pytest.raises(KeyError, match="y") as caught,
    ):
        next(iterator)
    assert "operation 0" in caught.value.__notes__[0]
    assert "record key 0 at position 0" in caught.value.__notes__[0]
