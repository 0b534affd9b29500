"""`on_error=` as a function: it decides about each failure, wherever the work is done."""

from __future__ import annotations

import numpy as np
import pytest

import headrace
from headrace import Batch, Filter, FlatMap, MapDataset, MapTransform, MixSampler
from headrace.errors import TooManyErrorsError, WorkerCrashedError


def fails_at_multiples_of_7(x):
    """An operation that fails in two ways."""
    if x % 7 == 0:
        raise (ValueError if x < 20 else OSError)(f"record {x}")
    return x


def skip_value_errors(error, keys):
    """A decision by the kind of the exception."""
    assert all(isinstance(key, int) for key in keys)
    return "skip" if isinstance(error, ValueError) else "raise"


def stream(loader):
    """The elements up to an error, and the error."""
    found = []
    with iter(loader) as iterator:
        try:
            for element in iterator:
                found.append(np.asarray(element).tolist())
        except Exception as error:
            return found, error
    return found, None


PLACES = [
    {},
    pytest.param({"worker_count": 2}, marks=pytest.mark.slow),
    {"worker_count": 2, "worker_kind": "thread"},
]


@pytest.mark.parametrize("more", PLACES, ids=["here", "processes", "threads"])
def test_a_function_decides_about_each_failure(more):
    """What it skips is left out, and what it raises comes after all that is before it."""
    loader = headrace.load(
        range(40),
        transformations=[fails_at_multiples_of_7],
        num_epochs=1,
        on_error=skip_value_errors,
        **more,
    )
    found, error = stream(loader)
    assert found == [x for x in range(21) if x % 7]
    assert isinstance(error, OSError)
    assert any("record key 21 at position 21" in note for note in error.__notes__)
    everything = headrace.load(
        range(40),
        transformations=[fails_at_multiples_of_7],
        num_epochs=1,
        on_error=lambda *_: "skip",
        **more,
    )
    assert stream(everything) == ([x for x in range(40) if x % 7], None)
    limited = headrace.load(
        range(40),
        transformations=[fails_at_multiples_of_7],
        num_epochs=1,
        on_error=lambda *_: "skip",
        max_errors=3,
        **more,
    )
    assert isinstance(stream(limited)[1], TooManyErrorsError)


@pytest.mark.parametrize("more", PLACES, ids=["here", "processes", "threads"])
def test_the_function_gets_the_keys_that_would_be_left_out(more, tmp_path):
    """Of a record, of all records of a batch; of a mix with their part."""

    def note(error, keys):
        with open(tmp_path / "asked", "a") as file:
            file.write(f"{keys}\n")
        return "skip"

    def asked():
        lines = sorted(set((tmp_path / "asked").read_text().splitlines()))
        (tmp_path / "asked").unlink()
        return lines

    def refuse(batch):
        if 5 in batch:
            raise ValueError("five")
        return batch

    options = {"num_epochs": 1, "on_error": note, **more}
    loader = headrace.load(range(9), transformations=[Batch(3), refuse], **options)
    assert stream(loader) == ([[0, 1, 2], [6, 7, 8]], None)
    assert asked() == ["[3, 4, 5]"]
    loader = headrace.load(
        range(9), transformations=[Filter(lambda x: x != 4), Batch(3), refuse], **options
    )
    assert stream(loader) == ([[0, 1, 2], [7, 8]], None)
    assert asked() == ["[3, 5, 6]"]
    loader = headrace.load(range(12), transformations=[fails_at_multiples_of_7], **options)
    assert len(stream(loader)[0]) == 10
    assert asked() == ["[0]", "[7]"]
    del options["num_epochs"]
    parts = {"a": [1, 2], "b": [3, 7]}
    mix = headrace.DataLoader(
        data_source=parts,
        sampler=MixSampler(parts),
        operations=[MapTransform(fails_at_multiples_of_7)],
        **options,
    )
    assert sorted(stream(mix)[0]) == [1, 2, 3]
    assert asked() == ["[('b', 1)]"]


@pytest.mark.parametrize("more", PLACES, ids=["here", "processes", "threads"])
def test_rows_before_a_failure_that_is_raised_are_delivered(more):
    """Also those of the batch's group, and of the record that failed halfway; the stream goes on
    from there.
    """

    def halves(x):
        yield x
        if x == 5:
            raise KeyError(x)
        yield x + 0.5

    loader = headrace.load(
        range(9),
        transformations=[FlatMap(halves, max_fan_out=2)],
        num_epochs=1,
        on_error=skip_value_errors,
        **more,
    )
    found, error = stream(loader)
    assert isinstance(error, KeyError)
    expected, plain_error = stream(
        headrace.load(
            range(9), transformations=[FlatMap(halves, max_fan_out=2)], num_epochs=1, **more
        )
    )
    assert (found, type(plain_error)) == (expected, KeyError)


@pytest.mark.parametrize("more", PLACES, ids=["here", "processes", "threads"])
def test_the_function_itself_may_fail(more):
    """Its own exception ends the stream; and so does an answer that is none."""

    def raises(error, keys):
        raise LookupError("mine")

    for decide, kind, text in (
        (raises, LookupError, "mine"),
        (
            lambda error, keys: None,
            ValueError,
            r'None for the record keys 0\. It must return "skip" or "raise"',
        ),
    ):
        loader = headrace.load(
            range(9),
            transformations=[fails_at_multiples_of_7],
            num_epochs=1,
            on_error=decide,
            **more,
        )
        found, error = stream(loader)
        assert found == []
        with pytest.raises(kind, match=text):
            raise error


@pytest.mark.slow
def test_the_function_decides_about_crashes_and_about_chains():
    """A record that ends its worker; and a chain that has the option."""

    def crash(x):
        if x == 3:
            import os

            os._exit(1)
        return x

    for decide, rest in (
        (lambda error, keys: "skip" if keys == [3] else "raise", [4, 5]),
        (skip_value_errors, None),
    ):
        loader = headrace.load(
            range(6),
            transformations=[crash],
            num_epochs=1,
            on_error=decide,
            worker_count=1,
            batch_size=1,
        )
        found, error = stream(loader)
        assert found == [[0], [1], [2], *([[x] for x in rest] if rest else [])]
        assert error is None if rest else isinstance(error, WorkerCrashedError)
    chain = MapDataset.range(40).to_iter_dataset().map(fails_at_multiples_of_7)
    found, error = stream(chain.with_options(on_error=skip_value_errors))
    assert (len(found), type(error)) == (18, OSError)
    joined = headrace.IterDataset.mix([chain.with_options(on_error=skip_value_errors)])
    assert type(stream(joined)[1]) is OSError


def test_what_is_no_decision_is_refused():
    """When the loader is described."""
    for wrong in ("ignore", 3, None):
        with pytest.raises(ValueError, match="is not a"):
            headrace.load(range(3), on_error=wrong)
    with pytest.raises(
        ValueError, match='max_errors=1 has an effect only with on_error="skip" or a function'
    ):
        headrace.load(range(3), max_errors=1)
