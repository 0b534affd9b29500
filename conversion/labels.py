"""Labels of input files in a plan and a manifest: names without credentials, from which the names can be found again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common.redaction import redacted
from ..files.urls import is_remote, unsigned


def label_of(name: str) -> str:
    """Return a URL without its signature and credentials, which may differ in the next run. Other names are unchanged.

    >>> label_of("https://host/a.npy?id=7&X-Amz-Signature=9"), label_of("s3://AK:SECRET@bucket/a")
    ('https://host/a.npy?id=7', 's3://***@bucket/a')
    """
    return redacted(unsigned(name)) if is_remote(name) else name


def labelled(names: Sequence[str]) -> dict[str, str]:
    """Return a dict of label to name. If several names have the same label, a number is added to it.

    >>> labelled(["https://host/a?token=1", "https://host/a?token=2"])
    {'https://host/a': 'https://host/a?token=1', 'https://host/a#1': 'https://host/a?token=2'}
    """
    found: dict[str, str] = {}
    for number, name in enumerate(names):
        label = label_of(name)
        found[f"{label}#{number}" if label in found else label] = name
    return found


def plain(values: Any) -> Any:
    """Return JSON values with all URLs replaced by their labels."""
    if isinstance(values, dict):
        return {name: plain(value) for name, value in values.items()}
    if isinstance(values, list):
        return [plain(value) for value in values]
    return label_of(values) if isinstance(values, str) else values
