"""In: a path or a URL. Out: where it leads: to a file of this machine, or to a store."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(path: str) -> str:
    """The scheme of a URL; "" for a path of this machine, `file://` too.

    >>> scheme_of("s3://bucket/a.parquet"), scheme_of("file:///a.parquet"), scheme_of("a.parquet")
    ('s3', '', '')
    """
    found = _SCHEME.match(path)
    scheme = found[1].lower() if found else ""
    return "" if scheme == "file" else scheme


def is_remote(path: str) -> bool:
    """Whether a path leads to a store."""
    return bool(scheme_of(path))


def local_path(path: str) -> str:
    """A path of this machine, without `file://`; other paths and URLs as they are.

    >>> local_path("file:///data/a%20b.txt")
    '/data/a b.txt'
    """
    if path[:7].lower() != "file://":
        return path
    from urllib.parse import unquote  # takes 3 ms, which workers without such paths are spared

    return unquote(path[len("file://") :])


def split_url(url: str) -> tuple[str, str]:
    """The store of a URL, and the key in it.

    >>> split_url("s3://bucket/train/a.parquet")
    ('s3://bucket', 'train/a.parquet')
    """
    scheme, _, rest = url.partition("://")
    root, _, key = rest.partition("/")
    return f"{scheme}://{root}", key
