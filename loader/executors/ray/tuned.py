"""The numbers of this room that were tuned, and what they were measured by. A number that was only chosen says so."""

LOOK_SECONDS = 1.0
"""Between two looks at the head of the cluster and at nodes. Chosen; a look takes 0.1 ms on one machine (measured)."""

CONNECT_SECONDS = 1.0
"""How long a machine may take to answer. Chosen."""

SILENT_SECONDS = 5.0
"""How long a node may be silent. Chosen: one answers in 1 ms (measured), and work of a lost one is only done again."""

HEAD_SILENT_SECONDS = 20.0
"""How long the head may be silent, or Ray's process on this machine. Chosen: the run ends then. Ray waits for 60 s."""

LEAVE_SECONDS = 8.0
"""How long leaving a cluster may take. Chosen: 5 s where the head is gone (measured), for ever where it does not answer."""

GRACE_SECONDS = 1.5
"""How long the head may be unreachable. Chosen: to leave a cluster without a head takes Ray 5 s, and 10 s are promised."""

RESIZE_SECONDS = 3.0
"""Between two looks at what a cluster has, with `worker_count="cluster"`. Chosen; a look takes 3 ms (measured)."""

NO_ROOM_SECONDS = 10.0
"""How long workers may wait for a place before the user is told. Chosen: an actor takes 0.2 to 3 s to begin (measured)."""

IN_THE_PICKLE = 512
"""Bytes of the largest array that is copied into the pickle of a block. Chosen: as of arrays that get no place on slabs."""

STACKED_BELOW = 16 << 10
"""Bytes of the largest rows that are put side by side before they go. Chosen: of larger ones the copy costs more."""

OBJECT_SHARE = 1 / 8
"""Of the smallest object store, for the rows of one task. Chosen."""

STORE_SHARE = 1 / 2
"""Of all object stores, for the rows of all tasks under way. Chosen: they need not be spread evenly."""

MAX_CALLS = 512
"""Calls that an actor takes at a time, each on a thread of its own. Chosen: so many threads take 5 MB (measured)."""
