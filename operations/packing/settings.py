"""Check the arguments of `Pack`, and derive the rules for each leaf of the documents.

Some arguments are one value for all leaves, or a dict with a value for each leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ...common.messages import first_few, short_repr, shorten
from ...common.validation import one_of, true_or_false, whole_number
from ...errors import PackError
from .rules import STRATEGIES, TOO_LONG, Rules, Strategy, TooLong

BARE = "tokens"
"""Key in rows for documents that are single arrays."""


Path: TypeAlias = tuple[Any, ...]
"""Path of a leaf: the keys that lead to it."""


def value_at(setting: Any, path: Path, otherwise: Any = None) -> Any:
    """Return the value of a setting for a leaf.

    Args:
        setting: one value for all leaves, or a dict of values by key, which may be nested.
        path: path of the leaf.
        otherwise: result if the dict has no value for the leaf.

    >>> value_at({"a": {"x": 1}, "b": 2}, ("a", "x"))
    1
    >>> value_at({"a": 1}, ("b",)), value_at(3, ("b",))
    (None, 3)
    """
    for key in path:
        if not isinstance(setting, Mapping):
            break
        if key not in setting:
            return otherwise
        setting = setting[key]
    return setting


def mapped(setting: Any, function: Callable[[Any], Any]) -> Any:
    """Return a setting with `function` applied to its value.

    If it is a dict, which may be nested, the function is applied to each of its values.
    """
    if isinstance(setting, Mapping):
        return {key: mapped(value, function) for key, value in setting.items()}
    return function(setting)


def paths(setting: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths for which a setting has values. `path` is a prefix of all paths.

    >>> list(paths({"a": {"x": 1}, "b": 2}))
    [('a', 'x'), ('b',)]
    """
    if isinstance(setting, Mapping):
        for key, value in setting.items():
            yield from paths(value, (*path, key))
    else:
        yield path


def name(path: Path) -> str:
    """Format the path of a leaf for messages.

    >>> name(("a", "x"))
    "['a']['x']"
    """
    return shorten("".join(f"[{key!r}]" for key in path), 80)


