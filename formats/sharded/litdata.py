"""The index of LitData chunks, and the samples in them.

A chunk begins with the number of its samples and their offsets, all `uint32`. A sample has the
sizes of its leaves, `uint32`, and then the bytes of each leaf, which an encoding describes. The
index says how the leaves form a tree. Samples that the TokensLoader reads are arrays alone, without
sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ...common.messages import first_few, short_repr
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptionsLike
from ..damage import damaged
from .index import file_in, number_of, read_index, value_of

Build = Callable[[Iterator[Any]], Any]
"""Function that takes values from an iterator of leaves, and returns the tree of them."""


class LitDataChunk(NamedTuple):
    """One chunk.

    Attributes:
        path: path of its file.
        samples: number of samples.
        tokens: number of tokens in all samples; None if they are not arrays of tokens.
        compression: "zstd" if the file is compressed as a whole; else "".
        bytes: size of the chunk, before its file is compressed as a whole.
        file_bytes: size of its file; None if it is not known.
        stamp: stamp of its file; None before the file is looked up.
    """

    path: str
    samples: int
    tokens: int | None
    compression: str
    bytes: int
    file_bytes: int | None
    stamp: Stamp | None = None

    def found(self, stamp: Stamp) -> LitDataChunk:
        """Return the chunk with the stamp of its file.

        If an old version wrote the index, it also gets the size that it really has.
        """
        whole = with_header(self.bytes, self.samples)
        if self.compression or stamp.size != whole:
            return self._replace(stamp=stamp)
        return self._replace(stamp=stamp, bytes=whole, file_bytes=whole)


class LitDataTree(NamedTuple):
    """A tree of which the samples are made, or a part of it.

    Attributes:
        kind: "dict", "list" or "tuple"; "" for a leaf.
        names: keys of a dict.
        children: the parts, in order.
    """

    kind: str
    names: tuple[Any, ...] = ()
    children: tuple[LitDataTree, ...] = ()

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return sum(child.leaves for child in self.children) if self.kind else 1

    def leaf_names(self, prefix: str = "") -> list[str]:
        """Return a name for each leaf, for messages.

        >>> pair = LitDataTree("list", (), (LitDataTree(""),) * 2)
        >>> LitDataTree("dict", ("a",), (pair,)).leaf_names()
        ["column 'a'[0]", "column 'a'[1]"]
        """
        if not self.kind:
            return [prefix or "the sample"]
        parts = self.names if self.kind == "dict" else range(len(self.children))
        word = "column" if self.kind == "dict" else "item"
        starts = [f"{prefix}[{part!r}]" if prefix else f"{word} {part!r}" for part in parts]
        return [
            name for start, child in zip(starts, self.children) for name in child.leaf_names(start)
        ]

    def build(self) -> Build:
        """Return the function that makes this tree of its leaves."""
        children = [child.build() for child in self.children]
        if not self.kind:
            return _first
        if self.kind == "dict":
            names = self.names
            if all(not child.kind for child in self.children):
                return lambda leaves: dict(zip(names, leaves))
            return lambda leaves: {name: child(leaves) for name, child in zip(names, children)}
        if self.kind == "list":
            return lambda leaves: [child(leaves) for child in children]
        return lambda leaves: tuple(child(leaves) for child in children)


def _first(leaves: Iterator[Any]) -> Any:
    return next(leaves)


class LitDataFormat(NamedTuple):
    """What the index says about all chunks.

    Attributes:
        encodings: encoding of each leaf, such as "int" or "no_header_numpy:3".
        tree: the tree of the leaves.
        more_names: names of fields that only some samples have.
        is_tokens: True if samples are arrays of tokens, without sizes.
        unit: part of a file that is compressed on its own: "chunk", "batch" or "sample".
        together: number of samples in such a part, if it is a "batch".
    """

    encodings: tuple[str, ...]
    tree: LitDataTree
    more_names: tuple[str, ...]
    is_tokens: bool
    unit: str
    together: int


def chunks_of(
    folder: str, storage: StorageOptionsLike = None
) -> tuple[LitDataFormat, list[LitDataChunk]]:
    """Read the index of a folder of LitData chunks.

    Return the format of the samples, and the chunks that have samples.

    Args:
        folder: path or URL of the folder.
        storage: how a folder in a store is reached.

    Raises:
        SourceNotFoundError: the folder has no `index.json`, or a chunk is missing.
        SourceError: the index is not one of LitData; its chunks are encrypted, or in Parquet; or a
            chunk has another size than the index says.
    """
    found: list[LitDataFormat] = []

    def parse(values: Any) -> list[list[LitDataChunk]]:
        config = value_of(values, "config", dict)
        found.append(_format_of(config))
        compression = _text(config, "compression") if found[0].unit == "chunk" else ""
        chunks = value_of(values, "chunks", list)
        return [
            _chunk(folder, chunk, compression, f"chunk {number}")
            for number, chunk in enumerate(chunks)
        ]

    chunks = read_index(folder, "LitData chunks", "litdata.optimize", parse, storage)
    return found[0], chunks


def _format_of(config: dict[str, Any]) -> LitDataFormat:
    loader, unit = (
        _text(config, "item_loader") or "PyTreeLoader",
        _text(config, "compression_level") or "chunk",
    )
    if config.get("encryption"):
        damaged("its chunks are encrypted, which headrace cannot read")
    if config.get("format") == "mds":
        damaged("it describes MDS shards, which headrace.MdsSource reads")
    if loader == "ParquetLoader":
        damaged("it describes Parquet files, which headrace.ParquetDataSource reads")
    if loader not in ("PyTreeLoader", "TokensLoader"):
        damaged(f"item_loader={short_repr(loader)} is neither PyTreeLoader nor TokensLoader")
    if unit not in ("chunk", "batch", "sample"):
        damaged(f"compression_level={short_repr(unit)} is not one of chunk, batch and sample")
    compression = _text(config, "compression")
    if compression.partition(":")[0] not in ("", "zstd"):
        damaged(f"compression={short_repr(compression)} is not zstd")
    encodings = tuple(value_of(config, "data_format", list))
    if not all(isinstance(each, str) for each in encodings):
        damaged(f"data_format={short_repr(list(encodings))} has entries that are not texts")
    tree = _tree_of(config.get("data_spec"), len(encodings))
    if tree.leaves != len(encodings):
        damaged(f"data_spec has {tree.leaves} leaves, but data_format has {len(encodings)} entries")
    types, together = config.get("types"), 0
    if unit == "batch":
        together = number_of(config, "compression_batch_size", "config")
    more = (
        [name for name in types if name not in tree.names]
        if isinstance(types, dict) and tree.kind == "dict"
        else []
    )
    return LitDataFormat(encodings, tree, tuple(more), loader == "TokensLoader", unit, together)


def _text(config: dict[str, Any], name: str) -> str:
    return value_of(config, name, str) if config.get(name) is not None else ""


def _chunk(folder: str, values: Any, compression: str, where: str) -> list[LitDataChunk]:
    """Return one chunk: the file that the index names, and the file that LitData unpacks.

    LitData unpacks a compressed file beside itself.
    """
    nbytes, name = number_of(values, "chunk_bytes", where), value_of(values, "filename", str, where)
    tokens = None if values.get("dim") is None else number_of(values, "dim", where)
    samples, suffix = number_of(values, "chunk_size", where), f".{compression}.bin"
    # files of tables are not compressed, whatever the index says
    if not compression or not name.endswith(suffix):
        return [LitDataChunk(file_in(folder, name), samples, tokens, "", nbytes, nbytes)]
    plain = file_in(folder, name.removesuffix(suffix) + ".bin")
    return [
        LitDataChunk(file_in(folder, name), samples, tokens, "zstd", nbytes, None),
        LitDataChunk(plain, samples, tokens, "", nbytes, nbytes),
    ]


def with_header(nbytes: int, samples: int) -> int:
    """Return the size of a chunk whose index says the size of its samples (old versions).

    Args:
        nbytes: size in the index.
        samples: number of samples.
    """
    return nbytes + 4 * (samples + 2)


_KINDS = {
    "builtins.dict": "dict",
    "collections.OrderedDict": "dict",
    "collections.defaultdict": "dict",
    "builtins.list": "list",
    "collections.deque": "list",
    "builtins.tuple": "tuple",
}


def _tree_of(text: Any, leaves: int) -> LitDataTree:
    """Return the tree that a `data_spec` describes.

    Without one, a single leaf stands alone, and several are a list.
    """
    if text is None:
        return (
            LitDataTree("") if leaves == 1 else LitDataTree("list", (), (LitDataTree(""),) * leaves)
        )
    try:
        version, spec = json.loads(text)
    except (TypeError, ValueError):
        damaged(f"data_spec={short_repr(text)} is damaged")
    if version != 1:
        damaged(f"data_spec has version {short_repr(version)}, not 1")
    return _node(spec)


def _node(spec: Any) -> LitDataTree:
    where = "data_spec"
    if not isinstance(spec, dict) or "type" not in spec:
        damaged(f"data_spec has {short_repr(spec)} in place of a node")
    if spec["type"] is None:
        return LitDataTree("")
    name, children = (
        value_of(spec, "type", str, where),
        value_of(spec, "children_spec", list, where),
    )
    parts = tuple(map(_node, children))
    kind = _KINDS.get(name)
    if kind is None:
        damaged(
            f"data_spec has the container {short_repr(name)}, which is not one of "
            f"{first_few(_KINDS, 6)}"
        )
    if kind != "dict":
        return LitDataTree(kind, (), parts)
    context = spec.get("context")
    names = json.loads(context) if isinstance(context, str) else context
    if isinstance(names, dict):  # of a defaultdict
        names = names.get("dict_context")
    if (
        not isinstance(names, list)
        or len(names) != len(parts)
        or any(isinstance(each, (list, dict)) for each in names)
    ):
        damaged(f"data_spec has a dict with the keys {short_repr(names)}, and {len(parts)} values")
    return LitDataTree(kind, tuple(names), parts)


def chosen_fields(tree: LitDataTree, names: Sequence[str]) -> tuple[LitDataTree, list[int]]:
    """Choose fields of samples that are dicts.

    Args:
        tree: the tree of a sample, whose root is a dict.
        names: names of fields of the dict, in the order wanted.

    Returns:
        the tree with these fields alone, and the numbers of its leaves in the whole tree.

    >>> pair = LitDataTree("list", (), (LitDataTree(""),) * 2)
    >>> tree = LitDataTree("dict", ("a", "b"), (pair, LitDataTree("")))
    >>> chosen_fields(tree, ["b", "a"])[1]
    [2, 0, 1]
    """
    children, numbers = [], list[int]()
    for name in names:
        number = tree.names.index(name)
        first = sum(child.leaves for child in tree.children[:number])
        children.append(tree.children[number])
        numbers += range(first, first + children[-1].leaves)
    return LitDataTree("dict", tuple(names), tuple(children)), numbers
