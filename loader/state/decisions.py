"""The log by which the shards of a run agree at which position they begin to read appended records.

In: a position, and the newest generation (version of a source's files) that a shard found when it
checked at this position. Out: the decision of the first shard that checked at this position. All
other shards read this decision from the log; they do not communicate in any other way.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from typing import NamedTuple

from ...common.messages import remedy_for, short_repr, shorten
from ...errors import CheckpointError
from ...samplers.history import ONLY


class Decision(NamedTuple):
    """A decision which generation (version of a source's files) to read from a position on.

    Attributes:
        generation: number of the generation.
        joins: True if the generation's new records are read in the current epoch already; False if
            they are read from the next epoch on.
    """

    generation: int
    joins: bool


Decisions = dict[str, Decision]
"""Decisions by name of a mix's part; for a single source, by the name "" (`ONLY`)."""


class DecisionLog:
    """A log of decisions: a folder with a file for each position at which shards check a source.

    At these positions, the shards check for appended records.

    Args:
        folder: path of the folder. It is created when the first decision is written.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def read(self, position: int) -> Decisions | None:
        """Return the logged decisions at a position, by source name; None if there are none.

        A decision says which generation (version of a source's files) is read from the position on.

        Raises:
            CheckpointError: the position's file is damaged, or cannot be read.
        """
        path = self._path(position)
        try:
            with open(path, "rb") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(how="read", error=error) from None
        try:
            values = json.loads(text)
            by_name = {ONLY: values} if isinstance(values, list) else dict(values)
            found = {name: Decision(*of_part) for name, of_part in by_name.items()}
            if any(
                type(each.generation) is not int or type(each.joins) is not bool
                for each in found.values()
            ):
                raise TypeError
        except (ValueError, TypeError):
            raise CheckpointError(
                f"{shorten(path)}, a file by which shards agree when to read appended records, is "
                f"damaged: {short_repr(text)}. Pass growth=headrace.GrowthOptions(log=…) with "
                "another folder."
            ) from None
        return found

    def first(self, position: int, found: Decisions) -> Decisions:
        """Return the decisions at a position that were written first; they hold for all shards.

        A decision says which generation (version of a source's files) is read from the position on.
        If the log has no decisions for this position, the decisions of this shard are written and
        returned.

        Args:
            position: position at which the shards check for appended records.
            found: the decisions of this shard, by source name.

        Raises:
            CheckpointError: the folder cannot be written or read, or the file is damaged.
        """
        try:
            self._write(position, found)
        except OSError as error:
            raise self._unusable(how="written", error=error) from None
        return self.read(position) or found

    def _write(self, position: int, found: Decisions) -> None:
        os.makedirs(self._folder, exist_ok=True)
        path = self._path(position)
        beside = f"{path}.{secrets.token_hex(4)}.unfinished"
        try:
            with open(beside, "xb") as file:
                file.write(json.dumps(found[ONLY] if found.keys() == {ONLY} else found).encode())
                file.flush()
                os.fsync(file.fileno())
            # fails where the file is there: so it is whole, and never replaced
            os.link(beside, path)
        except FileExistsError:
            pass
        finally:
            with suppress(OSError):
                os.remove(beside)

    def _unusable(self, how: str, error: OSError) -> CheckpointError:
        other = (
            "Pass growth=headrace.GrowthOptions(log=…) with a folder that all shards can read and "
            "write"
        )
        remedy = remedy_for(error, other)
        return CheckpointError(
            f"the log of a growing source, {shorten(self._folder)}, cannot be {how}: "
            f"{error.strerror or error}. {remedy}."
        )

    def _path(self, position: int) -> str:
        return os.path.join(self._folder, f"{position:016}.json")
