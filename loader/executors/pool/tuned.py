"""The numbers of this room that were tuned, and what they were measured by. A number that was only chosen says so."""

OUT_OF_BAND = 64 << 10
"""Bytes from which a buffer stands beside the pickle of the pipeline, where workers share its pages. Chosen."""
