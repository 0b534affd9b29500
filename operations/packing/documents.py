"""Flatten documents into columns of their leaves, or raise a PackError that names the wrong one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree
from numpy.typing import NDArray

from ...common.fields import DICTS, fields_of
from ...common.messages import a_kind_of, short_repr, shorten
from ...errors import PackError
from ..protocol import Element
from ..trees import NAMESPACE
from .pieces import Ints
from .settings import BARE, Path, Settings, name, value_at

Columns = list[Sequence[Any]]
"""For each leaf, its values in all documents."""


@dataclass(frozen=True, slots=True)
class PackedLeaf:
    """Leaf that is packed, with its settings.

    Attributes:
        number: index of the leaf among all leaves of an element.
        path: keys that lead to the leaf.
        capacity: length of a row.
        dtype: dtype in each document, and in rows.
        tail: shape of a token; () for a number.
        pad: value after the last token of a row.
        bos: token at the beginning of segments or rows; None: no such token.
        eos: token at the end of documents; None: no such token.
    """

    number: int
    path: Path
    capacity: int
    dtype: np.dtype[Any]
    tail: tuple[int, ...]
    pad: NDArray[Any]
    bos: NDArray[Any] | None
    eos: NDArray[Any] | None

    @classmethod
    def of(cls, number: int, path: Path, example: Any, settings: Settings) -> PackedLeaf:
        """Return the description of a leaf.

        Args:
            number: index of the leaf among all leaves.
            path: path of the leaf.
            example: its value in the first document.
            settings: settings of `Pack`.

        Raises:
            PackError: the value is not an array of tokens, or a setting does not fit its dtype.
        """
        array = _tokens(path, example)
        pad = value_at(settings.pad_value, path, 0)
        bos, eos = value_at(settings.bos, path), value_at(settings.eos, path)
        return cls(
            number,
            path,
            settings.capacity_of(path),
            array.dtype,
            array.shape[1:],
            _fitting("pad_value", 0 if pad is None else pad, array.dtype, path),
            None if bos is None else _fitting("bos", bos, array.dtype, path),
            None if eos is None else _fitting("eos", eos, array.dtype, path),
        )

    def are_alike(self, column: Sequence[Any]) -> bool:
        """Return True if all are plain arrays of the first document's dtype and token shape."""
        like = (np.ndarray, self.dtype, 1 + len(self.tail), self.tail)
        try:
            return {(type(leaf), leaf.dtype, leaf.ndim, leaf.shape[1:]) for leaf in column} == {
                like
            }
        except AttributeError:
            return False

    def check(self, leaf: Any) -> None:
        """Raise PackError if a value is no array of the first document's dtype and token shape."""
        array = _tokens(self.path, leaf)
        if array.dtype != self.dtype or array.shape[1:] != self.tail:
            raise PackError(
                f"leaf {name(self.path)} is {array.dtype}{list(array.shape)} in one document, but "
                f"{self.dtype}[{', '.join(map(str, ('…', *self.tail)))}] in the first one. Map all "
                "documents to one dtype and shape before Pack."
            )


def _tokens(path: Path, leaf: Any) -> NDArray[Any]:
    if (
        isinstance(leaf, (tuple, list))
        and path == (BARE,)
        and leaf
        and all(isinstance(each, np.ndarray) for each in leaf)
    ):
        raise PackError(
            f"a document is {a_kind_of(leaf)} of {len(leaf)} arrays, whose leaves have no names. "
            "Map it to a dict before Pack, lambda x: {'inputs': x[0], 'targets': x[1]}, or to a "
            "named tuple."
        )
    if not isinstance(leaf, np.ndarray) or hasattr(leaf, "mask"):
        raise PackError(
            f"leaf {name(path)} is {short_repr(leaf)}, {a_kind_of(leaf)}, but only arrays can be "
            "packed. Map it to one, np.asarray(…, np.int32); or, if a dict has it beside the "
            f"tokens, keep it unpacked, meta_features=[{short_repr(path[0])}]."
        )
    if leaf.ndim == 0 or leaf.dtype.kind in "OSU":
        raise PackError(
            f"leaf {name(path)} is an array of dtype {leaf.dtype} and shape {leaf.shape}, but "
            "packing needs numbers along a first axis. Map it to such an array; or, if a dict has "
            f"it beside the tokens, keep it unpacked, meta_features=[{short_repr(path[0])}]."
        )
    return leaf


