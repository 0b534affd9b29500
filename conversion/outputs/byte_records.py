"""Write records as bytes, one after the other, for `BytesSource`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...common.messages import first_few
from ...errors import ConversionError
from ...sources import TokenWriter
from .encoding import Encode, Encoding


class BytesOutput(Encoding):
    """Output of a conversion for `BytesSource`: records of bytes, with offsets in a second file.

    Args:
        encode: as in `Encoding`.
        encode_identity: as in `Encoding`.
        options: must be empty.

    Raises:
        ConversionError: there are options.
    """

    suffix = ".npy"

    def __init__(
        self, encode: str | Encode, encode_identity: Any, options: Mapping[str, Any]
    ) -> None:
        super().__init__(encode, encode_identity)
        if options:
            raise ConversionError(
                f'to="bytes" takes no options, but options= has {first_few(sorted(options))}. '
                "Leave options= out."
            )

    def identity(self) -> dict[str, Any]:
        return {"to": "bytes", "encode": self.encode_identity}

    def open(self, path: str) -> _BytesWriter:
        return _BytesWriter(path)

    def files_of(self, name: str) -> tuple[str, ...]:
        """Return the file of offsets, then the file of bytes.

        No source reads offsets without the other file.
        """
        return (f"{name}.offsets", name)


class _BytesWriter(TokenWriter):
    def __init__(self, path: str) -> None:
        super().__init__(path, np.uint8, may_be_empty=True)

    def extend(self, documents: Any) -> None:
        super().extend(np.frombuffer(record, np.uint8) for record in documents)
