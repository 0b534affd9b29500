"""Allocate the memory of a batch, or raise an error that says how large the batch would be."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from math import prod
from typing import Any

from numpy.typing import NDArray

from ..common.messages import shorten
from ..errors import BatchMemoryError
from .protocol import Allocate, ArraySpec

_NO_MEMORY = (errno.ENOMEM, errno.ENOSPC, errno.EFBIG, errno.EINVAL)
"""Error codes of the system for sizes that it cannot provide.

Codes for a lack of file descriptors are left out.
"""


def allocated(
    specs: Sequence[ArraySpec], names: Sequence[str], allocate: Allocate
) -> list[NDArray[Any]]:
    """Return the arrays of a batch, uninitialised.

    Args:
        specs: shape and dtype of each leaf.
        names: name of each leaf, for the message.
        allocate: function that allocates arrays.

    Raises:
        BatchMemoryError: there is not enough memory.
        OSError: the system reports another error, such as a lack of file descriptors.
    """
    try:
        return allocate(specs)
    except (MemoryError, OverflowError, ValueError) as error:
        raise _too_large(specs, names) from error
    except OSError as error:
        if error.errno not in _NO_MEMORY:
            raise
        raise _too_large(specs, names) from error


def _too_large(specs: Sequence[ArraySpec], names: Sequence[str]) -> BatchMemoryError:
    size, name, spec = max((_bytes(spec), name, spec) for name, spec in zip(names, specs))
    total = sum(map(_bytes, specs))
    of_these = f", {size:,} of these" if len(specs) > 1 else ""
    return BatchMemoryError(
        f"there is no memory for a batch of {total:,} bytes: leaf "
        f"{shorten(name or 'of the element', 100)} has shape {spec.shape} and dtype "
        f"{shorten(spec.dtype, 60)}{of_these}. Pass a smaller batch_size, keep fewer batches, or "
        "raise the limit (ulimit -v, the container's memory, or the size of /dev/shm)."
    )


def _bytes(spec: ArraySpec) -> int:
    return spec.dtype.itemsize * prod(spec.shape)
