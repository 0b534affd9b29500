"""Find the files of each generation (numbered list of files) of a growing source, and new files.

New files are added after all known files: files of a conversion in its order, all others in
the order of the user's paths, and within a glob or folder sorted by name. The keys of known records
do not change.
"""

from __future__ import annotations

import copy
import glob
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from ...common.identity.values import digest
from ...common.messages import shorten
from ...common.validation import whole_number
from ...errors import SourceError, SourceNotFoundError
from ...files.paths import PathLike, Paths, expand, file_system_of, path_list, text_of
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from .conversion_folder import finished_shards, folder_of
from .generation import FileFacts, Generation, GrownFile, following
from .log import FOLDER, GenerationLog
from .places import home, is_settled, joined, normal

_UNFINISHED = (
    ".unfinished",
    ".tmp",
    ".temp",
    ".part",
    ".partial",
    ".inprogress",
    ".crdownload",
    ".swp",
    "~",
)
"""Suffixes of files that other programs are still writing."""


class FileSelection(NamedTuple):
    """Files that a source reads, as the user names them.

    Attributes:
        paths: paths, globs and folders.
        patterns: patterns of the files that are read from a folder.
        left_out: suffixes of files that headrace writes beside the data. They are not read as data.
        storage: how files in a store are reached.
        settles: True if an incomplete file may look complete: then a new file is read only a second
            after its last modification.
    """

    paths: tuple[str, ...]
    patterns: tuple[str, ...]
    left_out: tuple[str, ...]
    storage: StorageOptions
    settles: bool


class Listing(NamedTuple):
    """New files that a source found.

    Attributes:
        new: complete files that are in no generation, in the order in which they are added.
        unsettled: True if there are more new files, which were modified a moment ago.
        complete: True if no conversion was running when the search began.
    """

    new: list[str]
    unsettled: bool
    complete: bool


