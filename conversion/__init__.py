"""Convert data to files with random access, with or without Apache Beam, and verify the files."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from

if TYPE_CHECKING:
    from .conversion import convert
    from .lengths import measure_lengths
    from .manifest import Manifest, verify

__all__ = ["Manifest", "convert", "measure_lengths", "verify"]

if not TYPE_CHECKING:
    __getattr__ = names_from(
        __name__,
        {
            "Manifest": "manifest",
            "convert": "conversion",
            "measure_lengths": "lengths",
            "verify": "manifest",
        },
    )
