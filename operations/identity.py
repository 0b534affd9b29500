"""Identity of an operation in a checkpoint: a digest of its kind, name and plain parameters."""

from __future__ import annotations

from ..common.identity.values import described, digest, digest_before
from .protocol import Operation

DIGITS = 8


def fingerprint(operation: Operation) -> str:
    """Return eight hexadecimal digits that change with the operation's kind, its name or a plain parameter.

    >>> from headrace.operations import Batch
    >>> fingerprint(Batch(4)) == fingerprint(Batch(4, drop_remainder=True))
    False

    A batch size is not part of it: a checkpoint keeps it beside, as a stream may go on with another one.
    """
    return fingerprints(operation)[0]


def fingerprints(operation: Operation) -> tuple[str, str]:
    """The fingerprint, and the one that version 1 gave, which knew nothing of closures."""
    explicit = getattr(operation, "fingerprint", None)
    description = explicit if explicit is not None else described(operation)
    return digest(description, DIGITS), digest_before(description, DIGITS)
