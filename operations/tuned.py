"""The numbers of this room that were tuned, and what they were measured by."""

CHUNK_ROWS = 64
"""Rows that wait to be copied together. `mnist` takes 1.5 times as long with one at a time, 1.17 with 8, 1.06 with 128."""

CHUNK_BYTES = 256 << 10
"""Bytes of them, so that they are in the caches still. Rows of 30 KB take 1.2 times as long with a quarter of it."""
