"""Stores of S3, Google, Azure and HTTP, through the library obstore."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...common.lazy_exports import optional_library
from ...common.messages import short_repr, shorten
from ...common.redaction import raise_without_secrets, redacted_error, secrets_in
from ...errors import SourceError
from ..stamps import Stamp
from ..storage_options import StorageOptions
from .http_files import HttpStatusError, NoRangesError

_STATUS = re.compile(r"status code: ([34]\d\d)")
_ASK_AGAIN = {"408", "409", "425", "429"}
"""HTTP status codes from 300 to 499 after which a request is repeated.

It is repeated after all from 500, too.
"""

# 400 and 416 are also sent for other reasons. The request for the whole file then tells.
_NO_RANGES = re.compile(
    "Range request not supported|non-partial response|status code: (400|416|501)"
)
"""Pattern of errors of HTTP servers that send only whole files."""

_NO_HEAD = re.compile("Content-Length Header missing|status code: (405|501)")
"""Pattern of errors of HTTP servers that do not answer requests for the size of a file."""

_CREDENTIALS = (
    "/latest/api/token",
    "169.254.169.254",
    "metadata.google",
    "/metadata/identity",
    "MissingCredential",
)
"""Words in errors which mean that no credentials were found, not even by cloud services."""

_LOGIN = (
    "access is refused; set credentials that allow it in the environment (AWS_ACCESS_KEY_ID, "
    "GOOGLE_SERVICE_ACCOUNT, "
    'AZURE_STORAGE_ACCOUNT_NAME, …) or in storage_options=; {"skip_signature": True} is for public '
    "data"
)

_SIGNATURE = (
    "access is refused; the signature of the URL may be too old, or for another file: pass a URL "
    "with a new signature"
)


_PANIC = "PanicException"
"""Name of the exception that obstore raises for an internal failure.

