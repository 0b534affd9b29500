"""Check the weights of a mix: a list, a dict by name, or a schedule of these.

In: weights as users write them. Out: stages (positions with constant weights), as pairs of a
first position and a weight for each part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from itertools import pairwise
from numbers import Real
from typing import Any, TypeAlias, TypeGuard

from numpy.typing import NDArray

from ...common.messages import a_kind_of, first_few, short_repr
from ...common.validation import whole_number

Weights: TypeAlias = "Sequence[float] | Mapping[str, float] | NDArray[Any]"
Schedule: TypeAlias = "Sequence[tuple[int, Weights]]"
MaxEpochs: TypeAlias = "Mapping[str, int] | Sequence[int | None]"

Stages: TypeAlias = "tuple[tuple[int, tuple[float, ...]], ...]"
"""First position and weights of each stage, in ascending order from 0."""

RAMP = 32
"""Number of steps in which a ramp changes the weights from one stage to the next."""

MAX_POSITION = 1 << 62


def stages_of(
    weights: Weights | Schedule | None, names: Sequence[str], records_per_step: int = 1
) -> Stages:
    """Convert a user's weights to stages: pairs of a first position and one weight per part.

    Args:
        weights: a list, a dict by part name, or a schedule (pairs of a step and weights from this
            step on); None for equal weights.
        names: names of the parts.
        records_per_step: number of records in a step of a schedule.

    Raises:
        TypeError: if `weights` is neither a list nor a dict nor a schedule of numbers.
        ValueError: if a weight is outside its range, the weights are not for these parts, or the
            steps of a schedule do not ascend from 0.

    >>> stages_of([(0, {"a": 3, "b": 1}), (10, {"a": 1, "b": 1})], ["a", "b"], records_per_step=256)
    ((0, (3.0, 1.0)), (2560, (1.0, 1.0)))
    """
    unit = whole_number(
        "records_per_step", records_per_step, 1, MAX_POSITION, "how many elements make a step"
    )
    if weights is None:
        return ((0, (1.0,) * len(names)),)
    if not is_schedule(weights):
        return ((0, weights_of(weights, names)),)
    for step, values in weights:
        if isinstance(values, (str, bytes)) or not isinstance(values, Sized):
            raise TypeError(
                "weights= is read as a schedule of pairs (step, weights), but the weights of the "
                f"pair ({short_repr(step)}, {short_repr(values)}) are {a_kind_of(values)}. Pass a "
                "number for each part: one list or dict of them, or a schedule, [(0, {…}), "
                "(10_000, {…})]."
            )
    steps = [step for step, _ in weights]
    stages = tuple((_position(step, unit), weights_of(values, names)) for step, values in weights)
    if steps[0] != 0:
        raise ValueError(
            f"weights=: the first step of the schedule is {steps[0]}. Begin it with a pair (0, "
            "weights)."
        )
    if any(start >= stop for start, stop in pairwise(steps)):
        first_steps = first_few(steps, 8)
        raise ValueError(
            f"weights=: the steps of the schedule are {first_steps}, but each must be larger than "
            "the one before it. Sort the pairs (step, weights) by step, and remove repeated steps."
        )
    return stages


def epochs_of(max_epochs: MaxEpochs | None, names: Sequence[str]) -> dict[str, int]:
    """Return the number of epochs after which each part leaves a mix, by part name.

    Parts without a limit are left out.

    Args:
        max_epochs: a dict by part name, or a list with None for parts without a limit; None for no
            limits.
        names: names of the parts.

    Raises:
        TypeError: if `max_epochs` is neither a list nor a dict, or a number is not whole.
        ValueError: if a number is not positive, or the numbers are not for these parts.

    >>> epochs_of([None, 2], ["web", "books"])
    {'books': 2}
    """
    if max_epochs is None:
        return {}
    if isinstance(max_epochs, (list, tuple)):
        if len(max_epochs) != len(names):
            raise ValueError(
                f"max_epochs= has {len(max_epochs)} values, but there are {len(names)} parts. Pass "
                "one for each part: a number of epochs, or None for a part without a limit."
            )
        max_epochs = {name: epochs for name, epochs in zip(names, max_epochs) if epochs is not None}
    if not isinstance(max_epochs, Mapping):
        raise TypeError(
            f"max_epochs={short_repr(max_epochs)} is {a_kind_of(max_epochs)}. Pass a dict with a "
            "number of epochs for each part that has a limit."
        )
    unknown = [name for name in max_epochs if name not in names]
    if unknown:
        raise ValueError(
            f"max_epochs= names {quoted(unknown)}, but the parts are {quoted(names, 8)}. Use the "
            "names of parts."
        )
    remedy = "the number of epochs after which the part leaves the mix, or leave the part out"
    return {
        name: whole_number(f"max_epochs[{short_repr(name)}]", epochs, 1, None, remedy)
        for name, epochs in sorted(max_epochs.items())
    }


def changed_stages(
    weights: Mapping[str, float], changes: Sequence[tuple[int, Mapping[str, float]]]
) -> Stages:
    """Convert changes of weights to stages: pairs of a first position and one weight per part.

    The first stage begins at 0, with the weights after the first change.

    Args:
        weights: weights before all changes, by part name in ascending order.
        changes: for each change, a position, and the weights that differ from this position on; at
            least one change.

    Raises:
        TypeError: if a weight is not a number.
        ValueError: if a weight is outside its range or of an unknown part, all are 0, or the
            positions do not ascend.
    """
    values, places = list(weights.values()), {name: place for place, name in enumerate(weights)}
    stages: list[tuple[int, tuple[float, ...]]] = []
    for position, others in changes:
        if not others.keys() <= places.keys():
            raise ValueError(
                f"the saved changes of weights name {first_few([*others])}, but the parts are "
                f"{first_few([*places], 8)}"
            )
        for name, weight in others.items():
            values[places[name]] = _number(weight, name)
        _check_drawn(values)
        stages.append((position, tuple(values)))
    if any(one >= other for (one, _), (other, _) in pairwise(stages)):
        raise ValueError(
            "the saved changes of the mix's weights are not in ascending order of their positions"
        )
    return ((0, stages[0][1]), *stages[1:])


def is_schedule(weights: Weights | Schedule) -> TypeGuard[Schedule]:
    """Return True if a user's weights are a schedule: pairs of a step and weights."""
    if isinstance(weights, (Mapping, str, bytes)) or not isinstance(weights, Sized):
        return False
    return len(weights) > 0 and all(
        isinstance(stage, (tuple, list)) and len(stage) == 2 for stage in weights
    )


