"""The numbers of this room that were tuned, and what they were measured by. A number that was only chosen says so."""

PACKET = 64 << 10
"""Bytes of the largest packet. Chosen: messages have under 1 KB (measured), unless errors or rows of objects are in them."""

TINY = 512
"""Bytes of an array that is not worth a place on a slab. Chosen."""

LARGE_PAGE = 2 << 20
"""Bytes from which memory stands on large pages, which have this size: first touch of 77 MB takes 5 ms in place of 60."""

KEPT_FREE = 1 << 30
"""Bytes that the C library keeps for reuse: page faults of arrays of 600 KB take five times as long as a map of them."""

LOOK_AFTER_SECONDS = 1.0
"""Between two looks whether the zygote was stopped, where there is a timeout. Chosen."""

CHECK_PARENT_SECONDS = 0.5
"""Between two looks of the zygote whether the user's process is still there, should the channel not say so. Chosen."""

GRACE_SECONDS = 5.0
"""How long the zygote may take to end, before it is killed. Chosen."""
