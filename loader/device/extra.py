"""The door to jax, which everything in this folder comes through, and nothing before it is needed.

In: nothing. Out: the module, or an error that says what to install.
"""

from __future__ import annotations

from typing import Any

from ...errors import MissingExtraError


def jax_for(what: str) -> Any:
    """The module `jax`, which `what` needs.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import jax
    except ImportError as error:
        raise MissingExtraError(f'{what} needs jax; pip install "headrace[jax]".') from error
    return jax
