"""The numbers of this room that were tuned, and what they were measured by. A number that was only chosen says so."""

POOLED_FROM = 128 << 10
"""Bytes from which batches stand on slabs. Chosen: the C library reuses the memory of smaller ones by itself."""

SHARED_BYTES = 16 << 10
"""Bytes of a slab on which batches of less than a page stand together. Chosen: `next()` has fewer leases to take."""

MAX_FREE, FREE_BYTES = 8, 64 << 20
"""Slabs kept for reuse: so many, or more if they are small. Chosen: first touch runs at a fifth of the speed of warm memory."""

LOOKS_SHARE = 0.001
"""Of the time of a worker: what timing operations one by one may take. Chosen: well under 1 % of the least work per record."""

LOOKS_SHARE_CLOSELY = 0.05
"""The same with `observe="each"`. Chosen: most calls are timed, and what is measured is not far off."""

CALL_SECONDS = 0.33e-6
"""What timing one call takes where all are timed; where few are, which no cache holds, twice as much. Measured by `mnist`."""

LOOK_SECONDS = 40e-6
"""What a look takes beside its calls: it asks twice how long the thread needed a processor. Measured: 18 µs each."""

FIRST_LOOKS = 1e-3
"""Seconds that it may take at once, after a worker's first task. Chosen: short runs tell of operations, too."""

TIMED_SECONDS, MOST_UNTIMED = 8e-3, 100
"""Between two tasks that are timed; and tasks. Measured by `mnist`: to time each of its batches, of 0.4 ms, took 2 %."""
