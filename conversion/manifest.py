"""What a conversion came to. In: receipts. Out: `manifest.json`, and the same as an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from ..common.former_names import formerly
from ..common.messages import shorten
from ..errors import ConversionError
from .job import Receipt
from .target import MANIFEST, Target

KIND, VERSION = "headrace conversion", 1


@dataclass(frozen=True)
class Manifest:
    """What `headrace.convert` made.

    Attributes:
        source: which data was converted: the files with sizes and times of change, or a source's fingerprint.
        options: all else that the bytes depend on.
        shards: the receipt of each: name, records, left_out, damage, and files with bytes and sha256.
    """

    source: Mapping[str, Any]
    options: Mapping[str, Any]
    shards: tuple[Receipt, ...]

    @property
    def records(self) -> int:
        """How many records were written."""
        return sum(shard.records for shard in self.shards)

    @property
    def left_out(self) -> int:
        """How many damaged records were left out."""
        return sum(shard.left_out for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.bytes for shard in self.shards for file in shard.files)

    @property
    def damage(self) -> tuple[str, ...]:
        """Why records were left out; a few of each shard."""
        return tuple(text for shard in self.shards for text in shard.damage)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        sums = {"records": self.records, "bytes": self.bytes, "left_out": self.left_out}
        told = {"source": self.source, "options": self.options, "shards": [shard.to_json() for shard in self.shards]}
        return {"kind": KIND, "version": VERSION, "headrace": version("headrace"), **sums, **told}

    @classmethod
    def from_json(cls, values: Any) -> Manifest:
        """The manifest that `to_json` gave; raises as Python does if it is none."""
        if values["kind"] not in (KIND, formerly(KIND)) or values["version"] != VERSION:
            raise ValueError(f"kind {values['kind']}, version {values['version']}")
        return cls(values["source"], values["options"], tuple(map(Receipt.from_json, values["shards"])))

    def __repr__(self) -> str:
        left_out = f", {self.left_out:,} left out" if self.left_out else ""
        return f"Manifest({self.records:,} records in {len(self.shards)} shards, {self.bytes:,} bytes{left_out})"


def manifest_in(target: Target) -> Manifest | None:
    """The manifest of a folder, if there is one.

    Raises:
        ConversionError: it cannot be read.
    """
    values = target.manifest()
    if values is None:
        return None
    try:
        return Manifest.from_json(values)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConversionError(
            f"{shorten(target.folder.place(MANIFEST))} is none that this version of headrace wrote ({shorten(error)})."
        ) from error
