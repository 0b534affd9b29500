"""Check the names of columns that the user chose."""

from __future__ import annotations

from collections.abc import Sequence

from ...common.messages import first_few, short_repr, shorten


def check_columns(chosen: Sequence[str], names: Sequence[str], folder: str, path: str) -> None:
    """Check that the columns that a user has chosen exist.

    Args:
        chosen: names of the chosen columns.
        names: names of all columns.
        folder: folder of the shards, for messages.
        path: path of the shard, or folder, that has these columns, for messages.

    Raises:
        ValueError: none is chosen, or one does not exist.
    """
    if not chosen:
        raise ValueError(
            f"columns=[] is empty. Name at least one column of {shorten(folder)}: "
            f"{first_few(names, 8)}."
        )
    unknown = [short_repr(name) for name in chosen if name not in names]
    if unknown:
        raise ValueError(
            f"{shorten(path)} has no column {first_few(unknown)}. Name some of its columns: "
            f"{first_few(names, 8)}."
        )
