"""Name the work of a thread in profiles of `jax.profiler`. Does not import jax.

In: a name. Out: a context that adds the name to a profile, if a profile is being taken.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

_NOWHERE = nullcontext()


def profiled(name: str) -> AbstractContextManager[object]:
    """Return a context in which `jax.profiler` names this thread's work "headrace: `name`"."""
    # None: nobody has imported it, or not wholly
    kind = getattr(sys.modules.get("jax.profiler"), "TraceAnnotation", None)
    return _NOWHERE if kind is None else kind(f"headrace: {name}")
