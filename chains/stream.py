"""The value behind an `IterDataset`: a tree of nodes (sources, operations, joins), and options.

The engine of `DataLoader` runs the tree with these options, such as the number of workers. This
module makes, joins and changes such streams.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ..common.identity.values import MAX_ITEMS, digest
from ..common.messages import short_repr
from ..common.validation import true_or_false, whole_number
from ..loader.arguments import balance_of, skips
from ..loader.failures import OnError, Skips
from ..loader.options import ExecutionOptions
from ..loader.plan.compile import compiled
from ..loader.plan.growth import growing_order, growth_of
from ..loader.plan.joins import Joined, Read
from ..loader.plan.joins import Node as Tree
from ..loader.plan.leaf import Leaf
from ..loader.plan.omission import living_order, refuse_to_ask_later
from ..loader.plan.rules import Again, All, First
from ..operations import Filter
from ..planned import refuse_balance
from ..samplers import Balance, NoSharding, ShardOptions
from ..samplers.chain.order import ChainOrder
from ..samplers.protocol import ENDLESS
from ..samplers.sharding import as_shard_options
from ..sources.facts import facts_of
from ..sources.mixed.source import MixedSource
from ..sources.run_through import RunThroughSource
from .arguments import RandomAccess
from .nodes.node import Evaluated, Node, Seeds, nearest_first
from .trees import line_of, over_leaves, rules_above_growth


@dataclass(frozen=True)
class Stream:
    """The value behind an `IterDataset`: a tree of nodes (sources, operations, joins), and options.

    Attributes:
        tree: the tree, from which the engine makes its pipeline.
        seeds: for each joined dataset, the last seed set by `seed()`, and the number of nodes since
            then.
        operations: number of operations in the tree, including operations inside its sources.
        execution: options such as the number of workers.
        skips_errors: True to skip failing records, False to raise, or the user's function that
            decides for each error.
        max_errors: number of errors that may be skipped; the next error is raised. None: no limit.

    Raises:
        ValueError: if a source grows during the run and the stream is joined (other than in a mix),
            limited, cached or repeated.
    """

    tree: Tree
    seeds: Seeds
    operations: int
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    skips_errors: Skips = False
    max_errors: int | None = None

    def __post_init__(self) -> None:
        if any(rule.kind != "mix" for rule in rules_above_growth(self.tree)):
            raise ValueError(
                "a stream of a growing source can be mixed with others, but not joined in another "
                "way, limited, cached or repeated. To repeat it, call repeat() before "
                "to_iter_dataset(). For the other methods, pass "
                'to_iter_dataset(growth="hand"), which reads only the records that exist now.'
            )

    def on(self, tree: Tree, operations: int = 0) -> Stream:
        """Return this stream with another tree of nodes in place of its own tree.

        Args:
            tree: the other tree, usually this stream's tree and one more node.
            operations: how many operations the other tree has more than this stream's tree.
        """
        return dataclasses.replace(
            self,
            tree=tree,
            seeds=nearest_first([self.seeds]),
            operations=self.operations + operations,
        )

    def with_options(
        self,
        on_error: Literal["raise", "skip"] | OnError | None = None,
        max_errors: int | None = None,
        **execution: Any,
    ) -> Stream:
        """Return the stream with other options, which `IterDataset.with_options` describes.

        Raises:
            TypeError: if an option does not exist.
        """
        known = [each.name for each in dataclasses.fields(ExecutionOptions)]
        for name in execution:
            if name not in known:
                from ..migration_hints.hints import unknown_argument

                raise unknown_argument(
                    function="IterDataset.with_options",
                    name=name,
                    known=[*known, "on_error", "max_errors"],
                )
        changed = dataclasses.replace(
            self, execution=dataclasses.replace(self.execution, **execution)
        )
        if on_error is None and max_errors is None:
            return changed
        leaves_out = skips("raise" if on_error is None else on_error, max_errors)
        return dataclasses.replace(changed, skips_errors=leaves_out, max_errors=max_errors)


class Present(Filter):
    """Filter that drops elements that are None.

    A `MapDataset` has None at the index of an element that a filter dropped.

    >>> Present().filter(None)
    False
    """

    def filter(self, element: Any) -> bool:
        return element is not None


def stream_of(
    node: Node,
    read_options: Any,
    allow_nones: bool,
    shard_options: Any,
    balance: Any = None,
    lengths: Any = None,
    growth: Any = None,
) -> Stream:
    """Return the stream over the first epoch of the `MapDataset` whose elements `node` makes.

    The other arguments are those of `MapDataset.to_iter_dataset`, which also lists the exceptions.
    """
    true_or_false("allow_nones", allow_nones)
    line = node.evaluated if allow_nones and node.may_be_none else node.line
    leaves_out = line.may_be_none and not (allow_nones or line.batches)
    shard = NoSharding() if shard_options is None else as_shard_options(shard_options)
    if facts_of(line.source).planned:
        refuse_balance(balance)
    dealt = _dealt(line.source, balance, lengths)
    tree: Tree = line.tree(shard, (Present(),) if leaves_out else (), dealt)
    if node.facts.grows or growth is not None:
        tree = over_leaves(tree, lambda leaf: _growing(node, leaf, growth))
    return Stream(tree, node.seeds, node.operations, ExecutionOptions(read_options=read_options))


def _growing(node: Node, leaf: Leaf, growth: Any) -> Leaf:
    """Return a leaf (a source with its order) with an order to which records can be appended.

    This is possible if the source grows and the chain reads whole epochs of this source alone.
    Otherwise, return `leaf` unchanged.

    Args:
        node: top node of the chain.
        leaf: the growing source, with its order.
        growth: the argument of `to_iter_dataset`.

    Raises:
        TypeError, ValueError: if `growth` cannot be used, see `growth_of`; or if the order cannot
            change and `growth` is not "hand".
    """
    order, omitted = leaf.sampler.by_epochs(), leaf.sampler.omitted_keys
    if order is None or node.repeats_batches or not leaf.source_facts.growing:
        growth_of(Evaluated(node) if node.facts.grows else leaf.source, growth, leaf.shard)
        return leaf
    wanted = growth_of(leaf.source, growth, leaf.shard)
    refuse_to_ask_later(node.asks_records, wanted)
    growing = growing_order(order.with_shard_options(leaf.shard), leaf.source)
    return dataclasses.replace(
        leaf, sampler=growing.without({"": omitted}) if len(omitted) else growing, growth=wanted
    )


def _dealt(source: Any, balance: Any, lengths: Any) -> Balance | None:
    """Return the `Balance` that divides a source's records among shards by cost.

    Return None if `balance` is None or False.

    Args:
        source: the source.
        balance: the argument of `headrace.load`.
        lengths: the argument of `headrace.load`.
    """
    # Padding elements of an evaluated source cost as much as others.
    if not balance:
        return balance_of(source, balance, lengths)
    parts = source.parts if isinstance(source, MixedSource) else {"": source}
    finite = {name: _epoch_of(part) for name, part in parts.items()}
    source = MixedSource(finite) if isinstance(source, MixedSource) else finite[""]
    dealt = balance_of(source, balance, lengths)
    if dealt is None:
        return None
    for name, part in finite.items():
        if not isinstance(source, MixedSource) or dealt.sizes is not None:
            dealt.covering(len(part), name if isinstance(source, MixedSource) else None)
    return dealt if finite == parts else dealt.going_round([len(part) for part in finite.values()])


def _epoch_of(source: Any) -> Any:
    """Limit a source whose records are the elements of a `MapDataset` to one epoch.

    Without the limit, such a source (an `Evaluated`) also has the elements of later epochs. Other
    sources, and sources of endless datasets, are returned unchanged.
    """
    finite = isinstance(source, Evaluated) and source.root_node.length < ENDLESS
    return Evaluated(source.root_node, source.root_node.length) if finite else source


Exhausted = Literal["first", "all", "repeat"]


def without(stream: Stream, omit: Any) -> Stream:
    """Return the stream without the records `omit` of its source; see `IterDataset.omit`.

    Raises:
        TypeError, RecordKeyError, SourceError: if `omit` has a wrong type, or names records that
            the source does not have.
        ValueError: if the stream does not consist of the records of one source, or of one mix of
            map datasets, in whole epochs.
        EmptyStreamError: if no record is left.
    """
    base = line_of(stream.tree)[-1]
    if not (
        isinstance(base, Read) and (base.leaf.facts.can_change or base.leaf.facts.parts)
    ) or isinstance(base.leaf.source, Evaluated):
        raise ValueError(
            "omit() can leave out only records of one source, or of one mix of MapDatasets, but "
            "this stream joins streams, or is limited, repeated or cached, or its elements depend "
            "on their index or on several records. Call omit() directly after the source, before "
            "mix, zip, interleave, batch, limit, repeat and cache."
        )
    leaf = base.leaf
    if isinstance(leaf.source, RunThroughSource):
        raise ValueError(
            "omit() leaves out records by their keys, but this stream is a class of your own or "
            "reads an iterable, whose records have no keys. Use filter() instead, or leave the "
            "records out in the iterable."
        )
    order = living_order(leaf.sampler, leaf.source, omit, leaf.growth)
    return dataclasses.replace(
        stream, tree=over_leaves(stream.tree, lambda leaf: dataclasses.replace(leaf, sampler=order))
    )


def limited(stream: Stream, count: int) -> Stream:
    """Return a stream of the first `count` elements of `stream`.

    Raises:
        TypeError, ValueError: if `count` is not an int of at least 1.
    """
    first = whole_number("count", count, 1, None, "a number of elements, at least 1")
    return stream.on(Joined((stream.tree,), First(first)))


def cached(stream: Stream) -> Stream:
    """Return a stream that keeps all elements of `stream` in memory, for a later `repeat`."""
    return stream.on(Joined((stream.tree,), All(keeps=True)))


def repeated(stream: Stream, num_epochs: int | None) -> Stream:
    """Return a stream that has all elements of `stream` several times.

    Args:
        stream: the stream.
        num_epochs: number of times, at least 1; None: without end.
    """
    times = (
        None
        if num_epochs is None
        else whole_number("num_epochs", num_epochs, 1, None, "at least 1, or None")
    )
    return stream.on(Joined((stream.tree,), Again(times)))


def run_through(dataset: Any, endless: bool = False) -> Stream:
    """Return the stream of a user's own dataset class, which has `__iter__` but no random access.

    Args:
        dataset: the dataset.
        endless: True if it is known that the dataset never ends.
    """
    parents = [digest(each, 12) for each in fingerprints_within(vars(dataset))]
    source = RunThroughSource(dataset, parents=parents, endless=endless)
    return Stream(Read(Leaf(source, ChainOrder((), ENDLESS, ENDLESS, None), NoSharding())), (), 0)


def fingerprints_within(value: Any) -> Iterator[Any]:
    """Yield the fingerprints of all datasets and streams in an object.

    The object may be a dataset or stream, or a list or dict that contains some, also nested. Of a
    list with more than `MAX_ITEMS` items, only the first ones are searched; if datasets are among
    these, the length of the list is yielded last.
    """
    if isinstance(value, RandomAccess):
        yield value.fingerprint
    elif isinstance(stream := getattr(value, "chain_stream", None), Stream):
        yield compiled(stream.tree, stream.skips_errors).identity.labelled
    elif isinstance(value, (list, tuple, dict)):
        within = list(value.values()) if isinstance(value, dict) else value
        found = [
            fingerprint for each in within[:MAX_ITEMS] for fingerprint in fingerprints_within(each)
        ]
        yield from [*found, len(within)] if found and len(within) > MAX_ITEMS else found


def sharded(stream: Stream, shard: ShardOptions) -> Stream:
    """Return the stream of one shard, which reads the shard's part of each source.

    Raises:
        ValueError: if a source already reads only one of several shards.
    """

    def of_shard(leaf: Any) -> Any:
        if leaf.shard.shard_count > 1:
            raise ValueError(
                f"shard({short_repr(shard)}): the dataset has {short_repr(leaf.shard)} already, "
                "from shard() or shard_options=, and cannot be divided again. Pass shard options "
                "only once."
            )
        growth = None if leaf.growth is None else growth_of(leaf.source, leaf.growth, shard)
        return dataclasses.replace(
            leaf, sampler=leaf.sampler.with_shard_options(shard), shard=shard, growth=growth
        )

    return dataclasses.replace(stream, tree=over_leaves(stream.tree, of_shard))
