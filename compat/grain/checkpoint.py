"""`grain.checkpoint`. It needs Orbax, which is imported when a name is first used."""

from typing import TYPE_CHECKING, Any

from ... import checkpoint as _ours

if TYPE_CHECKING:
    from ...checkpoint.orbax import CheckpointHandler, CheckpointRestore, CheckpointSave

__all__ = ["CheckpointHandler", "CheckpointRestore", "CheckpointSave"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}. Use CheckpointHandler, "
                "CheckpointRestore or CheckpointSave."
            )
        return getattr(_ours, name)
