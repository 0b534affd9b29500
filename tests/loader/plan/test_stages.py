"""The division of operations into stages, whose operations run in one task."""

from __future__ import annotations

from headrace import Batch, Filter, MapTransform, SequentialSampler
from headrace.loader.plan.build import make_pipeline
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


def test_a_batch_that_is_not_full_counts_as_one_for_the_batch_above():
    """It is dropped only if it is in a remainder that a batch drops."""
    kept, dropped = Batch(2), Batch(2, drop_remainder=True)
    stages = {
        name: make_pipeline(range(9), SequentialSampler(9), operations, None).stages[0]
        for name, operations in {"kept": [kept, dropped], "dropped": [dropped, kept]}.items()
    }
    assert [stages["kept"].useful(inputs) for inputs in range(9)] == [0, 0, 0, 3, 4, 4, 4, 7, 8]
    assert [stages["kept"].outputs(inputs) for inputs in range(9)] == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert [stages["dropped"].useful(inputs) for inputs in range(9)] == [0, 0, 2, 2, 4, 4, 6, 6, 8]


def test_a_task_with_a_limit_has_whole_batches_and_at_least_one():
    """Of batches of 4 positions; a shorter task stays as it is."""
    (stage,) = make_pipeline(range(99), SequentialSampler(99), [Batch(4)], None).stages
    assert [stage.bounded(40, most) for most in (0, 5, 8, 11, 90)] == [4, 4, 8, 8, 40]
