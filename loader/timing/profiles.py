"""Names what a thread does in profiles of `jax.profiler`.

In: a name. Out: what puts it into the profile that is being taken, if one is. jax is not imported for it.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

_NOWHERE = nullcontext()


def profiled(name: str) -> AbstractContextManager[object]:
    """Name what this thread does within the context."""
    kind = getattr(
        sys.modules.get("jax.profiler"), "TraceAnnotation", None
    )  # None: nobody has imported it, or not wholly
    return _NOWHERE if kind is None else kind(f"headrace: {name}")
