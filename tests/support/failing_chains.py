"""Random chains whose records fail, and what is left of them by the plain model."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from headrace import ShardOptions
from headrace.errors import EmptyStreamError
from support.pipelines import plain, stream
from support.plain_model import NothingComesError, PlainModel
from support.random_programs import MOST_ELEMENTS, Broken, Recipe, names_in, stream_of

ENDS_EARLY = frozenset({"limit", "mix", "mix repeat", "zip"})
"""Methods that may leave elements of what is below them; whether those fail is found out or not."""


SHARDS = [ShardOptions(0, 1), ShardOptions(1, 2)]


def up_to_failure(elements: Any) -> tuple[list[Any], str | None]:
    """The first elements, comparable, and what comes after them if that is a failure."""
    found: list[Any] = []
    try:
        for element in itertools.islice(elements, MOST_ELEMENTS):
            found.append(plain(element))
    except Broken as failure:
        return found, str(failure)
    return found, None


def failing(recipe: Recipe, shard: ShardOptions, run: dict[str, Any]) -> None:
    """Hold a broken chain to what the model says."""
    whole, _ = up_to_failure(PlainModel.of(stream_of(recipe, shard)))
    before, failure = up_to_failure(PlainModel.of(stream_of(recipe, shard, broken=True)))
    assert before == whole[: len(before)], (
        "what a chain gives before a failure is what it gives when it is repaired"
    )
    repaired = stream_of(recipe, shard)
    with iter(stream_of(recipe, shard, broken=True).with_options(**run)) as iterator:
        states = [iterator.get_state()]
        for element in before:
            assert plain(next(iterator)) == element
            states.append(iterator.get_state())
        if failure is not None:
            for _ in range(2):
                with pytest.raises(Broken) as raised:
                    next(iterator)
                assert str(raised.value) == failure
                assert iterator.get_state() == states[-1]
    for step, state in enumerate(states):
        with iter(repaired) as iterator:
            iterator.set_state(state, strict=False)  # other functions
            count = MOST_ELEMENTS if step == len(before) else 2
            assert (
                stream(itertools.islice(iterator, count))[: len(whole) - step]
                == whole[step : step + count]
            )


def leaving_out(recipe: Recipe, shard: ShardOptions, run: dict[str, Any]) -> None:
    """Hold a broken chain, of which what fails is left out, to what the model says."""
    dataset = stream_of(recipe, shard, broken=True).with_options(on_error="skip", **run)
    model = PlainModel.of(dataset)
    expected, _ = up_to_failure(model)
    states = []
    with iter(dataset) as iterator:
        for element in expected:
            states.append(iterator.get_state())
            assert plain(next(iterator)) == element
        if len(expected) < MOST_ELEMENTS:
            assert list(iterator) == []
            assert iterator.skipped_count >= model.skipped
            assert iterator.skipped_count == model.skipped or names_in(recipe) & ENDS_EARLY
    for step, state in enumerate(states):
        with iter(dataset.with_options(worker_count=0)) as iterator:
            iterator.set_state(state)
            assert (
                stream(itertools.islice(iterator, 2))[: len(expected) - step]
                == expected[step : step + 2]
            )


def held(hold: Any, recipe: Recipe, shard: ShardOptions, run: dict[str, Any]) -> None:
    """Do that, unless nothing at all comes, which is an error."""
    try:
        hold(recipe, shard, run)
    except NothingComesError:
        return  # of an endless stream, which may end with an error or not at all
    except EmptyStreamError:
        broken = stream_of(recipe, shard, broken=True).with_options(
            on_error="skip" if hold is leaving_out else "raise"
        )
        assert not all(
            up_to_failure(PlainModel.of(each))[0] for each in (broken, stream_of(recipe, shard))
        )
