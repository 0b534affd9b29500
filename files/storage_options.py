"""Check the options of remote files that a user passes as `storage_options=`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..common.messages import a_kind_of, short_repr
from ..common.validation import whole_number

CACHE_BYTES = 32 << 30
TRIES = 8
TIMEOUT_SECONDS = 15.0

StorageOptionsLike: TypeAlias = "Mapping[str, Any] | StorageOptions | None"


@dataclass(frozen=True)
class StorageOptions:
    """Checked options of remote files, made by `storage_options_of`. Picklable.

    Attributes:
        cache_dir: folder of the cache on disk, which all processes of a host share.
        cache_bytes: maximum size of the cache in bytes; 0: no cache.
        tries: number of times that a request is made before its failure is an error.
        timeout: seconds without a byte after which a request is repeated.
        store: `(name, value)` of all other options, for the store's library.
    """

    cache_dir: str
    cache_bytes: int
    tries: int
    timeout: float
    store: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        """Show the options without secrets."""
        names = [name for name, _ in self.store]
        return (
            f"StorageOptions(cache_dir={self.cache_dir!r}, cache_bytes={self.cache_bytes}, "
            f"store={names})"
        )


def storage_options_of(options: StorageOptionsLike) -> StorageOptions:
    """Return the options of remote files after a check.

    Args:
        options: a dict. headrace uses the keys `cache_dir` (default `$HEADRACE_CACHE_DIR`, or
            `headrace/files` in `$XDG_CACHE_HOME` or `~/.cache`), `cache_bytes` (default
            `$HEADRACE_CACHE_BYTES`, or 32 GiB; 0: no cache), `tries` (default 8) and `timeout`
            (seconds, default 15). All other keys are passed to the store's library. None: defaults.

    Raises:
        TypeError: `options` is not a dict with string keys, or a value has a wrong type.
        ValueError: a value is out of range, or `timeout` is not a number.

    >>> storage_options_of({"cache_dir": "/scratch", "cache_bytes": 10**9, "region": "eu-west-1"})
    StorageOptions(cache_dir='/scratch', cache_bytes=1000000000, store=['region'])
    """
    if isinstance(options, StorageOptions):
        return options
    if not isinstance(options, Mapping | None) or not all(
        isinstance(name, str) for name in options or ()
    ):
        # What was given may be a credential, or hold one.
        found = (
            "has names that are not strings"
            if isinstance(options, Mapping)
            else f"is {a_kind_of(options)}"
        )
        raise TypeError(
            f"storage_options {found}. Pass a dict with string keys, such as {{'region': "
            "'eu-west-1'}."
        )
    given = dict(options or {})
    folder = given.pop("cache_dir", None) or os.environ.get("HEADRACE_CACHE_DIR")
    if not folder:
        folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "headrace", "files")
    budget, budget_name = given.pop("cache_bytes", None), "cache_bytes"
    if budget is None:
        budget_name = "HEADRACE_CACHE_BYTES"
        text = os.environ.get("HEADRACE_CACHE_BYTES", str(CACHE_BYTES))
        try:
            budget = int(text)
        except ValueError:
            raise ValueError(
                f"HEADRACE_CACHE_BYTES={short_repr(text)} is not a whole number. Set this "
                "environment variable to a number of bytes, or unset it."
            ) from None
    budget = whole_number(
        budget_name, budget, 0, None, "a number of bytes, such as 2**34, or 0 for no cache"
    )
    tries = whole_number(
        "tries", given.pop("tries", TRIES), 1, None, "a number of tries, such as 8"
    )
    timeout = given.pop("timeout", TIMEOUT_SECONDS)
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not timeout > 0:
        raise ValueError(
            f"timeout={short_repr(timeout)} is not a positive int or float. Pass a number of "
            "seconds."
        )
    folder = os.path.abspath(os.path.expanduser(folder))
    return StorageOptions(folder, budget, tries, float(timeout), tuple(given.items()))
