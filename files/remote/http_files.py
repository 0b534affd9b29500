"""Fetch whole files from HTTP servers that send no ranges of files, or not their size.

The library of stores needs the size of a file before its bytes, and limits the time of a whole
answer. So these requests are made with Python's own library. The caller repeats them if they fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from ...common.messages import shorten
from ...errors import SourceError
from ..stamps import Stamp, check_unchanged
from ..storage_options import StorageOptions
from ..sums import CHUNK_BYTES, sums_of
from ..urls import split_url, unsigned

_READ_BYTES = 64 * CHUNK_BYTES

NO_VERSION = "1970-01-01 00:00:00+00:00"
"""Version of a file without ETag and Last-Modified, as the library of stores writes it."""

OF_CONTENT = "sha256:"
"""Prefix of a version that is the digest of the content."""


class NoRangesError(SourceError):
    """An HTTP server sends only whole files, or not their size."""


class HttpStatusError(OSError):
    """Refusal of a request by an HTTP server.

    The text contains `status code:` and the code, such as 403.
    """


class Facts(NamedTuple):
    """Facts that a server sends before the bytes of a file."""

    size: int | None
    """Size in bytes, or None if the server does not send it."""
    version: str | None
    """ETag, or time of the last modification; None if the server sends neither."""


class Fetched(NamedTuple):
    """Facts of a file that was fetched."""

    stamp: Stamp
    sums: bytes
    """Checksums of its chunks."""


def facts_of(url: str, options: StorageOptions) -> Facts:
    """Request a file, and return its facts without reading its bytes.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError, http.client.HTTPException: the request failed.
    """
    with _answer(url, options) as answer:
        return _facts(answer)


def fetch(
    url: str, options: StorageOptions, out: IO[bytes], limit: int, stamp: Stamp | None = None
) -> Fetched:
    """Write a whole file to `out`, from the beginning, by one request.

    Args:
        url: URL of the file.
        options: how the server is reached.
        out: file to write to. It may contain bytes of an earlier request that failed.
        limit: maximum number of bytes.
        stamp: expected version of the file. None (default): any version.

    Raises:
        SourceError: the file has another version, or more than `limit` bytes.
        FileNotFoundError: the file does not exist.
        OSError, EOFError, http.client.HTTPException: the request failed.
    """
    with _answer(url, options) as answer:
        facts = _facts(answer)
        if stamp is not None and not str(stamp.modified).startswith(OF_CONTENT):
            check_unchanged(
                url, stamp, Stamp(_or(facts.size, stamp.size), _or(facts.version, NO_VERSION))
            )
        out.seek(0)
        size, sums, digest = 0, [], hashlib.sha256()
        while piece := answer.read(_READ_BYTES):
            size += len(piece)
            if size > limit:
                if stamp is not None:
                    check_unchanged(url, stamp, Stamp(size, stamp.modified))
                raise SourceError(
                    f"{shorten(unsigned(url))} has more than {limit} bytes, the limit of the cache "
                    "of remote files. Raise the limit with storage_options={'cache_bytes': …}."
                )
            out.write(piece)
            sums.append(sums_of(piece))
            if facts == (None, None):
                digest.update(piece)
        if facts.size is not None and size < facts.size:
            raise EOFError(
                f"the server must send the whole file of {facts.size} bytes, but it sent {size} "
                "bytes"
            )
        version = facts.version
        if version is None:
            version = NO_VERSION if facts.size is not None else OF_CONTENT + digest.hexdigest()
        found = Stamp(size, version)
    if stamp is not None:
        check_unchanged(url, stamp, found)
    return Fetched(found, b"".join(sums))


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def _facts(answer: Any) -> Facts:
    from email.utils import parsedate_to_datetime

    version, time = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
    if version is None and time is not None:
        version = str(parsedate_to_datetime(time))
    return Facts(answer.length, version)


@contextmanager
def _answer(url: str, options: StorageOptions) -> Iterator[Any]:
    """Yield the answer to a request for a whole file: a stream with headers."""
    from urllib.error import HTTPError

    try:
        with _opener(options).open(_request(url, options), timeout=options.timeout) as answer:
            yield answer
    except HTTPError as error:
        error.close()
        if error.code in (404, 410):
            raise FileNotFoundError(url) from None
        raise HttpStatusError(
            f"the server answers with status code: {error.code} {error.reason}"
        ) from None


def _request(url: str, options: StorageOptions) -> Any:
    from base64 import b64encode
    from urllib.parse import quote, unquote
    from urllib.request import Request

    root, key = split_url(url)
    address, mark, query = root.partition("?")
    scheme, _, host = address.partition("://")
    user, _, host = host.rpartition("@")
    given = _given(options)
    headers = {
        str(name): _text(value) for name, value in dict(given.get("default_headers") or {}).items()
    }
    if "user_agent" in given:
        headers["User-Agent"] = _text(given["user_agent"])
    if user:
        headers["Authorization"] = f"Basic {b64encode(unquote(user).encode()).decode()}"
    request = Request(f"{scheme}://{host}/{quote(key)}{mark}{query}")
    for (
        name,
        value,
    ) in headers.items():  # they may hold credentials, which another server must not get
        request.add_unredirected_header(name, value)
    return request


def _opener(options: StorageOptions) -> Any:
    import ssl
    from urllib.request import HTTPSHandler, ProxyHandler, build_opener

    given = _given(options)
    handlers: list[Any] = []
    if "proxy_url" in given:
        handlers.append(ProxyHandler(dict.fromkeys(("http", "https"), str(given["proxy_url"]))))
    if str(given.get("allow_invalid_certificates", False)).lower() == "true":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        handlers.append(HTTPSHandler(context=context))
    return build_opener(*handlers)


def _given(options: StorageOptions) -> dict[str, Any]:
    """Return the options for connections that the user passed, by lower-case name."""
    given = dict(options.store)
    inner = given.pop("client_options", {})
    merged = {**given, **(inner if isinstance(inner, Mapping) else {})}
    return {str(name).lower(): value for name, value in merged.items()}


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