class Growth:
    """Generations (numbered lists of files) of a source, and the number of the one that is read.

    It is picklable.

    Args:
        selection: files that the source reads.
        kind: JSON values, besides the files, on which the numbers of records in files depend.
        folder: folder in which generations are recorded. None: beside the data.
    """

    number: int = -1
    """Number of the generation that is read."""
    pinned: bool = False

    def __init__(self, selection: FileSelection, kind: Any, folder: str | None) -> None:
        self.selection = selection
        homes = [home(path, selection.storage) for path in selection.paths]
        self._home = homes[0]
        self._folders = tuple(dict.fromkeys(homes))
        self._log = GenerationLog(os.path.join(folder or f"{self._home}/{FOLDER}", self._key(kind)))
        self._generations: list[Generation] = []

    def _key(self, kind: Any) -> str:
        """Return a digest of what the source reads: its paths, and `kind`.

        For a list of files, only the first file counts: the list may grow.
        """
        named = [
            os.path.relpath(path, self._home)
            if not is_remote(path)
            else path.removeprefix(self._home)
            for path in self.selection.paths
        ]
        only_files = not any(
            glob.has_magic(path) or path in self._folders for path in self.selection.paths
        )
        return digest([kind, named[:1] if only_files else named], 16)

    def at(self, number: int) -> Self:
        """Return a copy that reads the generation `number`.

        Raises:
            SourceError: the generation does not exist.
        """
        self._check(number)
        other = copy.copy(self)
        other.number, other._generations = number, self._generations
        return other

    def _check(self, number: int) -> None:
        if number >= len(self._generations):
            self.refresh()
        if not 0 <= number < len(self._generations):
            if not self._generations:
                raise SourceError(
                    f"generation={number}: no generation is recorded in "
                    f"{shorten(self._log.folder)}. Pass growing=True in place of generation= to "
                    "record the first one, or restore this folder if it was removed."
                )
            raise SourceError(
                f"generation={number}: the last generation that is recorded in "
                f"{shorten(self._log.folder)} is {self.newest}. Pass a number from 0 to "
                f"{self.newest}, or restore files that were removed from this folder."
            )

    @property
    def newest(self) -> int:
        """Number of the last known generation (numbered list of files); -1 if there is none."""
        return len(self._generations) - 1

    def refresh(self) -> None:
        """Read the generations that other processes recorded."""
        found = [*self._generations]  # another thread may do the same
        while (generation := self._log.read(len(found))) is not None:
            found.append(generation)
        self._generations = found

    def generation(self, number: int) -> Generation:
        self._check(number)
        return self._generations[number]

    def files(self, number: int) -> list[tuple[str, GrownFile]]:
        """Return `(path, description)` of each file in generation `number` and all before it.

        They are in order. There are none for -1.

        Raises:
            SourceError: the generation does not exist.
        """
        if number >= 0:
            self._check(number)
        return [
            (self._path(file.name), file)
            for generation in self._generations[: number + 1]
            for file in generation.files
        ]

    def append(self, facts: Sequence[tuple[str, FileFacts]], complete: bool) -> None:
        """Record new files as a generation, a list of files, unless another process has.

        Afterwards, `newest` is the number of the last recorded generation.

        Args:
            facts: path and facts of each new file.
            complete: False if a conversion is still writing files.

        Raises:
            SourceError: the generation cannot be written.
        """
        files = [
            GrownFile(self._name(path), found.stamp.size, found.records, found.digest)
            for path, found in facts
        ]
        last = self._generations[-1] if self._generations else None
        self._log.add(following(last, tuple(files), complete))
        self.refresh()

    @property
    def complete(self) -> bool:
        """True unless a conversion writes to one of the folders.

        Raise SourceError if its plan cannot be read.
        """
        found = [finished_shards(folder, self.selection.storage) for folder in self._folders]
        return all(each is None or each.is_done for each in found)

    def find_new(self) -> Listing:
        """Find new files; the result also says whether a conversion is running.

        Raises:
            SourceError: a file of a generation does not exist any more.
            SourceNotFoundError: a path matches no file, there is no generation yet, and no
                conversion is running.
        """
        conversions = {
            folder: finished_shards(folder, self.selection.storage) for folder in self._folders
        }
        complete = all(each is None or each.is_done for each in conversions.values())
        there = list(
            dict.fromkeys(
                path for each in self.selection.paths for path in self._expanded(each, complete)
            )
        )
        self._check_there(set(there))
        known = {path for path, _ in self.files(self.newest)}
        finished = [
            joined(folder, name)
            for folder, each in conversions.items()
            if each
            for name in each.names
        ]
        at_work = {
            folder for folder, each in conversions.items() if each is not None and not each.is_done
        }
        new = [path for path in there if path not in known and not path.endswith(_UNFINISHED)]
        wanted, own = set(new), set(finished)
        converted = [path for path in finished if path in wanted]
        others = [path for path in new if path not in own and self._folder_of(path) not in at_work]
        settled = [path for path in others if not self.selection.settles or is_settled(path)]
        return Listing(converted + settled, len(settled) < len(others), complete)

    def _folder_of(self, path: str) -> str:
        """Return the folder of the source that contains the file at `path`.

        If there is none, return the folder of the file.
        """
        return next(
            (folder for folder in self._folders if path.startswith(f"{folder}/")), folder_of(path)
        )

    def _expanded(self, path: str, complete: bool) -> list[str]:
        try:
            found = expand(
                path, file_system_of(path, self.selection.storage), self.selection.patterns
            )
        except SourceNotFoundError as error:
            if complete and self.newest < 0:
                raise SourceNotFoundError(
                    f"a growing source found no file: {error} Or first write a file there, or "
                    "begin a conversion."
                ) from error
            return []
        return [normal(each) for each in found if not each.endswith(self.selection.left_out)]

    def _check_there(self, there: set[str]) -> None:
        for path, _ in self.files(self.newest):
            if path not in there:
                raise self.changed(
                    path, "is not there any more, or not among the paths of the source"
                )

    def changed(self, path: str, how: str) -> SourceError:
        """Return the error for a file that differs from its generation (list of files, sizes).

        Args:
            path: path of the file.
            how: end of the sentence that begins with the path, such as "shrank".
        """
        number = next(
            (
                each.number
                for each in self._generations
                for file in each.files
                if self._path(file.name) == path
            ),
            0,
        )
        return SourceError(
            f"{shorten(path)} {how}, but generation {number} of the growing source contains it, "
            "and files of a generation must not change. Restore the file and its path, and write "
            "new data under new names. Or, to begin a new run without older checkpoints, remove "
            f"the folder {shorten(self._log.folder)}."
        )

    def check(self, path: str, file: GrownFile, found: FileFacts) -> None:
        """Raise SourceError if a file is not as a generation (list of files) describes it.

        Args:
            path: path of the file.
            file: the description of the file in the generation.
            found: present facts about the file.
        """
        if found.records < file.records:
            raise self.changed(path, f"shrank from {file.records} to {found.records} records")
        if (found.stamp.size, found.records, found.digest) != (
            file.size,
            file.records,
            file.digest,
        ):
            sizes = (
                f" ({file.size} → {found.stamp.size} bytes)"
                if found.stamp.size != file.size
                else ""
            )
            raise self.changed(path, f"was replaced or written to{sizes}")

    @property
    def folder(self) -> str | None:
        """Folder in which generations are recorded.

        It is None if it does not exist, or this process cannot write to it.
        """
        return self._log.written

    def _name(self, path: str) -> str:
        if path.startswith(f"{self._home}/"):
            return path[len(self._home) + 1 :]
        return path if is_remote(path) else os.path.relpath(path, self._home)

    def _path(self, name: str) -> str:
        return name if is_remote(name) or os.path.isabs(name) else joined(self._home, name)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_generations": []}  # which are read again where they are asked for


