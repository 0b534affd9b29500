"""Source that joins the records of two sources by the value of a field."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, SupportsIndex

import numpy as np

from ...common.identity.values import digest_of
from ...common.messages import first_few, short_repr
from ...errors import SourceError
from ..accepted import as_source
from ..facts import SourceFacts, facts_of, used_records
from ..file_source import hex_digest
from ..keys import Keys, check_key, check_keys
from ..protocol import fingerprint_of, reader_of
from ..provenance import UsedRecord
from .digests import Int64s, digests_of, double, field_of, matches


class JoinedByKey:
    """Records of two sources that have the same value in a field, each pair as one dict.

    For example: images with captions.

    The records come in the order of `left`. Each has the fields of both. `left` may have a value
    several times; `right` has each value once. When the source is made, this field is read in all
    records of both. For local files, digests of its values are stored beside the first file, and
    are made again only if a file was modified.

    Args:
        left: anything that `DataLoader` accepts as a source, or a `MapDataset`. Its records are
            dicts.
        right: the same.
        on: name of the field that both have. Its values are integers, strings or bytes. None equals
            no other value.
        how: "inner" (default): records of `left` whose value is not in `right` are left out.
            "left": they stay, and the fields of `right` are None.

    Raises:
        TypeError: `left` or `right` cannot be a source, or `on` is not a string.
        ValueError: `how` is unknown; or no value of `left` is in `right`.
        SourceError: `right` has a value twice; a record has no such field; its value cannot be
            compared; both have another field of the same name; or, when a record is read, its value
            has changed.

    >>> images = [{"id": 7, "image": "x"}, {"id": 9, "image": "y"}, {"id": 7, "image": "z"}]
    >>> captions = [{"id": 8, "text": "a dog"}, {"id": 7, "text": "a cat"}]
    >>> joined = JoinedByKey(images, captions, on="id")
    >>> joined[1]
    {'id': 7, 'image': 'z', 'text': 'a cat'}
    >>> [record["text"] for record in JoinedByKey(images, captions, on="id", how="left")]
    ['a cat', None, 'a cat']
    """

    def __init__(
        self, left: Any, right: Any, *, on: str, how: Literal["inner", "left"] = "inner"
    ) -> None:
        self.left, self.right = as_source(left), as_source(right)
        if not isinstance(on, str):
            raise TypeError(
                f"on={short_repr(on)} is not a string. Pass the name of a field that both sources "
                "have."
            )
        if how not in ("inner", "left"):
            raise ValueError(f'how={short_repr(how)} is not supported. Pass "inner" or "left".')
        self._on, self._how = on, how
        of_right = digests_of(self.right, on)
        twice = double(of_right)
        if twice is not None:
            value = field_of(self.right[twice[0]], on, twice[0])
            raise SourceError(
                f"records {twice[0]} and {twice[1]} of the right source both have "
                f"{on}={short_repr(value)}. Leave one of them out, for example with "
                "headrace.Subset; or exchange left and right."
            )
        found = matches(digests_of(self.left, on), of_right)
        self._lefts = np.flatnonzero(found >= 0) if how == "inner" else np.arange(len(found))
        self._rights: Int64s = found[self._lefts]
        if not (found >= 0).any():
            raise ValueError(
                f"no record of the left source has a value of {short_repr(on)} that the right "
                f"source has. Their first records are {short_repr(self.left[0])} and "
                f"{short_repr(self.right[0])}. Make the values equal, also in type, or pass "
                "another field."
            )
        first = int(np.flatnonzero(found >= 0)[0])
        self._fields = tuple(name for name in self.right[int(found[first])] if name != on)
        if shared := [name for name in self.left[first] if name in self._fields]:
            raise SourceError(
                f"both sources have the fields {first_few(shared)}. Rename or remove them in one "
                "source, for example with MapDataset.map."
            )

    def __len__(self) -> int:
        return len(self._lefts)

    def __getitem__(self, key: SupportsIndex) -> Any:
        return self.__getitems__([check_key(key, len(self), "JoinedByKey")])[0]

    def __getitems__(self, keys: Keys) -> list[Any]:
        """Return the joined records of `keys`, in order.

        With `how="left"`, elements that a chain has dropped stay None.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a value is another one than when the source was made.
        """
        checked = check_keys(keys, len(self), "JoinedByKey")
        lefts, rights = self._lefts[checked], self._rights[checked]
        found = self._read_left(lefts)
        has = np.flatnonzero(rights >= 0)
        others: dict[int, Any] = dict(
            zip(has.tolist(), self._read_right(rights[has]) if len(has) else ())
        )
        nothing = dict.fromkeys(self._fields)
        joined = []
        for place, record in enumerate(found):
            other = (
                self._checked(record, others[place], int(lefts[place]))
                if place in others
                else nothing
            )
            joined.append(None if record is None else {**record, **other})
        return joined

    def _checked(self, left: Any, right: Any, key: int) -> Any:
        if field_of(left, self._on, key) != field_of(right, self._on, key):
            raise SourceError(
                f"record {key} of the left source has {self._on}={short_repr(left[self._on])}, and "
                f"its partner has {short_repr(right[self._on])}: one source was changed after they "
                "were joined. Make the sources again."
            )
        return {name: value for name, value in right.items() if name != self._on}

    @cached_property
    def _read_left(self) -> Any:
        return reader_of(self.left)

    @cached_property
    def _read_right(self) -> Any:
        return reader_of(self.right)

    @property
    def facts(self) -> SourceFacts:
        """How both sources are read."""
        below = [facts_of(source) for source in (self.left, self.right)]
        wanted = [each.reads_ahead for each in below]
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            reads_ahead=True if any(each is True for each in wanted) else max(wanted),
            reads_singly=any(each.reads_singly for each in below),
            announce=self._announce if any(each.announce for each in below) else None,
            made_of=self.made_of,
            grows_within=any(each.grows for each in below),
        )

    def _announce(self, keys: Int64s) -> None:
        rights = self._rights[keys]
        for source, wanted in ((self.left, self._lefts[keys]), (self.right, rights[rights >= 0])):
            if (announce := facts_of(source).announce) is not None:
                announce(wanted)

    def made_of(self, key: int) -> Sequence[UsedRecord]:
        """Return the records of both sources of which the record `key` is made."""
        left, right = int(self._lefts[key]), int(self._rights[key])
        return [
            *used_records(self.left, left),
            *(used_records(self.right, right) if right >= 0 else ()),
        ]

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Number of records, and a digest of both sources, the pairs and the arguments."""
        both = fingerprint_of(self.left), fingerprint_of(self.right)
        said = repr((both, self._on, self._how, digest_of(self._lefts, self._rights)))
        return {"kind": "JoinedByKey", "records": len(self), "joined": hex_digest(said)}

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_read_left", "_read_right")
        }

    def __repr__(self) -> str:
        return f"JoinedByKey({len(self)} records, {self.left!r}, {self.right!r}, on={self._on!r})"
