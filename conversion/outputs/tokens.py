"""Write documents of text or tokens as files of tokens, for `TokenSource`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ...common.messages import TEXT, a_kind_of, first_few, remedy_for, short_repr, shorten
from ...errors import ConversionError, MissingExtraError, SourceNotFoundError
from ...sources import TokenWriter
from ...sources.tokens.files import integer_dtype
from ..job import Output


class TokensOutput(Output):
    """Output of a conversion: files of tokens for `TokenSource`.

    Args:
        tokenizer: path of a tokenizer file of the library `tokenizers`. None: records are tokens
            already.
        column: field of dict records that has the text or tokens. Default "text", or "tokens"
            without a tokenizer.
        options: `dtype`, by default uint16 if the vocabulary fits, otherwise uint32;
            `add_special_tokens`, default True; `document_length`, length of the documents into
            which the input is divided; `end_of_text`, ID of a token that is appended to each
            document that does not end with it.

    Raises:
        ConversionError: an option is unknown or has a wrong value, or the file is not a tokenizer.
        SourceNotFoundError: the tokenizer file does not exist.
        MissingExtraError: the library tokenizers is not installed.
    """

    suffix = ".npy"

    def __init__(
        self, tokenizer: str | None, column: str | None, options: Mapping[str, Any]
    ) -> None:
        self._path, self._content = tokenizer, None if tokenizer is None else _content(tokenizer)
        self._column = column or ("text" if tokenizer else "tokens")
        self._special = str(options.get("add_special_tokens", True)).lower() != "false"
        self._divided = {name: options[name] for name in ("document_length",) if name in options}
        unknown = sorted(
            set(options) - {"dtype", "add_special_tokens", "document_length", "end_of_text"}
        )
        if unknown:
            raise ConversionError(
                f"options= contains {first_few(unknown)}, but the options for tokens are dtype, "
                "add_special_tokens, document_length and end_of_text. Use only these."
            )
        dtype = options.get("dtype")
        if not dtype:
            dtype = (
                "uint16" if tokenizer and self._tokenizer.get_vocab_size() <= 1 << 16 else "uint32"
            )
        try:
            self._dtype = integer_dtype(dtype)
        except TypeError as error:
            raise ConversionError(str(error)) from None
        self._end = (
            None
            if options.get("end_of_text") is None
            else _token(options["end_of_text"], self._dtype)
        )

    def identity(self) -> dict[str, Any]:
        told = (
            None
            if self._content is None
            else hashlib.sha256(self._content.encode()).hexdigest()[:16]
        )
        options = {"dtype": str(self._dtype), "add_special_tokens": self._special, **self._divided}
        if self._end is not None:
            options["end_of_text"] = int(self._end)
        return {"to": "tokens", "tokenizer": told, "column": self._column, "options": options}

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            import tokenizers

            return tokenizers.Tokenizer.from_str(self._content)
        except ImportError as error:
            raise MissingExtraError(
                'tokenizer= needs the package tokenizers: pip install "headrace[tokenizers]"'
            ) from error
        except Exception as error:  # the library raises no class of its own
            raise ConversionError(
                f"{shorten(self._path)} is not the file of a tokenizer: {shorten(error)}. Pass the "
                "path of a tokenizer.json."
            ) from error

    def encode(self, records: list[Any]) -> list[Any]:
        documents = [self._document(record) for record in records]
        if self._content is None:
            return [self._fitting(document) for document in documents]
        texts = [_text(document, self._column) for document in documents]
        found = self._tokenizer.encode_batch(texts, add_special_tokens=self._special)
        return [self._fitting(np.array(one.ids, np.int64)) for one in found]

    def _document(self, record: Any) -> Any:
        if not isinstance(record, Mapping):
            return record
        if self._column not in record:
            raise ConversionError(
                f"a record has no column {short_repr(self._column)}, only "
                f"{first_few(list(record), 8)}. Pass column=, the name of the column that contains "
                f"the {'text' if self._content is not None else 'tokens'}."
            )
        return record[self._column]

    def _fitting(self, tokens: Any) -> Any:
        """Return a document's tokens in the dtype of the file, with the `end_of_text` token.

        Raises:
            ConversionError: the tokens are not integers with one axis, or do not fit the dtype.
        """
        try:  # `TokenWriter` would refuse them too, but would end
            found = np.asarray(tokens)
        except ValueError:  # lists of several lengths
            found = np.empty((0, 0))
        if isinstance(tokens, np.integer):
            raise ConversionError(
                f"a document is a single number, {tokens}, so it is unknown where documents begin. "
                "Pass column= with the name of a field that contains a list of tokens. To cut "
                '.npy files of tokens into documents, pass options={"document_length": 1024}.'
            )
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise ConversionError(
                f"a document is {a_kind_of(tokens)} ({short_repr(tokens)}), not a list of whole "
                "numbers. To convert text, pass tokenizer=, the path of a tokenizer.json."
            )
        limits = np.iinfo(self._dtype)
        if found.size and not limits.min <= found.min() <= found.max() <= limits.max:
            wrong = int(found.min() if found.min() < limits.min else found.max())
            wider = "int64" if wrong < 1 << 63 else "uint64"
            raise ConversionError(
                f"token {wrong} does not fit {self._dtype}, which holds {limits.min} to "
                f"{limits.max}. Pass a type that "
                f'holds it, such as options={{"dtype": "{wider}"}}.'
            )
        found = found.astype(self._dtype, copy=False)
        if self._end is not None and (not found.size or found[-1] != self._end):
            found = np.append(found, self._end)
        return found

    def open(self, path: str) -> TokenWriter:
        return TokenWriter(path, self._dtype, may_be_empty=True)

    def files_of(self, name: str) -> tuple[str, ...]:
        """Return the file of offsets, then the file of tokens.

        No source reads offsets without the other file.
        """
        return (f"{name}.offsets", name)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_tokenizer"}


def _token(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a token as a number of the files' dtype.

    Raises:
        ConversionError: it is not a number, or does not fit the dtype.
    """
    text, limits = str(value), np.iinfo(dtype)
    if not text.isdecimal() or int(text) > limits.max:
        raise ConversionError(
            f"end_of_text={short_repr(value)} must be a token number from 0 to {limits.max}, the "
            "largest of "
            f'{dtype}. Pass options={{"dtype": …}} with a wider type for larger numbers.'
        )
    return dtype.type(int(text))


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise SourceNotFoundError(
            f"there is no tokenizer file {short_repr(path, TEXT)}. Pass the path of a "
            "tokenizer.json."
        ) from None
    except OSError as error:
        raise ConversionError(
            f"the tokenizer file {shorten(path)} cannot be read: {shorten(error)}. "
            f"{remedy_for(error, 'Check that the path is a file, and its permissions')}."
        ) from error
    except UnicodeError as error:
        raise ConversionError(
            f"{shorten(path)} is not the file of a tokenizer: {shorten(error)}. Pass the path of a "
            "tokenizer.json."
        ) from error


def _text(document: Any, column: str) -> str:
    if isinstance(document, str):
        return document
    if isinstance(document, (bytes, bytearray, memoryview)):
        return bytes(document).decode()
    raise ConversionError(
        f"a record, or its column {short_repr(column)} if it has columns, is {a_kind_of(document)} "
        f"({short_repr(document)}), not text. Pass column=, the name of a text column, or "
        "transform=, a function that returns such a record."
    )
