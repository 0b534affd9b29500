"""What identifies a pipeline in a checkpoint, as it was when the pipeline was made, in the form of each version.

In: source, sampler, operations. Out: a fingerprint to save, and one in the form of a saved one, to hold against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...common.fingerprint_values import Redescribed
from ...operations import Operation
from ...operations.identity import fingerprints
from ...samplers.protocol import VectorSampler
from ...sources import fingerprint_of
from .fingerprint import FINGERPRINT_VERSIONS, Fingerprint
from .joins import Join

VERSION = max(FINGERPRINT_VERSIONS)
"""Version 1 knew nothing of what source and sampler hold, nor of closures."""

_NEW = {"source": {"content", "index"}, "sampler": {"parameters"}}
"""What our own fingerprints say since version 2."""

_LATER = {"mixes", "selections"}
"""What those of datasets say since some time after that."""


@dataclass(frozen=True)
class Identity:
    """Fingerprints of source and operations. They are taken once, as these may change while they work; samplers do not."""

    source: dict[str, Any]  # plain JSON values
    operations: tuple[tuple[str, str], ...]  # of each, now and in version 1

    @classmethod
    def of(cls, sources: Sequence[Any], operations: Sequence[Operation]) -> Identity:
        """That of a pipeline now."""
        return cls(_one_or_all("sources", list(map(fingerprint_of, sources))), tuple(map(fingerprints, operations)))

    def fingerprint(
        self, samplers: Sequence[VectorSampler], joins: Sequence[Join], operations: Sequence[Operation]
    ) -> Fingerprint:
        """What a state of now keeps; the operations tell the sizes of batches."""
        joined = {"joins": [_told(join) for join in joins]} if joins else {}
        return Fingerprint(
            version=VERSION,
            source=self.source,
            sampler={**_one_or_all("samplers", [sampler.fingerprint for sampler in samplers]), **joined},
            operations=[now for now, _ in self.operations],
            batch_sizes=[operation.takes for operation in operations if operation.takes is not None],
        )

    def in_the_form_of(self, saved: dict[str, Any], present: Fingerprint) -> dict[str, Any]:
        """The present fingerprint, with what the version that wrote the saved one knew."""
        present = _without_later(present, saved)
        if saved.get("version") == VERSION:
            return dict(present)
        before = {part: value for part, value in present.items() if part != "version"}
        for part, names in _NEW.items():
            known = saved[part] if isinstance(saved[part], dict) else {}
            before[part] = {name: value for name, value in present[part].items() if name not in names or name in known}
        return {**before, "operations": [former for _, former in self.operations]}


def _without_later(present: Any, saved: Any) -> Any:
    """A fingerprint without what the saved one does not tell, because it is of before that was told."""
    if isinstance(present, Redescribed) and isinstance(saved, dict) and not present.keys() <= saved.keys():
        return present.before
    if isinstance(present, dict) and isinstance(saved, dict):
        known = {name: value for name, value in present.items() if name in saved or name not in _LATER}
        return {name: _without_later(value, saved.get(name)) for name, value in known.items()}
    if isinstance(present, list) and isinstance(saved, list) and len(present) == len(saved):
        return list(map(_without_later, present, saved))
    return present


def _one_or_all(name: str, fingerprints: list[dict[str, Any]]) -> dict[str, Any]:
    return fingerprints[0] if len(fingerprints) == 1 else {name: fingerprints}


def _told(join: Join) -> dict[str, Any]:
    """What tells a join from others: its rule, and the names and sizes of its inputs."""
    return {**join.rule.fingerprint, "names": list(join.names), "sizes": [list(part.size) for part in join.inputs]}
