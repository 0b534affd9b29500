"""Labels for the input files in a plan and a manifest: file names without credentials.

`labelled` maps each label back to the full name.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..common.redaction import redacted
from ..files.urls import is_remote, unsigned


def label_of(name: str) -> str:
    """Return a URL without its signature and credentials, which may differ in the next run.

    Other names are unchanged.

    >>> label_of("https://host/a.npy?id=7&X-Amz-Signature=9"), label_of("s3://AK:SECRET@bucket/a")
    ('https://host/a.npy?id=7', 's3://***@bucket/a')
    """
    return redacted(unsigned(name)) if is_remote(name) else name


def labelled(names: Sequence[str]) -> dict[str, str]:
    """Return a dict of label to name.

    If several names have the same label, a number is added to it.

    >>> labelled(["https://host/a?token=1", "https://host/a?token=2"])
    {'https://host/a': 'https://host/a?token=1', 'https://host/a#1': 'https://host/a?token=2'}
    """
    found: dict[str, str] = {}
    for number, name in enumerate(names):
        label = label_of(name)
        found[f"{label}#{number}" if label in found else label] = name
    return found
