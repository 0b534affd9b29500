"""Find out if one process controls the devices of all hosts, as on Pathways."""

from __future__ import annotations

import sys

from .validation import warn

_PATHWAYS = "proxy"
"""Name of the platform by which jax reaches devices of other hosts."""


def warn_of_one_controller(what: str) -> None:
    """Warn if this process controls the devices of all hosts.

    A loader here would read the data of all of them.

    Args:
        what: name of the function or class that was called, for the warning.
    """
    jax = sys.modules.get("jax")
    platforms = (jax.config.jax_platforms or "") if jax is not None else ""
    if _PATHWAYS in platforms.split(","):
        warn(
            f"with {what}, this process reads the data of all hosts, because it controls all "
            f"devices (jax_platforms={platforms!r}). Use headrace.RemoteLoader, which reads on "
            "each host."
        )
