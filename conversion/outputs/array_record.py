"""Write records as ArrayRecord files. The bytes depend only on the records and the options."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...common.messages import short_repr, shorten
from ...errors import ConversionError, MissingExtraError
from .encoding import Encode, Encoding


class ArrayRecordOutput(Encoding):
    """Output of a conversion: ArrayRecord files.

    Args:
        encode: as in `Encoding`.
        encode_identity: as in `Encoding`.
        options: options of ArrayRecord's writer. They are added to `group_size:1`, which is best
            for random access and may be replaced.

    Raises:
        MissingExtraError: the library array_record is not installed.
    """

    suffix = ".array_record"

    def __init__(
        self, encode: str | Encode, encode_identity: Any, options: Mapping[str, Any]
    ) -> None:
        super().__init__(encode, encode_identity)
        given = {"group_size": 1, **options}
        self._options = ",".join(
            f"{name}:{value}" if value != "" else name for name, value in given.items()
        )
        _library()

    def identity(self) -> dict[str, Any]:
        return {"to": "array_record", "encode": self.encode_identity, "options": self._options}

    def open(self, path: str) -> _ArrayRecordWriter:
        try:
            return _ArrayRecordWriter(_library().ArrayRecordWriter(path, self._options), path)
        except ValueError as error:
            raise ConversionError(
                f"ArrayRecord does not accept the options {short_repr(self._options)}: "
                f"{shorten(error)}. Pass options= (--option NAME=VALUE) with names and values of "
                "its writer, such as {'group_size': 1}."
            ) from error


class _ArrayRecordWriter:
    def __init__(self, writer: Any, path: str) -> None:
        self._writer, self._path = writer, path
        self._check()

    def extend(self, encoded: list[bytes]) -> None:
        write = self._writer.write
        for record in encoded:
            write(record)
        self._check()

    def close(self) -> None:
        try:
            self._writer.close()
        except RuntimeError as error:
            raise OSError(shorten(error)) from error

    def discard(self) -> None:
        with suppress(RuntimeError):
            self._writer.close()

    def _check(self) -> None:
        """Raise the library's error after a failure.

        The library itself reports it only when the writer is closed.
        """
        if not self._writer.ok():
            self.close()
            raise OSError(
                f"the ArrayRecord library cannot write {shorten(self._path)}, so check the disk "
                "and its free space"
            )


def _library() -> Any:
    try:
        from array_record.python import array_record_module
    except ImportError as error:
        raise MissingExtraError(
            'to="array_record" needs the package array_record: pip install "headrace[array-record]"'
        ) from error
    return array_record_module
