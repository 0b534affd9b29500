"""Separate the entries of a mix's fingerprint that describe the mix from the entries that describe its changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..changing.sampler import ChangingSampler, lasting
from .parts import part_named

if TYPE_CHECKING:
    from ..protocol import VectorSampler

PASSING = ("history", "ended", "changes", "first")
"""Keys in a mix's fingerprint that say how the mix changed, not what the user passed."""


def shares(fingerprint: Mapping[str, Any]) -> list[Any]:
    """Return the entries of a mix's fingerprint that decide which part is drawn, until a part ends: `weights` and `ramp`."""
    return [fingerprint.get("weights"), fingerprint.get("ramp")]


def lasting_mix(mix: VectorSampler) -> dict[str, Any]:
    """Return a mix's fingerprint without the entries that may change when records are added to its parts."""
    parts = {
        part_named(name): lasting(part.fingerprint)
        for name, part in mix.parts.items()
        if isinstance(part, ChangingSampler)
    }
    return {**{name: value for name, value in mix.fingerprint.items() if name != "ended"}, **parts}
