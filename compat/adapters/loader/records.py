"""The input of operations on iterators: a record with its metadata.

In: metadata of a sampler, and data. Out: records.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ....samplers import RecordMetadata as OurMetadata

T = TypeVar("T")


class RecordMetadata(OurMetadata):
    """The record at one position: index, key and generator.

    >>> RecordMetadata(index=3, record_key=7).remove_record_key()
    RecordMetadata(index=3, record_key=None, rng=None)
    """

    def remove_record_key(self) -> RecordMetadata:
        """The same of an element that is no record of the source any more."""
        return self if self.record_key is None else dataclasses.replace(self, record_key=None)


@dataclass(slots=True)
class Record(Generic[T]):
    """An element with its metadata.

    Attributes:
        metadata: where it stands.
        data: the element.
    """

    metadata: RecordMetadata
    data: T


def with_key_removed(metadata: Any) -> Any:
    """The metadata of what an operation makes of a record; a sampler of the user's may give metadata of ours."""
    return RecordMetadata(metadata.index, None, metadata.rng)
