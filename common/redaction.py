"""Replace credentials by `***` in texts that people read: messages, reprs, logs and reports.

Paths, URLs and messages of other libraries pass through here, mostly from `messages.shorten` and
`short_repr`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

HIDDEN = "***"

_USER = re.compile(
    r"(?<=://)(?:(?:(?<=s3://)|(?<=s3a://)|(?<=gs://))[^/\s:@]{0,256}:\S{0,4096}|[^/\s:@]{0,256}:(?!\d{1,5}(?:[/\s?'\"]|$))\S{0,4096}"
    r"|(?:(?<=http://)|(?<=https://))[^/\s@?#]{1,4096})@",
    re.IGNORECASE,
)
"""User name and password before a host in a URL.

The password may contain `/`, as S3 keys do. A port before a path does not match. A name without a
password is hidden in http URLs only: in `abfs://container@account` it names the container.
"""

_PARAMETER = re.compile(
    r"([?&;#]([^=&;?#\s'\"<>]{1,100})=)((?:(?!#[^=&;?#\s]{1,100}=)[^&;\s'\"<>)])+)"
)

_SECRET_PARAMETER = re.compile(
    r"key|token|secret|sig|pass|pwd|auth|cred|session|policy|jwt|bearer|x-amz|x-goog|accessid|code|^sas$|^pw$",
    re.IGNORECASE,
)
_PLAIN_VALUE_LENGTH = 24  # Longer values of parameters hide whatever their name is

_SECRET_NAME = (
    r"secret|passw(?:or)?d|api[_-]?key|access[_-]?key|account[_-]?key|"
    r"(?:session|auth|sas|access)[_-]?token"
)

_SECRET_OPTION = re.compile(
    rf"{_SECRET_NAME}|^token$|^sas$|credential|authorization|signature", re.IGNORECASE
)

_SETTING = re.compile(
    rf"((?:{_SECRET_NAME}|credential|signature|authorization|(?<![\w-])token)[\w-]{{0,40}}"
    r"(?:['\"]?\s*[=:]\s*['\"]?|\"?>))(?:(?:Bearer|Basic)\s+)?[^\s'\",&;)}<>]+",
    re.IGNORECASE,
)
"""Credentials in texts of libraries, such as `secret_access_key=…` or `Authorization: Bearer …`."""

_SHORTEST = 4  # Values of options that are shorter tell nothing, and would hide parts of words


def redacted(text: str) -> str:
    """Return the text with credentials in URLs replaced by `***`.

    Parameter values of over 24 characters are replaced, too, whatever their name is.

    >>> redacted("s3://AK:SECRET@bucket/a.parquet"), redacted("https://host/a.npy?id=7&api_key=SECRET")
    ('s3://***@bucket/a.parquet', 'https://host/a.npy?id=7&api_key=***')
    >>> redacted("hf://datasets/me/data@main/a.parquet")
    'hf://datasets/me/data@main/a.parquet'
    """
    if "@" in text and "://" in text:
        text = _USER.sub(HIDDEN + "@", text)
    return _PARAMETER.sub(_parameter, text) if "=" in text else text


def redacted_error(text: str, options: Iterable[tuple[str, Any]] = ()) -> str:
    """Return a store library's message without credentials.

    Args:
        text: the message.
        options: pairs of an option's name and its value; values of secret options are hidden as
            well, if they have at least 4 characters.

    >>> redacted_error("denied: api_key=SECRET, user 42", [("secret", "user 42")])
    'denied: api_key=***, ***'
    """
    # one may be a part of another
    for value in sorted(_secret_values(options), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return _SETTING.sub(lambda found: found[1] + HIDDEN, redacted(text))


def secrets_in(url: str) -> list[tuple[str, str]]:
    """Return the credentials in a URL as (name, value) pairs, to hide them in other texts.

    >>> secrets_in("https://me:SECRET@host/a?sig=OTHER")
    [('secret', 'me:SECRET'), ('secret', 'SECRET'), ('secret', 'OTHER')]
    """
    # Libraries may show a credential without the rest of the URL.
    users = [found[0][:-1] for found in _USER.finditer(url)]
    passwords = [user.partition(":")[2] for user in users]
    values = [found[3] for found in _PARAMETER.finditer(url) if _parameter(found).endswith(HIDDEN)]
    return [("secret", value) for value in (*users, *passwords, *values)]


def without_secrets(error: BaseException, options: Iterable[tuple[str, Any]] = ()) -> BaseException:
    """Return an exception without credentials, to be used as a cause.

    It is `error` itself if its texts show no credentials, else a new exception with a class of the
    same name.

    Args:
        error: the exception.
        options: pairs of an option's name and its value; values of secret options are hidden.
    """
    told = list(_texts_in(error))
    if [redacted_error(text, options) for text in told] == told:
        return error
    kind = type(type(error).__name__, (Exception,), {"__module__": type(error).__module__})
    shown: BaseException = kind(redacted_error(str(error), options))
    return shown.with_traceback(error.__traceback__)


def raise_without_secrets(
    failure: BaseException, error: BaseException, options: Iterable[tuple[str, Any]]
) -> NoReturn:
    """Raise `failure` with a library's `error`, without credentials, as its cause.

    Call it in an `except` block.

    Args:
        failure: the exception to raise.
        error: the library's exception.
        options: pairs of an option's name and its value; values of secret options are hidden.
    """
    failure.__cause__ = without_secrets(error, options)
    try:
        raise failure
    finally:
        failure.__context__ = None  # which Python has just set


def notes_of(error: BaseException) -> Sequence[str]:
    """Return the notes of an exception, which `add_note` has added."""
    return getattr(error, "__notes__", ())


def _texts_in(error: BaseException | None) -> Iterable[str]:
    """Yield each text that a traceback shows of an exception and its causes.

    Texts are messages, arguments and notes.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield from (str(error), *map(str, error.args), *notes_of(error))
        error = error.__cause__ or error.__context__


def is_secret_name(name: Any) -> bool:
    """Return True if the value of an option with this name must be hidden.

    >>> is_secret_name("aws_secret_access_key"), is_secret_name("tokens"), is_secret_name("region")
    (True, False, False)
    """
    return bool(_SECRET_OPTION.search(str(name)))


def _parameter(found: re.Match[str]) -> str:
    from urllib.parse import unquote  # 3 ms of a worker's start

    hide = _SECRET_PARAMETER.search(unquote(found[2])) or len(found[3]) > _PLAIN_VALUE_LENGTH
    return found[1] + (HIDDEN if hide else found[3])


def _secret_values(options: Iterable[tuple[str, Any]]) -> Iterable[str]:
    for name, value in options:
        if isinstance(value, Mapping):
            yield from _secret_values(value.items())
        elif (is_secret_name(name) or name == "key") and len(str(value)) >= _SHORTEST:
            yield str(value)