def _fitting(setting: str, value: Any, dtype: np.dtype[Any], path: Path) -> NDArray[Any]:
    """Return a setting in the dtype of a leaf.

    Args:
        setting: name of the setting, for the message.
        value: its value for this leaf.
        dtype: dtype of the leaf.
        path: path of the leaf.

    Raises:
        PackError: the dtype cannot hold the value.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        cast = np.asarray(value).astype(dtype)
    if dtype.kind in "iub" and cast.tolist() != value:
        raise PackError(
            f"{setting}={short_repr(value)} does not fit leaf {name(path)} of dtype {dtype}. Pass "
            "another value, or map the leaf to a dtype that holds it."
        )
    return cast


class Documents:
    """Documents that are packed together. All must have the structure of the first one.

    Args:
        elements: the documents, at least one.
        settings: settings of `Pack`.

    Raises:
        PackError: the first document cannot be packed.

    Attributes:
        packed: the packed leaves.
        meta: indices of the other leaves.
        paths: paths of all leaves.
        order: indices of the leaves, in the order in which the first document has them.
        at: index of the document that is being processed; after a failure, of the wrong one.
    """

    def __init__(self, elements: Sequence[Element], settings: Settings) -> None:
        self.at = 0
        if _has_fields(elements[0], settings.meta_features):
            elements = [_as_dicts(element, settings.meta_features) for element in elements]
        self._elements = elements
        self._bare = not isinstance(elements[0], dict)
        first: Any = {BARE: elements[0]} if self._bare else elements[0]
        leaves, self._structure = optree.tree_flatten(
            first, is_leaf=_is_no_dict, namespace=NAMESPACE
        )
        self.paths: list[Path] = self._structure.paths()
        settings.check(self.paths)
        self.order = list(_in_order(self._structure.unflatten(range(len(leaves)))))
        both = list(enumerate(zip(self.paths, leaves)))
        self.packed = [
            PackedLeaf.of(number, path, leaf, settings)
            for number, (path, leaf) in both
            if not settings.is_meta(path)
        ]
        self.meta = [number for number, (path, _) in both if settings.is_meta(path)]

    def columns(self) -> Columns:
        """Return, for each leaf, its values in all documents.

        Raises:
            PackError: a document differs from the first one in structure, or in the dtype or token
                shape of a leaf.
        """
        columns = [self._elements] if self._bare else self._split()
        for leaf in self.packed:
            if not leaf.are_alike(columns[leaf.number]):
                for self.at, value in enumerate(columns[leaf.number]):
                    leaf.check(value)
        return columns

    def _split(self) -> Columns:
        elements, flatten_up_to, leaves = self._elements, self._structure.flatten_up_to, []
        for self.at, element in enumerate(elements):
            try:
                leaves.append(flatten_up_to(element))
            except ValueError:
                raise self._unlike(element) from None
        return list(zip(*leaves))

    def _unlike(self, element: Element) -> PackError:
        if element is None:
            return PackError(
                "an element is None. Check that the function before Pack returns a value."
            )
        if not isinstance(element, dict):
            return PackError(
                f"an element is {a_kind_of(element)}, but the first element is a dict. Map all "
                "elements to dicts before Pack."
            )
        first_leaves, these_leaves = (
            shorten(", ".join(map(name, paths)) or "nothing", 120)
            for paths in (self.paths, leaf_paths(element))
        )
        return PackError(
            "elements that are packed together have different structures: the first has "
            f"{first_leaves}, but this one has {these_leaves}. Map them to one structure before "
            "Pack."
        )

    def lengths(self, columns: Columns) -> Ints:
        """Return the lengths of the packed leaves, `int64[documents, leaves]`.

        Args:
            columns: what `columns()` returned.
        """
        return np.array(
            [list(map(len, columns[leaf.number])) for leaf in self.packed], dtype=np.int64
        ).T


def _has_fields(tree: Any, kept: Collection[Any] = ()) -> bool:
    """Return True if a document has a named tuple, a dataclass or a mapping that is not a dict.

    Args:
        tree: the document.
        kept: keys whose values do not count.
    """
    if type(tree) in DICTS:
        return any(_has_fields(value) for key, value in tree.items() if key not in kept)
    return fields_of(tree) is not None


def _as_dicts(tree: Any, kept: Collection[Any] = ()) -> Any:
    """Return a document with dicts in place of named tuples, dataclasses and mappings.

    Values under the keys `kept` are not changed.

    Rows need dicts, because they have more leaves than such classes have fields.
    """
    inner = tree if type(tree) in DICTS else fields_of(tree)
    if inner is None:
        return tree
    return {key: value if key in kept else _as_dicts(value) for key, value in inner.items()}


def _in_order(tree: Any) -> Iterator[int]:
    if isinstance(tree, dict):
        for inner in tree.values():
            yield from _in_order(inner)
    else:
        yield tree


def leaf_paths(tree: Any) -> list[Path]:
    """Return the paths of the leaves in a tree of dicts, in the order of optree.

    Keys are sorted, if they can be.
    """
    return optree.tree_paths(tree, is_leaf=_is_no_dict, namespace=NAMESPACE)


def _is_no_dict(tree: Any) -> bool:
    return not isinstance(tree, dict)
