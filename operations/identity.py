"""Fingerprint of an operation in a checkpoint: a digest of its class, name and plain parameters."""

from __future__ import annotations

from ..common.identity.values import described, digest
from .protocol import Operation

DIGITS = 8


def fingerprint(operation: Operation) -> str:
    """Return eight hexadecimal digits that change with the operation's class, its name or a plain parameter.

    If the operation has an attribute `fingerprint`, they depend on its value alone.
    The size of a batch does not change them. A checkpoint stores it separately, because a run may resume
    with another one.

    >>> from headrace.operations import Batch
    >>> fingerprint(Batch(4)) == fingerprint(Batch(4, drop_remainder=True))
    False
    """
    explicit = getattr(operation, "fingerprint", None)
    return digest(explicit if explicit is not None else described(operation), DIGITS)
