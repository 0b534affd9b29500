"""Positions at which the parts of a mix are checked for more records."""

import pytest

from headrace import GrowthOptions, IndexSampler, MixSampler
from headrace.samplers.changing.growth import SourceLooks
from headrace.samplers.changing.sampler import ChangingSampler
from headrace.samplers.mix.looks import MixLooks

BOTH = {"a": False, "b": False}  # neither begins an epoch


def looks_of(growth, count):
    """The first positions that are checked, and the parts that are due there, in a mix drawn in the
    order a b a a b a.
    """
    mix = MixSampler({"a": 3, "b": 10}, [2, 1], when_exhausted="repeat")
    mix = mix.with_parts({name: ChangingSampler(part) for name, part in mix.parts.items()})
    looks, found = MixLooks(growth, mix, ["a", "b"], 2), []
    for _ in range(count):
        found.append((looks.position, looks.due))
        looks.advance()
    return found


@pytest.mark.parametrize(
    ("growth", "expected"),
    [
        (GrowthOptions(), [(5, {"a": True}), (9, {"a": True}), (14, {"a": True})]),
        (GrowthOptions("now", every=4), [(4, BOTH), (5, {"a": True}), (8, BOTH), (9, {"a": True})]),
    ],
    ids=["epoch", "now"],
)
def test_parts_are_checked_where_their_epochs_begin_and_with_now_at_each_multiple_of_every(
    growth, expected
):
    """At a multiple, all growing parts are checked; elsewhere only the part that begins
    an epoch.
    """
    assert looks_of(growth, len(expected)) == expected


def test_an_epoch_of_one_record_ends_after_it():
    """Nothing ends at position 0."""
    looks = SourceLooks(GrowthOptions(), ChangingSampler(IndexSampler(1)), 0)
    assert (looks.position, looks.due) == (0, {"": False})
    looks.advance()
    assert (looks.position, looks.due) == (1, {"": True})
