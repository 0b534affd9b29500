"""Other libraries' names and states over ours; nothing else knows them."""

from __future__ import annotations

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    remark = "is not here yet; docs/from-grain.md says what to write" if name == "grain" else "is not there"
    raise AttributeError(f"module 'millrace.compat' has no attribute {name!r}: that {remark}.")
