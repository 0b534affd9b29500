"""The division of operations into stages, whose operations run in one task."""

from __future__ import annotations

from headrace import Batch, Filter, MapTransform
from headrace.loader.plan.stages import runs_of


def test_a_stage_begins_with_a_batch_above_what_may_drop_elements():
    """With skipped failures, any operation may drop elements; without, a batch of mapped records is
    in their stage.
    """
    map_, filter_, batch = MapTransform(abs), Filter(bool), Batch(2)
    assert runs_of([map_, batch, map_]) == [(map_, batch, map_)]
    assert runs_of([map_, filter_, batch, map_]) == [(map_, filter_), (batch, map_)]
    assert runs_of([map_, batch, filter_, batch]) == [(map_, batch, filter_), (batch,)]
    assert runs_of([map_, batch], skips_errors=True) == [(map_,), (batch,)]
    assert runs_of([batch, map_], skips_errors=True) == [(), (batch, map_)]
    assert runs_of([]) == [()]
