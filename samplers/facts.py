"""Facts about an order of records that the loader must know in advance. They never change."""

from __future__ import annotations

import sys
from typing import Any, Literal, NamedTuple


class OrderFacts(NamedTuple):
    """Facts about an order that the loader must know in advance. Each has a default, and is fixed.

    Attributes:
        block_size: number of positions to ask `record_keys` for at a time: many for arithmetic, 1
            for a user's code.
        most_at_once: largest number of positions that one call of `record_keys` computes fast.
        records: number of records of the source that the order covers; None: any number.
        parts: names of the parts of a mix; a record key of the part with index p of n is `i * n +
            p`. (): no mix.
        balance: the `Balance` that divides the records of each global batch among the shards; None:
            shards read in turn.
        shuffle: the argument `shuffle` of an `IndexSampler`: True or a `BlockShuffle` if each epoch
            has a random order. False for all other orders, even random ones.
        shards: "stripe": shard s of S reads the positions s, s + S, …; "own": each shard has an
            order of its own; "planned": the order is planned for a number of shards, and keeps a
            history of these numbers.
        same_records: True if all epochs have the same records.
        epochs_for_all: number of whole epochs after which each record came at least once, or almost
            certainly did.
        has_later_epochs: True if `record_keys` also knows the epochs after the last one.
        can_change: True if records can be appended to the order, or omitted from it, unless it has
            a `balance` or each shard has an order of its own. False for a mix, whose parts decide.
        keeps_history: True if the order keeps a history of its records: where some were appended or
            omitted during a run.
        is_one_shuffle: True if `record_keys` only applies `permute` to the index of each position
            in its epoch.
    """

    block_size: int = 16384
    most_at_once: int = sys.maxsize
    records: int | None = None
    parts: tuple[str, ...] = ()
    balance: Any = None
    shuffle: Any = False
    shards: Literal["stripe", "own", "planned"] = "stripe"
    same_records: bool = False
    epochs_for_all: int = 1
    has_later_epochs: bool = False
    can_change: bool = False
    keeps_history: bool = False
    is_one_shuffle: bool = False
