"""The identity of a pipeline in a checkpoint, as plain JSON values; and the differences of two identities.

In: source, sampler and operations, as they were when the pipeline was made. Out: a fingerprint to
save, and descriptions of the differences from a saved one.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from ...common.messages import short_repr
from ...operations import Operation
from ...operations.identity import fingerprint
from ...samplers.protocol import VectorSampler
from ...sources import fingerprint_of

PACKED, PACKED_FROM, LONGEST = "packed", 1 << 14, 1 << 28
"""Key of a compressed fingerprint; least length of a text that is compressed; largest length of a text that is read."""


class Fingerprint(dict[str, Any]):
    """The identity of source, sampler and operations, by name. Must not be changed."""

    @cached_property
    def json(self) -> str:
        """JSON text for a state. If it has 16,384 or more characters, it is compressed: {"packed": …}."""
        text = json_text(self)
        if len(text) < PACKED_FROM:
            return text
        return json_text({PACKED: b64encode(zlib.compress(text.encode(), 6)).decode()})

    @classmethod
    def read(cls, values: Any) -> Fingerprint:
        """Read a fingerprint from the parsed value of `json`, compressed or not.

        Raises:
            ValueError, TypeError: it is not a fingerprint.
        """
        if isinstance(values, dict) and values.keys() == {PACKED}:
            unpacking = zlib.decompressobj()
            try:
                text = unpacking.decompress(b64decode(values[PACKED], validate=True), LONGEST)
            except zlib.error as error:
                raise ValueError(str(error)) from None
            if not unpacking.eof:
                raise ValueError(f"it is longer than {LONGEST} bytes, or cut off")
            try:
                values = json.loads(text)
            except RecursionError as error:
                raise ValueError(str(error)) from None
        if not isinstance(values, dict):
            raise TypeError
        return cls(values)


def json_text(values: Any) -> str:
    """Return plain values as JSON text. Equal values give equal text."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def differences(saved: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """Describe the differences of two fingerprints, a line for each.

    The saved value comes first, then the present one.

    >>> differences({"source": {"records": 60000}}, {"source": {"records": 59999}})
    ['source: records 60000 → 59999']
    """
    found = []
    for part in sorted(set(saved) | set(present)):
        found += _differences_of(part, saved.get(part), present.get(part))
    return found


def _differences_of(part: str, saved: Any, present: Any) -> list[str]:
    if saved == present:
        return []
    if isinstance(saved, dict) and isinstance(present, dict):
        names = sorted(set(saved) | set(present), key=str)
        found = (_differences_in(part, name, saved.get(name), present.get(name)) for name in names)
        return list(chain.from_iterable(found))
    if isinstance(saved, list) and isinstance(present, list):
        if len(saved) != len(present):
            return [f"{part}: {len(saved)} → {len(present)}"]
        return [
            f"{part}: number {index} changed" for index, pair in enumerate(zip(saved, present)) if pair[0] != pair[1]
        ]
    return [f"{part}: {short_repr(saved)} → {short_repr(present)}"]


def _differences_in(part: str, name: str, saved: Any, present: Any) -> list[str]:
    if name == "weights" or name.endswith("order"):
        both = zip(weights_by_position(saved), weights_by_position(present), strict=False)
        if found := [line for pair in both for line in _weights_changed(*pair)]:
            return found
    if isinstance(saved, dict) and isinstance(present, dict):
        return _differences_of(f"{part}: {name}", saved, present)
    if isinstance(saved, list) and isinstance(present, list) and len(saved) == len(present) and saved != present:
        pairs = enumerate(zip(saved, present))
        return list(chain.from_iterable(_differences_in(part, f"{name} {index}", *pair) for index, pair in pairs))
    return [] if saved == present else [f"{part}: {name} {short_repr(saved)} → {short_repr(present)}"]


WEIGHT = "weight of "
"""Beginning of the text about a changed weight of a mix."""


def weights_by_position(told: Any) -> list[tuple[int, dict[str, Any]]]:
    """Read the weights of a mix from a fingerprint: pairs of a first position and a dict of weights by name.

    Returns [] if the value `told` has no weights.

    >>> weights_by_position({"a": 1.0}), weights_by_position({"names": ["a"], "stages": [[0, [2.0]]]})
    ([(0, {'a': 1.0})], [(0, {'a': 2.0})])
    """
    try:
        if isinstance(told, dict) and "stages" in told:
            return [(start, dict(zip(told["names"], weights))) for start, weights in told["stages"]]
        stages: list[Any] = [[0, told]] if isinstance(told, dict) else told
        return [(start, dict(weights)) for start, weights in stages]
    except (TypeError, ValueError, LookupError):
        return []


def _weights_changed(saved: tuple[int, dict[str, Any]], present: tuple[int, dict[str, Any]]) -> list[str]:
    """Return a line for each part of a mix whose weight differs between two stages that begin at the same position.

    Args:
        saved: first position of the saved stage, and its weights by part.
        present: the same of the present stage. If it begins at another position, the result is [].
    """
    (start, before), (other, now) = saved, present
    if start != other:
        return []
    since = f" from position {start} on" if start else ""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return [
        f"{WEIGHT}{short_repr(name)}{since}: {before.get(name, 'no such part')} → {now.get(name, 'no such part')}"
        for name in names
    ]


@dataclass(frozen=True)
class Identity:
    """Fingerprints of source and operations.

    They are taken once, because source and operations may change while they work.

    Attributes:
        source: identity of the source as plain JSON values.
        operations: fingerprint of each operation.
    """

    source: dict[str, Any]
    operations: tuple[str, ...]

    @classmethod
    def of(cls, sources: Sequence[Any], operations: Sequence[Operation]) -> Identity:
        return cls(_one_or_all("sources", list(map(fingerprint_of, sources))), tuple(map(fingerprint, operations)))

    def fingerprint(
        self, samplers: Sequence[VectorSampler], joins: Sequence[dict[str, Any]], operations: Sequence[Operation]
    ) -> Fingerprint:
        """Return the fingerprint to save, with the source's identity from this object.

        Args:
            samplers: sampler of each leaf (source with its sampler).
            joins: rules of the joins as JSON values.
            operations: all operations; only the numbers of elements that they take are read.
        """
        joined = {"joins": list(joins)} if joins else {}
        return Fingerprint(
            source=self.source,
            sampler={**_one_or_all("samplers", [sampler.fingerprint for sampler in samplers]), **joined},
            operations=list(self.operations),
            batch_sizes=[operation.takes for operation in operations if operation.takes is not None],
        )


def _one_or_all(name: str, fingerprints: list[dict[str, Any]]) -> dict[str, Any]:
    return fingerprints[0] if len(fingerprints) == 1 else {name: fingerprints}