It is not a subclass of `Exception`.
"""

# obstore panics if they are mixed with the store's.
_OF_CLIENT = re.compile(
    "allow_http|allow_invalid_certificates|(connect|read|pool_idle)_timeout|default_(content_type|headers)|http1_only|"
    "http2_(keep_alive_interval|keep_alive_timeout|keep_alive_while_idle|only)|pool_max_idle_per_host|"
    "proxy_(url|ca_certificate|excludes)|root_certificate|randomize_addresses|user_agent"
)
"""Pattern of options for connections. obstore takes them apart from options of the store."""


class ObjectStore:
    """Store (`FileStore`) of one bucket, container or host."""

    def __init__(self, root: str, url: str, options: StorageOptions) -> None:
        for module in ("obstore.exceptions", "obstore.store", "obstore"):
            self._library = optional_library(module, "files in stores need obstore", "remote")
        _check_process()
        given = dict(options.store)
        client = {**_client_options(root, given, options.timeout), **_of_client(given)}
        # The retries are ours, in `store.py`: one place counts them for all stores, and for answers
        # that are cut off.
        never = {"max_retries": 0, "retry_timeout": timedelta(0)}
        arguments: dict[str, Any] = {"client_options": client, "retry_config": never}
        self._is_http = root.startswith("http")
        self._is_signed = self._is_http and "?" in root
        if "credential_provider" in given:
            arguments["credential_provider"] = given.pop("credential_provider")
        if not self._is_http:
            arguments["config"] = given
        try:
            self._opened = self._library.store.from_url(root, **arguments)
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
                raise
            secrets = [*options.store, *secrets_in(url)]
            told = shorten(redacted_error(str(error).partition("Debug source")[0], secrets)).rstrip(
                "."
            )
            failure = SourceError(
                f"{shorten(url)}: the object store cannot be opened with this URL and these "
                f"storage_options: {told}. Correct the URL, or pass other storage_options=."
            )
            raise_without_secrets(failure, error, secrets)

    @property
    def _store(self) -> Any:
        _check_process()
        return self._opened

    def stamp(self, key: str) -> Stamp:
        if self._is_signed:  # mostly for one method alone, which is not that of `head`
            with self._whole_files_only(_NO_RANGES):
                return _stamp(self._library.get(self._store, key, options={"range": (0, 1)}).meta)
        with self._whole_files_only(_NO_HEAD):
            return _stamp(self._library.head(self._store, key))

    def read(self, key: str, start: int, stop: int) -> tuple[memoryview, Stamp | None]:
        with self._whole_files_only(_NO_RANGES):
            answer = self._library.get(self._store, key, options={"range": (start, stop)})
            return memoryview(answer.bytes()), _stamp(answer.meta)

    @contextmanager
    def _whole_files_only(self, pattern: re.Pattern[str]) -> Iterator[None]:
        """Raise NoRangesError in place of an HTTP server's error whose text matches the pattern."""
        try:
            yield
        except Exception as error:
            if self._is_http and pattern.search(str(error)):
                raise NoRangesError(
                    "the server did not send a part of the file. Pass a cache for whole files, "
                    "such as storage_options={'cache_bytes': 10**10}."
                ) from None
            raise

    def files_under(self, prefix: str) -> list[str]:
        return [
            meta["path"]
            for some in self._library.list(self._store, prefix or None)
            for meta in some
        ]

    def files_in(self, prefix: str) -> list[str]:
        return [
            meta["path"]
            for meta in self._library.list_with_delimiter(self._store, prefix or None)["objects"]
        ]

    def has_folders(self) -> bool:
        return not self._is_http

    def put(self, key: str, content: bytes | Path) -> None:
        self._library.put(self._store, key, content)

    def remove(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self._library.delete(self._store, key)

    def is_final(self, error: Exception) -> str | None:
        kinds = self._library.exceptions
        text = str(error)
        status = _STATUS.search(text)
        if "NoSuchBucket" in text or "ContainerNotFound" in text:
            return "there is no such bucket or container; check its name, and the region"
        refused = isinstance(error, HttpStatusError) and status and status[1] in ("401", "403")
        if refused or isinstance(error, (kinds.PermissionDeniedError, kinds.UnauthenticatedError)):
            return _SIGNATURE if self._is_signed else _LOGIN
        if any(sign in text for sign in _CREDENTIALS):
            return _LOGIN
        if "builder error" in text or (status and status[1] not in _ASK_AGAIN):
            return (
                "the store refuses the request; check the URL, and region and endpoint in "
                "storage_options="
            )
        if isinstance(
            error, (kinds.InvalidPathError, kinds.NotSupportedError, ValueError, TypeError)
        ):
            return "check the URL"
        return None


@functools.cache
def _first_process() -> int:
    return os.getpid()


def _check_process() -> None:
    """Raise SourceError if this process was forked from one that used obstore.

    The threads of obstore do not survive a fork.
    """
    if _first_process() != os.getpid():
        raise SourceError(
            "this process was forked from a process that had opened remote files, and cannot read "
            "any itself. "
            "Use the workers of DataLoader, or start processes with "
            'multiprocessing.get_context("spawn").'
        )


def _of_client(given: dict[str, Any]) -> dict[str, Any]:
    """Remove the options for connections from the user's options, and return them.

    Raises:
        SourceError: `client_options` is not a dict.
    """
    inner = given.pop("client_options", {})
    if not isinstance(inner, Mapping):
        raise SourceError(
            f"storage_options: client_options={short_repr(inner)} is not a dict. Pass a dict, such "
            "as {'allow_http': True}."
        )
    return {
        **{name: given.pop(name) for name in list(given) if _OF_CLIENT.fullmatch(name.lower())},
        **inner,
    }


def _client_options(root: str, given: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Return options for connections.

    A request fails after `timeout` seconds without progress, and after 20 times as long in any
    case. `http://` is allowed if the URL or the endpoint begins with it.
    """
    seconds = {"read_timeout": timeout, "connect_timeout": timeout, "timeout": 20 * timeout}
    times: dict[str, Any] = {name: timedelta(seconds=value) for name, value in seconds.items()}
    endpoints = [
        str(value)
        for name, value in given.items()
        if name.lower().endswith(("endpoint", "endpoint_url"))
    ]
    from_environment = [
        os.environ.get(name, "")
        for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    ]
    # Who names an endpoint of http:// wants it.
    plain = any(
        address.startswith("http://") for address in [root, *(endpoints or from_environment)]
    )
    return {**times, "allow_http": True} if plain else times


def _stamp(meta: Any) -> Stamp:
    return Stamp(int(meta["size"]), meta["e_tag"] or str(meta["last_modified"]))
