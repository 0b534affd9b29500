"""Names of input files as a plan and a manifest keep them. In: paths and URLs. Out: the same without credentials; and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common.redaction import redacted
from ..files.urls import is_remote, unsigned


def label_of(name: str) -> str:
    """A URL without its signature and credentials, which may be others the next time; other names as they are.

    >>> label_of("https://host/a.npy?id=7&X-Amz-Signature=9"), label_of("s3://AK:SECRET@bucket/a")
    ('https://host/a.npy?id=7', 's3://***@bucket/a')
    """
    return redacted(unsigned(name)) if is_remote(name) else name


def labelled(names: Sequence[str]) -> dict[str, str]:
    """The names by their labels, numbered where several have one.

    >>> labelled(["https://host/a?token=1", "https://host/a?token=2"])
    {'https://host/a': 'https://host/a?token=1', 'https://host/a#1': 'https://host/a?token=2'}
    """
    found: dict[str, str] = {}
    for number, name in enumerate(names):
        label = label_of(name)
        found[f"{label}#{number}" if label in found else label] = name
    return found


def plain(values: Any) -> Any:
    """JSON values with labels in the place of URLs: what earlier versions wrote has whole URLs in it."""
    if isinstance(values, dict):
        return {name: plain(value) for name, value in values.items()}
    if isinstance(values, list):
        return [plain(value) for value in values]
    return label_of(values) if isinstance(values, str) else values
