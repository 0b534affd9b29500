"""The description of a pipeline for checkpoints, as plain JSON values; and differences of two.

In: source, sampler and operations, as they were when the pipeline was made. Out: an identity to
save, and texts that describe how it differs from a saved one.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...common.messages import short_repr
from ...operations import Operation
from ...operations.protocol import fingerprint
from ...samplers.history import SavedOrder, Values, parts_in
from ...sources import fingerprint_of

PACKED, PACKED_FROM, LONGEST = "packed", 1 << 14, 1 << 28
"""Key of a compressed identity; least length of a compressed text; largest length that is read."""


@dataclass(frozen=True)
class Identity:
    """Description of a pipeline: sources, orders, joins, operations and batch sizes, as plain JSON.

    Programs that describe the same pipeline have equal identities.

    Attributes:
        sources: for each leaf (source with its sampler), the fingerprint of its source.
        orders: for each leaf, the fingerprint of its sampler.
        joins: for each join of streams, its rule, and the names and sizes of its inputs.
        operations: for each operation, its fingerprint.
        sizes: for each operation that takes several elements (`Batch`, `Pack`), how many it takes.
    """

    sources: tuple[Values, ...]
    orders: tuple[Values, ...] = ()
    joins: tuple[Values, ...] = ()
    operations: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, sources: Sequence[Any], operations: Sequence[Operation]) -> Identity:
        """Return an identity with only the fingerprints of sources and operations.

        They are taken when the pipeline is made, since sources and operations may change while
        they work.
        """
        return cls(
            tuple(map(fingerprint_of, sources)), operations=tuple(map(fingerprint, operations))
        )

    @cached_property
    def json(self) -> str:
        """This identity as JSON text for a state.

        Text of 16,384 or more characters is compressed: {"packed": …}.
        """
        text = json_text({name: value for name, value in vars(self).items() if value})
        if len(text) < PACKED_FROM:
            return text
        return json_text({PACKED: b64encode(zlib.compress(text.encode(), 6)).decode()})

    @classmethod
    def read(cls, values: Any) -> Identity:
        """Read an identity from the parsed value of the property `json`, compressed or not.

        Raises:
            ValueError, TypeError: it is not an identity.
        """
        known = {name: _tuple(value) for name, value in _unpacked(values).items()}
        identity = cls(**known)
        for each in (*identity.sources, *identity.orders, *identity.joins):
            _checked(each)
        for order in identity.orders:
            if order.get("kind") == "MixSampler":
                for name, value in order.items():
                    if name.startswith("part "):
                        _checked(value)
        for join in identity.joins:
            _check_join(join)
        if not identity.orders or len(identity.orders) != len(identity.sources):
            raise ValueError("the state must have one source for each order")
        if not all(type(size) is int and size > 0 for size in identity.sizes):
            raise ValueError("the batch sizes must be positive whole numbers")
        return identity

    @property
    def of_any_sizes(self) -> Identity:
        """This identity without its batch sizes.

        States of the shards of one run may differ in batch sizes: a size changes at a step, which
        some shards may not have reached.
        """
        return replace(self, sizes=())

    @property
    def order(self) -> Values:
        """The fingerprint of the order of the first source."""
        return self.orders[0]

    @property
    def every_order(self) -> list[Values]:
        """The fingerprints of the orders of all sources.

        The order of a mix is followed by the orders of its parts.
        """
        return [each for order in self.orders for each in (order, *parts_in(order).values())]

    @property
    def inner_mixes(self) -> list[Any]:
        """A list with the names or JSON values that describe each mix except the pipeline's last.

        Only the last mix may change between two runs, so these descriptions must stay the same.
        """
        of_joins = [join["names"] for join in self.joins[:-1] if join.get("kind") == "mix"]
        is_mix = SavedOrder(self.order).is_mix and not self.joins
        return [
            *of_joins,
            *_mixes_in([self.order.values() if is_mix else self.orders, self.sources]),
        ]

    def with_order(self, number: int, order: Values, source: Values | None = None) -> Identity:
        """Return this identity with another order (and another source, if given) for a source.

        Args:
            number: index among the sources of the pipeline.
            order: fingerprint of the order.
            source: fingerprint of the source; None to keep it.
        """
        source = self.sources[number] if source is None else source
        return replace(
            self,
            orders=_with(self.orders, number, order),
            sources=_with(self.sources, number, source),
        )

    @property
    def labelled(self) -> Values:
        """The values of this identity as a dict, by the names that messages and tools show."""
        joins = {"joins": list(self.joins)} if self.joins else {}
        return {
            "source": _one_or_all("sources", self.sources),
            "sampler": {**_one_or_all("samplers", self.orders), **joins},
            "operations": list(self.operations),
            "batch_sizes": list(self.sizes),
        }


def _mixes_in(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if SavedOrder(value).is_mix:
            yield [value.get("weights"), value.get("ramp")]
        if "mixes" in value:
            yield value["mixes"]
        value = value.values()
    if not isinstance(value, str) and isinstance(value, Iterable):
        for each in value:
            yield from _mixes_in(each)


def _unpacked(values: Any) -> Values:
    if isinstance(values, dict) and values.keys() == {PACKED}:
        unpacking = zlib.decompressobj()
        try:
            text = unpacking.decompress(b64decode(values[PACKED], validate=True), LONGEST)
            if not unpacking.eof:
                raise ValueError(
                    f"the packed state must be complete, and at most {LONGEST} bytes long"
                )
            values = json.loads(text)
        except (zlib.error, RecursionError) as error:
            raise ValueError(str(error)) from None
    return _checked(values)


def _checked(values: Any) -> Values:
    if not isinstance(values, dict):
        raise TypeError
    return values


def _tuple(values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list):
        raise TypeError
    return tuple(values)


def _check_join(join: Values) -> None:
    """Raise TypeError or ValueError if the description of a join of streams is damaged."""
    names, sizes = _tuple(join.get("names")), _tuple(join.get("sizes"))
    named = len({*map(repr, names)}) == len(names) and (not names or len(names) == len(sizes))
    if not named or not all([*map(type, _tuple(size))] == [int] * 3 for size in sizes):
        raise ValueError


def _with(values: tuple[Values, ...], number: int, value: Values) -> tuple[Values, ...]:
    return (*values[:number], value, *values[number + 1 :])


def json_text(values: Any) -> str:
    """Return plain values as JSON text. Equal values give equal text."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def differences(saved: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """Describe the differences of two dicts of plain values, in a list with a text for each.

    The saved value comes first, then the current one.

    >>> differences({"source": {"records": 60000}}, {"source": {"records": 59999}})
    ['source: records 60000 → 59999']
    """
    return [
        text
        for part in sorted(set(saved) | set(present))
        for text in _differences_of(part, saved.get(part), present.get(part))
    ]


def _differences_of(part: str, saved: Any, present: Any) -> list[str]:
    if saved == present:
        return []
    if isinstance(saved, dict) and isinstance(present, dict):
        return [
            text
            for name in sorted(set(saved) | set(present), key=str)
            for text in _differences_in(part, name, saved.get(name), present.get(name))
        ]
    if isinstance(saved, list) and isinstance(present, list):
        if len(saved) != len(present):
            return [f"{part}: {len(saved)} → {len(present)}"]
        return [
            f"{part}: number {index} changed"
            for index, pair in enumerate(zip(saved, present))
            if pair[0] != pair[1]
        ]
    return [f"{part}: {short_repr(saved)} → {short_repr(present)}"]


def _differences_in(part: str, name: str, saved: Any, present: Any) -> list[str]:
    if name == "weights" or name.endswith("order"):
        both = zip(weights_by_position(saved), weights_by_position(present), strict=False)
        if found := [line for pair in both for line in _weights_changed(*pair)]:
            return found
    if isinstance(saved, dict) and isinstance(present, dict):
        return _differences_of(f"{part}: {name}", saved, present)
    if isinstance(saved, list) and isinstance(present, list) and len(saved) == len(present):
        return [
            text
            for index, pair in enumerate(zip(saved, present))
            for text in _differences_in(part, f"{name} {index}", *pair)
        ]
    return (
        [] if saved == present else [f"{part}: {name} {short_repr(saved)} → {short_repr(present)}"]
    )


WEIGHT = "weight of "
"""First words of the text about a changed weight of a mix."""


def weights_by_position(told: Any) -> list[tuple[int, dict[str, Any]]]:
    """Read the weights of a mix from a fingerprint: pairs of a first position and weights by name.

    Args:
        told: the weights as a fingerprint has them. The result is [] for a value without weights.

    >>> weights_by_position({"a": 1.0})
    [(0, {'a': 1.0})]
    >>> weights_by_position({"names": ["a"], "stages": [[0, [2.0]]]})
    [(0, {'a': 2.0})]
    """
    try:
        if isinstance(told, dict) and "stages" in told:
            return [(start, dict(zip(told["names"], weights))) for start, weights in told["stages"]]
        stages: list[Any] = [[0, told]] if isinstance(told, dict) else told
        return [(start, dict(weights)) for start, weights in stages]
    except (TypeError, ValueError, LookupError):
        return []


def _weights_changed(
    saved: tuple[int, dict[str, Any]], present: tuple[int, dict[str, Any]]
) -> list[str]:
    """Describe the weights of a mix that differ from a saved state: a text for each part.

    Args:
        saved: saved first position of the weights, and the weights by part.
        present: the same two values now. If the positions differ, the result
            is [].
    """
    (start, before), (other, now) = saved, present
    if start != other:
        return []
    since = f" from position {start} on" if start else ""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return [
        f"{WEIGHT}{short_repr(name)}{since}: {before.get(name, 'no such part')} → "
        f"{now.get(name, 'no such part')}"
        for name in names
    ]


def _one_or_all(name: str, values: tuple[Values, ...]) -> Values:
    return values[0] if len(values) == 1 else {name: list(values)}
