"""Classify paths and URLs, and split them into their parts."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_OF_SIGNATURES = re.compile(
    "x-(amz|goog)-.*|awsaccesskeyid|googleaccessid|signature|expires|policy|key-pair-id|token|"
    "sig|se|st|sp|spr|sv|sr|sip|ss|srt|skoid|sktid|skt|ske|sks|skv"
)
"""Names of signature parameters in URLs of S3, Google, CloudFront and Azure."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(path: str) -> str:
    """Return the scheme of a URL; "" for a local path or a `file://` URL.

    >>> scheme_of("s3://bucket/a.parquet"), scheme_of("file:///a.parquet"), scheme_of("a.parquet")
    ('s3', '', '')
    """
    found = _SCHEME.match(path) if "://" in path else None  # sources of 100,000 files ask of each
    scheme = found[1].lower() if found else ""
    return "" if scheme == "file" else scheme


def is_remote(path: str) -> bool:
    """Return True if a path is a URL of a store."""
    return bool(scheme_of(path))


def any_remote(paths: Sequence[str]) -> bool:
    """Return True if at least one of many paths is a URL of a store.

    >>> any_remote(["a.parquet", "s3://bucket/a.parquet"]), any_remote(["a.parquet"] * 100_000)
    (True, False)
    """
    return "://" in "\n".join(paths) and any(map(is_remote, paths))


def local_path(path: str) -> str:
    """Return a local path without `file://`. Other paths and URLs are returned unchanged.

    >>> local_path("file:///data/a%20b.txt")
    '/data/a b.txt'
    """
    if path[:7].lower() != "file://":
        return path
    from urllib.parse import unquote  # takes 3 ms, which workers without such paths are spared

    return unquote(path[len("file://") :])


def split_url(url: str) -> tuple[str, str]:
    """Split a URL into the URL of its store, and the key of the file in the store.

    The query of an `https://` URL (after `?`) is sent with each request, so it belongs to the
    store.

    >>> split_url("s3://bucket/train/a.parquet"), split_url("https://host/a%20b.parquet?Signature=9")
    (('s3://bucket', 'train/a.parquet'), ('https://host?Signature=9', 'a b.parquet'))
    """
    scheme, _, rest = url.partition("://")
    root, _, key = rest.partition("/")
    if not _is_http(url):
        return f"{scheme}://{root}", key
    from urllib.parse import unquote

    key, mark, query = key.partition("?")
    return f"{scheme}://{root}{mark}{query}", unquote(key)


def name_of(path: str) -> str:
    """Return the base name of a file, without the query of an `https://` URL.

    >>> name_of("train/a.parquet"), name_of("https://host/a.parquet?Signature=9")
    ('a.parquet', 'a.parquet')
    """
    return os.path.basename(split_url(path)[1] if _is_http(path) else path)


def in_folder(folder: str, name: str) -> str:
    """Return the path or URL of a file in a folder, by the file's name relative to the folder.

    >>> in_folder("train", "a/0.bin"), in_folder("https://host/train?Signature=9", "a b.bin")
    ('train/a/0.bin', 'https://host/train/a%20b.bin?Signature=9')
    """
    if not is_remote(folder):
        return os.path.join(folder, name)
    if not _is_http(folder):
        return f"{folder.rstrip('/')}/{name}"
    from urllib.parse import quote

    bare, mark, query = folder.partition("?")
    return f"{bare.rstrip('/')}/{quote(name)}{mark}{query}"


def unsigned(url: str) -> str:
    """Return an `https://` URL without its signature, which gives access to anyone for a while.

    Other paths are unchanged.

    >>> unsigned("https://host/a.parquet?id=7&X-Amz-Expires=600&X-Amz-Signature=9")
    'https://host/a.parquet?id=7'
    """
    if "?" not in url or not _is_http(url):
        return url
    bare, _, query = url.partition("?")
    kept = [
        one
        for one in query.split("&")
        if not _OF_SIGNATURES.fullmatch(one.partition("=")[0].lower())
    ]
    return f"{bare}?{'&'.join(kept)}" if kept else bare


def stays_inside(name: str) -> bool:
    """Return True if a relative name consists of plain names, and so stays in its folder.

    The name comes from a store or a file.

    The result is False for a name with an empty component, `.` or `..`, even one that stays inside,
    such as "a/../b".

    >>> [stays_inside(name) for name in ("a/b.txt", "../b.txt", "a/../../b.txt", "/b.txt", "")]
    [True, False, False, False, False]
    """
    parts = name.replace("\\", "/").split("/")
    return "\0" not in name and all(part not in ("", ".", "..") for part in parts)


def _is_http(url: str) -> bool:
    return scheme_of(url) in ("http", "https")
