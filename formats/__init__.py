"""File formats: records and their checksums, indices, and samples.

This package does not use sources.
"""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from

if TYPE_CHECKING:
    from .example import decode_example
    from .example_writer import encode_example
    from .joined_features import RaggedFeature, SparseFeature

__all__ = ["RaggedFeature", "SparseFeature", "decode_example", "encode_example"]

if not TYPE_CHECKING:
    __getattr__ = names_from(
        __name__,
        {
            "RaggedFeature": "joined_features",
            "SparseFeature": "joined_features",
            "decode_example": "example",
            "encode_example": "example_writer",
        },
    )