def growth_of(
    paths: Paths,
    growing: bool | PathLike,
    generation: int | None,
    patterns: Sequence[str],
    kind: Any,
    left_out: tuple[str, ...],
    storage: StorageOptions,
    settles: bool,
) -> Growth | None:
    """Return the generations (numbered lists of files) of a source with these arguments.

    Return None if it does not grow.

    Args:
        paths: paths, globs or folders.
        growing: the user's `growing=`.
        generation: the user's `generation=`.
        patterns: patterns of the files that are read from a folder.
        kind: JSON values, besides the files, on which the numbers of records in files depend.
        left_out: suffixes of files that are not read.
        storage: how files in a store are reached.
        settles: True if an incomplete file may look complete: new files are then read only a second
            after their last change.

    Raises:
        TypeError: `growing` is neither a bool nor a path, or `generation` is not an integer.
        ValueError: `generation` is negative; generations would be written to a store; or `growing`
            is the empty string.
        SourceError: the generation does not exist.
    """
    if growing is False and generation is None:
        return None
    if generation is not None:
        generation = whole_number(
            "generation", generation, 0, None, "the number of a generation, such as 0"
        )
    folder = None if isinstance(growing, bool) else text_of(growing)
    if folder == "":
        raise ValueError(
            'growing="" is not a folder. Pass True to write generations beside the data, or the '
            "path of a folder."
        )
    texts = tuple(normal(text_of(path)) for path in path_list(paths))
    if is_remote(folder or texts[0]):
        raise ValueError(
            f"{shorten(folder or texts[0])} is a URL, but the generations of a growing source are "
            "written to a local folder, or to a folder that all machines share. Pass the path of "
            "such a folder as growing=."
        )
    growth = Growth(FileSelection(texts, tuple(patterns), left_out, storage, settles), kind, folder)
    if generation is not None:
        growth = growth.at(generation)
        growth.pinned = True
    return growth
