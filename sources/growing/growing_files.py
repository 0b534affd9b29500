"""Base class of file sources to which files may be added.

It implements the members for growing sources (`Generations` in `sources/facts.py`). A source
inspects a file once, even if several generations (numbered lists of files) contain it; and again if
the file was modified, or after unpickling.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from ...common.messages import first_few, shorten
from ...errors import NoRecordsError, SourceError, SourceNotFoundError
from ...files.opened import stamp_of
from ...files.paths import PathLike, Paths, find_files
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from ..parts import of_each
from .generation import FileFacts
from .growth import Growth, growth_of
from .places import SETTLED_SECONDS, is_settled

_LOGGER = logging.getLogger("headrace")

_PAUSE_SECONDS = 0.1
"""Seconds between two checks for the first file of a conversion."""

_WRITING_SECONDS = 60.0
"""Seconds since its last change in which an unreadable file may still be being written."""

FoundT = TypeVar("FoundT")


class GrowingFiles(Generic[FoundT]):
    """Base class of sources to which files may be added.

    `FoundT` is the type of the result of `_inspect_file`: facts about one file.
    """

    _beside: ClassVar[tuple[str, ...]] = (".unfinished",)
    """Suffixes of files that headrace writes beside the data. They are not read as data."""
    _settles: bool = True
    """True if an incomplete file may look complete.

    Then a file is read only `SETTLED_SECONDS` after its last modification.
    """

    _growth: Growth | None = None
    _known: dict[str, tuple[FoundT, FileFacts]] | None = None
    """Facts about the files of a growing source that were inspected, by path. Not pickled."""

    def _inspect_file(self, path: str) -> FoundT:
        """Inspect a file, and return what the source needs to know about it.

        Raises:
            SourceError: the file has another format, or is incomplete.
        """
        raise NotImplementedError

    def _inspect_all(self, paths: Sequence[str]) -> list[FoundT]:
        """Call `_inspect_file` for each file of a source that does not grow.

        Return the results in order.
        """
        return of_each(self._inspect_file, paths)

    def _facts(self, found: FoundT) -> FileFacts:
        raise NotImplementedError

    def _check_alike(self, first: FoundT, other: FoundT) -> None:
        """Raise SourceError if two files cannot be in one source, e.g. with different columns.

        Args:
            first: result of `_inspect_file` for the first file.
            other: result of `_inspect_file` for another file.
        """

    def _take(self, paths: Sequence[str]) -> None:
        """Set the source to the files at these paths, with facts from `_inspected(paths)`."""
        raise NotImplementedError

    def _begin(
        self,
        paths: Paths,
        patterns: Sequence[str],
        storage: StorageOptions,
        growing: bool | PathLike,
        generation: int | None,
        kind: Any = None,
    ) -> None:
        """Find the files for the user's arguments, and set the source to them.

        Args:
            paths: paths, globs or folders.
            patterns: patterns of the files that are read from a folder.
            storage: how files in a store are reached.
            growing: the user's `growing=`.
            generation: the user's `generation=`.
            kind: JSON values, such as options of the source, on which the number of records in a
                file depends.

        Raises:
            SourceNotFoundError: a path matches no file.
            SourceError: a file cannot be read, or was modified after it was recorded; or the
                generation does not exist.
            NoRecordsError: there are no records, and no conversion is writing files.
            TypeError, ValueError: an argument has a wrong type or value, as for `growth_of`.
        """
        described = [type(self).__name__, kind]
        growth = growth_of(
            paths, growing, generation, patterns, described, self._beside, storage, self._settles
        )
        if growth is None:
            found = find_files(paths, patterns, storage)
            self._take([path for path in found if not path.endswith(self._beside)])
            return
        self._growth = growth
        if not growth.pinned:
            self._wait_for_first_files(growth)
            growth = growth.at(growth.newest)
        self._take_generation(growth)

    def _inspected(self, paths: Sequence[str]) -> list[FoundT]:
        """Return the result of `_inspect_file` for each file.

        A growing source inspects only new or modified files.
        """
        if self._growth is None:
            return self._inspect_all(paths)
        known = self._known = {} if self._known is None else self._known
        missing = [path for path in dict.fromkeys(paths) if path not in known]
        known.update(zip(missing, of_each(self._inspect_with_facts, missing)))
        return [known[path][0] for path in paths]

    def _inspect_with_facts(self, path: str) -> tuple[FoundT, FileFacts]:
        found = self._inspect_file(path)
        return found, self._facts(found)

    def _facts_of(self, paths: Sequence[str]) -> list[FileFacts]:
        self._inspected(paths)
        return [self._known[path][1] for path in paths] if self._known else []

    def _take_generation(self, growth: Growth) -> None:
        self._growth = growth
        files = growth.files(growth.number)
        self._check_files(growth, growth.number)
        self._take([path for path, _ in files])

    def _check_files(self, growth: Growth, number: int) -> None:
        """Check that the files of a generation are as they were when its list was written.

        Files that were modified since are inspected again.

        Args:
            growth: generations of the source.
            number: number of the generation.

        Raises:
            SourceError: a file was removed, or its content differs from what the list states.
        """
        files = growth.files(number)
        for path, _ in files:
            self._forget_changed(growth, path)
        try:
            facts = self._facts_of([path for path, _ in files])
        except SourceNotFoundError:  # in the meantime
            self._check_files(growth, number)
            return
        for (path, file), found in zip(files, facts):
            growth.check(path, file, found)

    def _forget_changed(self, growth: Growth, path: str) -> None:
        if is_remote(path):
            return
        try:
            stamp = stamp_of(path)
        except FileNotFoundError:
            raise growth.changed(path, "is not there any more") from None
        except OSError as error:
            raise growth.changed(path, f"cannot be found ({shorten(error)})") from error
        known = self._known or {}
        if path in known and known[path][1].stamp != stamp:
            del known[path]

    def _wait_for_first_files(self, growth: Growth) -> None:
        """Find the first files, and record them as the first generation (numbered list of files).

        Wait for files that were modified a moment ago, and for the first file of a conversion,
        which is logged.

        Args:
            growth: generations of the source.

        Raises:
            NoRecordsError: the files contain no records, and no conversion is writing files.
            SourceError: a file cannot be read.
        """
        growth.refresh()
        settled, is_reported = time.monotonic() + 1.5 * SETTLED_SECONDS, False
        while (listing := growth.find_new()).unsettled and time.monotonic() < settled:
            time.sleep(_PAUSE_SECONDS)
        while not self._record_new_files(growth) and growth.newest < 0:
            if listing.complete:
                raise NoRecordsError(
                    f"the files {first_few(growth.selection.paths)} contain no records. Write at "
                    "least one record before the run begins."
                )
            if not is_reported:
                _LOGGER.info(
                    "waiting for the first file of the conversion to %s; if no conversion runs "
                    "there, start the same one again",
                    growth.selection.paths[0],
                )
            is_reported = True
            time.sleep(_PAUSE_SECONDS)
            listing = growth.find_new()

    def _record_new_files(self, growth: Growth) -> bool:
        """Record new files, if there are any, as a generation. Return True if there are new files.

        If another process has recorded a generation meanwhile, that one is used. A first generation
        without records is not recorded; then return False. Once there is a generation, a file that
        cannot be read is left out with a warning, so that a program which begins again does what a
        running one does.

        Args:
            growth: generations of the source.

        Raises:
            SourceError: there is no generation yet, and a file cannot be read that was not just
                modified.
        """
        growth.refresh()
        before = growth.newest
        first = [path for path, file in growth.files(before) if file.records][:1]
        listing = growth.find_new()
        facts = self._new(listing.new, first, strict=before < 0)
        if not facts or (before < 0 and not sum(each.records for _, each in facts)):
            return False
        growth.append(facts, listing.complete)
        return True

    def _new(
        self, paths: Sequence[str], first: Sequence[str], strict: bool
    ) -> list[tuple[str, FileFacts]]:
        """Return `(path, facts)` of each new file that is complete and fits the first file.

        The first file is the first one of the source.

        Args:
            paths: paths of the new files.
            first: path of the first file that has records, or empty.
            strict: True: raise the error of a file that cannot be read, unless it was just
                modified. False: leave the file out, with a warning.
        """
        of_each(lambda path: self._try(path, [], strict), paths)
        facts = []
        for path in paths:
            found = self._try(path, first, strict)
            if found is not None:
                first = first or ([path] if found.records else [])
                facts.append((path, found))
        return facts

    def _try(self, path: str, first: Sequence[str], strict: bool) -> FileFacts | None:
        """Return facts about a new file; None if it is incomplete, has vanished, or does not fit.

        Args:
            path: path of the new file.
            first: path of the first file that has records, with which the file must be compatible;
                or empty.
            strict: True: raise the error of a file that cannot be read, unless it was just
                modified. False: return None, with a warning.
        """
        try:
            (facts,) = self._facts_of([path])
            for other in self._inspected(first):
                self._check_alike(other, *self._inspected([path]))
            if facts.stamp.size and (is_remote(path) or stamp_of(path) == facts.stamp):
                return facts
            assert self._known is not None
            self._known.pop(path, None)
        except FileNotFoundError:
            return None
        except SourceError as error:
            if strict and (is_remote(path) or is_settled(path, _WRITING_SECONDS)):
                raise
            # a handler may keep it: without its frames
            _LOGGER.warning("%s is left out for now: %s", path, str(error))
        return None

    @property
    def growing(self) -> bool:
        """True if files may be added while this source is read.

        False without `growing=`, or if a generation was chosen.
        """
        return self._growth is not None and not self._growth.pinned

    @property
    def generation(self) -> int:
        """Number of the generation (recorded list of files) that this source reads, from 0.

        It is 0 if the source does not grow.
        """
        return 0 if self._growth is None else self._growth.number

    def generation_records(self, generation: int) -> int:
        """Return the number of records in a recorded generation.

        Args:
            generation: number of the generation, from 0.

        Raises:
            SourceError: the generation does not exist, or the source was made without `growing=`.
        """
        return self._grown().generation(generation).records

    def newest_generation(self) -> int:
        """Look for new files, and record them as a generation (numbered list of files).

        Return the number of the last generation.

        Files that are still being written are left for the next call. If a generation was chosen,
        its number is returned.

        Raises:
            SourceError: a file of a generation has shrunk, vanished or been replaced (the message
                names it); or the source was made without `growing=`.
        """
        growth = self._grown()
        if growth.pinned:
            return growth.number
        growth.refresh()
        self._check_files(growth, growth.newest)
        self._record_new_files(growth)
        return growth.newest

    def at_generation(self, generation: int) -> Self:
        """Return the same source with the files of another generation.

        A record has the same key in both.

        Args:
            generation: number of the generation, from 0.

        Raises:
            SourceError: the generation does not exist, a file was modified, or the source was made
                without `growing=`.
        """
        growth = self._grown().at(generation)
        other = copy.copy(self)
        other._known = self._known = {} if self._known is None else self._known
        other._take_generation(growth)
        return other

    @property
    def complete(self) -> bool:
        """False while `headrace.convert` is writing files.

        Always True if the source looks for no new files.
        """
        return self._growth is None or self._growth.pinned or self._growth.complete

    def generation_complete(self, generation: int) -> bool:
        """Return True unless `headrace.convert` was still writing at the time of a generation.

        Args:
            generation: number of the generation, from 0.

        Raises:
            SourceError: the generation does not exist, or the source was made without `growing=`.
        """
        return self._grown().generation(generation).complete

    @property
    def generation_folder(self) -> str | None:
        """Folder of recorded generations.

        It is None if it is missing or not writable, or the source does not grow.
        """
        return None if self._growth is None else self._growth.folder

    def _grown(self) -> Growth:
        if self._growth is None:
            raise SourceError(
                f"{shorten(self)} was made without growing=, so it cannot look for new records, "
                "and has no numbered versions (generations) of its files. Pass growing=True when "
                "you make the source."
            )
        return self._growth