@dataclass(frozen=True)
class Settings:
    """Arguments of `Pack`, except its window.

    Attributes:
        length: number of tokens in a row, or a dict by leaf.
        strategy: how the row of a document is chosen.
        max_segments: maximum number of documents in a row; None: no limit.
        pad_value: padding, or a dict by leaf.
        meta_features: keys of elements that are not packed.
        too_long: what happens to a document that is longer than a row.
        bos: token at the beginning, or a dict by leaf; None: none.
        bos_at: where `bos` is inserted, "segments" or "rows".
        bos_replaces: True: `bos` replaces the first token.
        eos: token at the end of a document, or a dict by leaf; None: none.

    Raises:
        TypeError, ValueError: an argument has a wrong type, or is out of range.
    """

    length: Any
    strategy: Strategy
    max_segments: int | None
    pad_value: Any
    meta_features: Collection[Any]
    too_long: TooLong
    bos: Any
    bos_at: str
    bos_replaces: bool = False
    eos: Any = None

    def __post_init__(self) -> None:
        remedy = "a positive int, or a dict with one for each leaf"
        self._set(
            "length",
            mapped(self.length, lambda length: whole_number("length", length, 1, None, remedy)),
        )
        one_of("strategy", self.strategy, *STRATEGIES)
        one_of("too_long", self.too_long, *TOO_LONG)
        one_of("bos_at", self.bos_at, "segments", "rows")
        if self.max_segments is not None:
            most = whole_number(
                "max_segments", self.max_segments, 1, None, "a positive int, or None for any number"
            )
            self._set("max_segments", most)
        if isinstance(self.meta_features, (str, bytes, Mapping)) or not isinstance(
            self.meta_features, Collection
        ):
            raise TypeError(
                f"meta_features={short_repr(self.meta_features)} is not a list. Pass a list of "
                "keys of the elements, like ['id']."
            )
        self._set("meta_features", tuple(self.meta_features))
        mapped(self.pad_value, partial(_check_number, "pad_value"))
        mapped(self.bos, partial(_check_number, "bos"))
        mapped(self.eos, partial(_check_number, "eos"))
        true_or_false("bos_replaces", self.bos_replaces, "True or False")
        for path in paths(self.length):
            self._check_room(path)

    def _check_room(self, path: Path) -> None:
        added = [setting for setting in ("bos", "eos") if self._puts(setting, path)]
        if (length := self.capacity_of(path)) <= len(added):
            raise ValueError(
                f"length={length} leaves no room for a token beside {' and '.join(added)}. Pass at "
                f"least {len(added) + 1}."
            )

    def _puts(self, setting: str, path: Path) -> bool:
        """Return True if rows reserve space in a leaf for a first or an end token.

        `setting` is "bos" for the first token, "eos" for the end token.

        If one length is given for all leaves, and the token for some of them, all leaves reserve
        this space, so that documents are split at the same places.

        Args:
            setting: "bos" or "eos".
            path: path of the leaf.
        """
        replaces = setting == "bos" and self.bos_replaces
        each = isinstance(self.length, Mapping)
        return not replaces and value_at(getattr(self, setting), path if each else ()) is not None

    def identity_parameters(self) -> dict[str, Any]:
        """Return all settings on which the rows depend, for the fingerprint.

        `eos` is only included if it is set, and `bos_replaces` only if a `bos` is inserted: older
        checkpoints lack both.
        """
        found = {
            name: value for name, value in vars(self).items() if name not in ("bos_replaces", "eos")
        }
        if self.bos is not None and not self.bos_replaces:
            found["bos_replaces"] = False
        return found if self.eos is None else {**found, "eos": self.eos}

    def _set(self, attribute: str, value: Any) -> None:
        object.__setattr__(self, attribute, value)

    def is_meta(self, path: Path) -> bool:
        """Return True if the leaf at `path` is in `meta_features`, i.e. is not packed."""
        return path[0] in self.meta_features

    def check(self, found: Sequence[Path]) -> None:
        """Check that the settings fit the leaves of the elements.

        Args:
            found: paths of all leaves.

        Raises:
            PackError: a setting names a missing leaf; a leaf has no length; there is no leaf to
                pack; or one `bos` or `eos` is given for several leaves.
        """
        packed = [path for path in found if not self.is_meta(path)]
        known = first_few(list(map(name, found)))
        if not found:
            raise PackError(
                "elements are empty dicts, so no leaf is left to pack. Map them to dicts of arrays "
                "before Pack."
            )
        if not packed:
            raise PackError(
                f"elements have {known}, and meta_features names all of it, so no leaf "
                "is left to pack. Remove a name from meta_features."
            )
        for key in self.meta_features:
            if key not in {path[0] for path in found}:
                raise PackError(
                    f"meta_features has {short_repr(key)}, but elements have no such key. Name "
                    f"only keys of the elements: {known}."
                )
        for setting, value, leaves in (
            ("length", self.length, packed),
            ("pad_value", self.pad_value, found),
            ("bos", self.bos, packed),
            ("eos", self.eos, packed),
        ):
            for path in paths(value):
                if not any(leaf[: len(path)] == path for leaf in leaves):
                    possible_leaves = first_few(list(map(name, leaves)))
                    or_kept = "" if leaves is found else ", or which is in meta_features"
                    raise PackError(
                        f"{setting}= is a dict with {name(path)}, which elements do not "
                        f"have{or_kept}. Name only these leaves: {possible_leaves}."
                    )
        for path in packed:
            if not isinstance(self.capacity_of(path), int):
                raise PackError(
                    f"leaf {name(path)} has no length. Name it in length={{…}} to pack it, or in "
                    "meta_features to keep it unpacked, or remove it in a map before Pack."
                )
        for setting, value in (("bos", self.bos), ("eos", self.eos)):
            if len(packed) > 1 and value is not None and not isinstance(value, Mapping):
                first: Any = value
                for key in reversed(packed[0]):
                    first = {key: first}
                raise PackError(
                    f"{setting}={short_repr(value)} would be added to each of "
                    f"{first_few(list(map(name, packed)))}. Say to which one, "
                    f"{setting}={short_repr(first)}."
                )

    def capacity_of(self, path: Path) -> Any:
        """Return the length of rows in the leaf at `path`; None if none is given."""
        return value_at(self.length, path)

    def rules(self, packed: Sequence[Path]) -> Rules:
        """Return the rules of packing for documents with packed leaves at these paths."""
        capacity = tuple(map(self.capacity_of, packed))
        bos, eos = (
            tuple(self._puts(setting, path) for path in packed) for setting in ("bos", "eos")
        )
        bos, eos = (where if any(where) else () for where in (bos, eos))
        return Rules(
            capacity, self.strategy, self.max_segments, self.too_long, bos, self.bos_at, eos
        )

    def _room_of(self, path: Path) -> int:
        """Return the maximum number of a document's own tokens in one row of the leaf at `path`."""
        return int(self.capacity_of(path)) - self._puts("bos", path) - self._puts("eos", path)

    def too_long_error(self, lengths: Sequence[int], packed: Sequence[Path]) -> PackError:
        """Return the error for a document that is too long.

        Args:
            lengths: length of the document in each packed leaf.
            packed: paths of these leaves.
        """
        path, length = next(
            found for found in zip(packed, lengths) if found[1] > self._room_of(found[0])
        )
        added = [setting for setting in ("bos", "eos") if self._puts(setting, path)]
        with_added_tokens = f" with {' and '.join(added)}" if added else ""
        return PackError(
            f"a document has {length} tokens in leaf {name(path)}, over "
            f"length={self.capacity_of(path)}{with_added_tokens}, and too_long='error' raises for "
            "this. Filter such documents out before Pack, or pass too_long='split' or 'cut'."
        )


def _check_number(setting: str, value: Any) -> None:
    if value is not None and not isinstance(value, (int, float, np.number, np.bool_)):
        raise TypeError(
            f"{setting}={short_repr(value)} is not valid. Pass a number, or a dict with a number "
            "for each leaf."
        )
