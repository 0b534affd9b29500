"""The numbers of this room that were tuned, and what they were measured by. A number that was only chosen says so."""

TASK_SECONDS = 30e-3
"""What a task of several spans may take: a hundred times its messages. Measured by `mnist` with two workers."""

TASK_BYTES, REREAD_BYTES = 16 << 20, 8 << 20
"""What its batches may occupy; the second where tasks read what others wrote, in the caches still. By `mnist` and `ragged`."""

MAX_UNITS, MAX_REREAD_UNITS = 32, 16
"""Likewise spans or groups. Set by the packet: it has no room for the tags of more, which cross in memory of their own."""

OUT_OF_BAND = 64 << 10
"""Bytes from which a buffer stands beside the pickle of the pipeline, where workers share its pages. Chosen."""
