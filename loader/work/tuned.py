"""The numbers of this room that were tuned, and what they were measured by. A number that was only chosen says so."""

POOLED_FROM = 128 << 10
"""Bytes from which batches stand on slabs. Chosen: the C library reuses the memory of smaller ones by itself."""

SHARED_BYTES = 16 << 10
"""Bytes of a slab on which batches of less than a page stand together. Chosen: `next()` has fewer leases to take."""

MAX_FREE, FREE_BYTES = 8, 64 << 20
"""Slabs kept for reuse: so many, or more if they are small. Chosen: first touch runs at a fifth of the speed of warm memory."""
