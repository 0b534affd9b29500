"""Stores of S3, Google, Azure and HTTP, by the library obstore. In: keys. Out: bytes."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...errors import MissingExtraError, SourceError
from ...wording import brief
from ..stamps import Stamp
from ..storage_options import StorageOptions
from .store import check_process

_STATUS = re.compile(r"status code: ([34]\d\d)")
_ASK_AGAIN = {"408", "409", "425", "429"}
"""Answers that say to come later."""

_CREDENTIALS = ("/latest/api/token", "169.254.169.254", "metadata.google", "/metadata/identity", "MissingCredential")
"""What an error speaks of when no credentials were found: the servers that machines of a cloud would get them from."""

_LOGIN = (
    "access is refused; set credentials that allow it in the environment (AWS_ACCESS_KEY_ID, GOOGLE_SERVICE_ACCOUNT, "
    'AZURE_STORAGE_ACCOUNT_NAME, …) or in storage_options=; {"skip_signature": True} is for public data'
)

_SIGNATURE = (
    "access is refused; the URL may be signed for a time that is over, or for another file: have it signed anew"
)


class ObjectStore:
    """One bucket, container or host; `Store` says what it does."""

    def __init__(self, root: str, options: StorageOptions) -> None:
        self._library = _library()
        check_process()
        given = dict(options.store)
        client = {**_client_options(root, given, options.timeout), **given.pop("client_options", {})}
        # The retries are ours, in `retries.py`: so that one place counts them, whatever the store is.
        never = {"max_retries": 0, "retry_timeout": timedelta(0)}
        arguments: dict[str, Any] = {"client_options": client, "retry_config": never}
        self._is_http = root.startswith("http")
        self._is_signed = self._is_http and "?" in root
        if "credential_provider" in given:
            arguments["credential_provider"] = given.pop("credential_provider")
        if not self._is_http:
            arguments["config"] = given
        try:
            self._store = self._library.store.from_url(root, **arguments)
        except Exception as error:
            raise SourceError(
                f"{brief(root)}: the store cannot be opened with these storage_options: {_text(error)}"
            ) from error

    def stamp(self, key: str) -> Stamp:
        """As the protocol says."""
        check_process()
        if self._is_signed:  # mostly for one method alone, which is not that of `head`
            return _stamp(self._library.get(self._store, key, options={"range": (0, 1)}).meta)
        return _stamp(self._library.head(self._store, key))

    def read(self, key: str, start: int, stop: int) -> tuple[memoryview, Stamp | None]:
        """As the protocol says."""
        check_process()
        answer = self._library.get(self._store, key, options={"range": (start, stop)})
        return memoryview(answer.bytes()), _stamp(answer.meta)

    def files_under(self, prefix: str) -> list[str]:
        """As the protocol says."""
        check_process()
        return [meta["path"] for some in self._library.list(self._store, prefix or None) for meta in some]

    def files_in(self, prefix: str) -> list[str]:
        """As the protocol says."""
        check_process()
        return [meta["path"] for meta in self._library.list_with_delimiter(self._store, prefix or None)["objects"]]

    def has_folders(self) -> bool:
        """As the protocol says."""
        return not self._is_http

    def put_file(self, key: str, path: str) -> None:
        """As the protocol says."""
        check_process()
        self._library.put(self._store, key, Path(path))

    def put_bytes(self, key: str, data: bytes) -> None:
        """As the protocol says."""
        check_process()
        self._library.put(self._store, key, data)

    def remove(self, key: str) -> None:
        """As the protocol says."""
        check_process()
        with suppress(FileNotFoundError):
            self._library.delete(self._store, key)

    def is_final(self, error: Exception) -> str | None:
        """As the protocol says."""
        kinds = self._library.exceptions
        text = str(error)
        status = _STATUS.search(text)
        if "NoSuchBucket" in text or "ContainerNotFound" in text:
            return "there is no such bucket or container; check its name, and the region"
        if isinstance(error, (kinds.PermissionDeniedError, kinds.UnauthenticatedError)):
            return _SIGNATURE if self._is_signed else _LOGIN
        if any(sign in text for sign in _CREDENTIALS):
            return _LOGIN
        if "builder error" in text or (status and status[1] not in _ASK_AGAIN):
            return "the store refuses the request; check the URL, and region and endpoint in storage_options="
        if isinstance(error, (kinds.InvalidPathError, kinds.NotSupportedError, ValueError, TypeError)):
            return "check the URL"
        return None


def _library() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise MissingExtraError('files in stores need obstore: pip install "millrace[remote]"') from error
    return obstore


def _client_options(root: str, given: dict[str, Any], timeout: float) -> dict[str, Any]:
    """A request that brings nothing for `timeout` is given up; as a whole it may take longer."""
    seconds = {"read_timeout": timeout, "connect_timeout": timeout, "timeout": 20 * timeout}
    times: dict[str, Any] = {name: timedelta(seconds=value) for name, value in seconds.items()}
    endpoints = [str(value) for name, value in given.items() if name.lower().endswith(("endpoint", "endpoint_url"))]
    from_environment = [
        os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    ]
    # Who names an endpoint of http:// wants it.
    plain = any(address.startswith("http://") for address in [root, *(endpoints or from_environment)])
    return {**times, "allow_http": True} if plain else times


def _stamp(meta: Any) -> Stamp:
    return Stamp(int(meta["size"]), meta["e_tag"] or str(meta["last_modified"]))


def _text(error: Exception) -> str:
    return brief(str(error).partition("Debug source")[0])
