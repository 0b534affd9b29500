"""The numbers of this room that were tuned, and what they were measured by. A number that was only chosen says so."""

POOLED_FROM = 128 << 10
"""Bytes from which batches stand on slabs. Chosen: the C library reuses the memory of smaller ones by itself."""

SHARED_BYTES = 16 << 10
"""Bytes of a slab on which batches of less than a page stand together. Chosen: `next()` has fewer leases to take."""

MAX_FREE, FREE_BYTES = 8, 64 << 20
"""Slabs kept for reuse: so many, or more if they are small. Chosen: first touch runs at a fifth of the speed of warm memory."""

LOOKS_SHARE = 0.0025
"""Of the time of a worker: what timing operations one by one may take. Chosen: well under 1 % of the least work per record."""

CALL_SECONDS = 0.4e-6
"""What timing one call takes, at most. Measured by `mnist`."""

FIRST_LOOKS = 1e-3
"""Seconds that it may take at once, after a worker's first task. Chosen: short runs tell of operations, too."""