def _position(step: Any, unit: int) -> int:
    return unit * whole_number(
        "step", step, 0, MAX_POSITION // unit, "the number of the first step with these weights"
    )


def weights_of(weights: Any, names: Sequence[str]) -> tuple[float, ...]:
    """Return one weight for each part, in the order of `names`.

    Args:
        weights: a list, or a dict by part name.
        names: names of the parts.

    Raises:
        TypeError: if `weights` is neither a list nor a dict of numbers.
        ValueError: if a weight is below 0 or not finite, all are 0, or the weights are not for
            these parts.
    """
    if isinstance(weights, Mapping):
        _check_names(weights, names)
        weights = [weights[name] for name in names]
    if isinstance(weights, (str, bytes)) or not hasattr(weights, "__len__"):
        raise TypeError(
            f"weights={short_repr(weights)} is {a_kind_of(weights)}. Pass a list of numbers, or a "
            "dict with a number for each part. A new mix also takes a schedule, [(0, {…}), "
            "(10_000, {…})]."
        )
    if len(weights) != len(names):
        raise ValueError(
            f"weights= has {len(weights)} values, but there are {len(names)} parts: "
            f"{quoted(names, 8)}. Pass one weight for each part."
        )
    numbers = tuple(_number(weight, name) for weight, name in zip(weights, names))
    _check_drawn(numbers)
    return numbers


def _check_drawn(numbers: Sequence[float]) -> None:
    if not any(numbers):
        raise ValueError(
            "all weights are 0, so nothing could be drawn. Pass at least one weight above 0."
        )


def _check_names(weights: Mapping[str, float], names: Sequence[str]) -> None:
    known = {*names}
    unknown = [name for name in weights if name not in known]
    if unknown:
        raise ValueError(
            f"weights= names {quoted(unknown)}, but the parts are {quoted(names, 8)}. Use the "
            "names of parts."
        )
    missing = [name for name in names if name not in weights]
    if missing:
        raise ValueError(
            f"weights= has no weight for the parts {quoted(missing)}. Pass a weight for each part, "
            "0 for a part that is not drawn."
        )


def quoted(names: Sequence[Any], count: int = 3) -> str:
    """Return a text with the `repr` of the first `count` names, and the number of others."""
    return first_few([short_repr(name) for name in names], count)


def _number(weight: Any, name: str) -> float:
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise TypeError(
            f"the weight of {short_repr(name)} is {short_repr(weight)}, {a_kind_of(weight)}. Pass "
            "an int or a float of at least 0."
        )
    try:
        number = float(weight)
    except OverflowError:  # of an int or a fraction
        number = math.inf
    if not 0 <= number < math.inf:
        raise ValueError(
            f"the weight of {short_repr(name)} is {short_repr(weight)}. Pass a number from 0 to "
            "1e308."
        )
    return number


def ramped(stages: Stages) -> Stages:
    """Replace stages by shorter stages, so that the weights change nearly linearly.

    A stage is a range of positions with constant weights. Each stage except the last becomes up to
    32 stages, but at most one for each position. Weights are first scaled to sum to 1.

    Raises:
        ValueError: if there is only one stage.
    """
    if len(stages) < 2:
        raise ValueError(
            "ramp=True changes the weights gradually between the steps of a schedule, but weights= "
            "has the same weights for all steps. Pass a schedule of at least two, [(0, {…}), "
            "(10_000, {…})], or leave ramp= out."
        )
    cut: list[tuple[int, tuple[float, ...]]] = []
    for (start, before), (stop, after) in pairwise(stages):
        count = min(RAMP, stop - start)
        for number in range(count):
            at = (number + 0.5) / count
            here = zip(_normal(before), _normal(after))
            cut.append(
                (
                    start + (stop - start) * number // count,
                    tuple(one + (other - one) * at for one, other in here),
                )
            )
    return (*cut, stages[-1])


def _normal(weights: tuple[float, ...]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights]


def in_units(weights: Sequence[float], one: int) -> tuple[int, ...]:
    """Convert weights to proportional ints that sum to `one`; a weight above 0 becomes at least 1.

    >>> in_units([3.0, 1.0, 0.0], 100)
    (75, 25, 0)
    """
    ratios = [weight.as_integer_ratio() for weight in weights]
    common = math.lcm(*(below for _, below in ratios))
    exact = [above * (common // below) for above, below in ratios]
    total = sum(exact)
    units = [max(weight * one // total, 1 if weight else 0) for weight in exact]
    heaviest = max(range(len(units)), key=units.__getitem__)
    units[heaviest] += one - sum(units)
    return tuple(units)
