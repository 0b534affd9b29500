"""Fields of records that folders name, as in `year=2024/month=01/x.parquet` (Hive's layout).

The values are those of `pyarrow.dataset`: integers of 32 bits if all values of a field are such
integers, otherwise strings; None for a file that lies in no folder of that name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

from ..common.messages import short_repr
from .urls import is_remote

NULL = "__HIVE_DEFAULT_PARTITION__"
"""Value by which Hive names the folder of rows without a value."""

_WHOLE = re.compile("-?[0-9]+")


def checked_partitioning(partitioning: str | None) -> bool:
    """Return True if the names of folders are fields: `partitioning` is "hive".

    Return False if it is None.

    Raises:
        ValueError: it is something else.
    """
    if partitioning is None or partitioning == "hive":
        return partitioning is not None
    raise ValueError(
        f'partitioning={short_repr(partitioning)} is not a known value. Use "hive" for fields that '
        "folders name, as in "
        "year=2024, or None for the columns of the files alone."
    )


def top_folder(paths: Sequence[str]) -> str:
    """Return the folder below which names of folders are fields, for the paths that a user passed.

    For one path it is the folder itself, or the part of a pattern before its first wildcard. For
    several paths it is the folder that contains all of them. A single file is returned as it is: no
    file lies below it.

    >>> top_folder(["data/*/x.parquet"]), top_folder(["data/year=2023", "data/year=2024"])
    ('data', 'data')
    """
    fixed = [_normal(path).split("/") for path in paths]
    without = [
        parts[: next((at for at, part in enumerate(parts) if _is_pattern(part)), len(parts))]
        for parts in fixed
    ]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*without))
    return "/".join(parts[0] for parts in shared)


def values_in(path: str, top: str) -> dict[str, str | None]:
    """Return the fields that the folders of a file name, with their values.

    Return None for Hive's name of a missing value.

    Args:
        path: path of the file.
        top: folder below which names of folders are fields.

    >>> values_in("data/year=2024/city=S%C3%A3o%20Paulo/x.parquet", "data")
    {'year': '2024', 'city': 'São Paulo'}
    """
    if "=" not in path:
        return {}
    normal = _normal(path)
    if top and not normal.startswith(top.rstrip("/") + "/"):
        return {}
    pairs = [part.partition("=") for part in normal[len(top) :].split("/")[:-1]]
    return {
        unquote(name): None if value == NULL else unquote(value)
        for name, is_field, value in pairs
        if is_field
    }


def types_of(values: Sequence[dict[str, str | None]]) -> dict[str, Any]:
    """Return the type of each field, a `pyarrow.DataType`, in the order of first appearance.

    Args:
        values: result of `values_in` for each file.
    """
    import pyarrow as pa

    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for each in values for name in each):
        texts = {text for each in values if (text := each.get(name)) is not None}
        found[name] = (
            pa.null() if not texts else pa.int32() if all(map(_is_int32, texts)) else pa.string()
        )
    return found


def _is_int32(text: str) -> bool:
    return bool(_WHOLE.fullmatch(text)) and -(2**31) <= int(text) < 2**31


def _is_pattern(part: str) -> bool:
    return any(sign in part for sign in "*?[")


def _normal(path: str) -> str:
    if is_remote(path):
        is_http = path.startswith(("http://", "https://"))  # whose queries may contain "/" and "="
        return (path.partition("?")[0] if is_http else path).rstrip("/")
    normal = os.path.normpath(path)
    return "" if normal == "." else normal
