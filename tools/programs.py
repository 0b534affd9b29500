"""Run a user's program, given as PROGRAM.py or PROGRAM.py:name, and find the loader in it."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from ..chains.iter_dataset import IterDataset
from ..chains.map_dataset import MapDataset
from ..common.messages import a_kind_of, first_few, remedy_for, short_repr, shorten
from ..common.redaction import notes_of
from ..errors import ProgramError
from ..loader.data_loader import DataLoader
from ..loader.device.description import DeviceLoader
from ..loader.device.hosts.across import HostLoader
from ..loader.timing.listeners import listening

_NAME_A_LOADER = "Name a function without arguments that returns one"


class FirstLoop(BaseException):
    """Raised in a user's program to stop it before its first loop.

    `except Exception` in the program does not catch it.
    """


LOADERS = (DataLoader, MapDataset, IterDataset, DeviceLoader, HostLoader)


@dataclass(frozen=True)
class Program:
    """A Python file, optionally with the name of a loader in it, or of a function that makes one.

    Attributes:
        path: path of the file.
        name: the name; None if none was given.
    """

    path: Path
    name: str | None = None

    @classmethod
    def parsed(cls, text: str) -> Program:
        """Parse `PROGRAM.py` or `PROGRAM.py:name`.

        >>> Program.parsed("examples/train.py:loader")
        Program(path=PosixPath('examples/train.py'), name='loader')
        """
        file, colon, name = text.rpartition(":")
        return cls(Path(file), name) if colon and name.isidentifier() else cls(Path(text))

    @contextmanager
    def loader(self, arguments: Sequence[str] = ()) -> Iterator[Any]:
        """Return a context with the loader that the program defines.

        The program's module exists inside the context.

        Code under `if __name__ == "__main__"` is not run.

        Args:
            arguments: command line arguments of the program.

        Raises:
            ProgramError: the program cannot be read, fails, or has no such loader; or, without a
                name, several.
        """
        with self.run(self.path.stem, arguments) as names:
            yield self._found(names)

    @contextmanager
    def run(self, module: str, arguments: Sequence[str] = ()) -> Iterator[Mapping[str, Any]]:
        """Run the program, and return a context with the names that it defines.

        Args:
            module: name of its module. As `__main__`, it runs everything that it would run in a
                shell.
            arguments: its command line arguments.

        Raises:
            ProgramError: the file cannot be read, or the program fails.
        """
        with as_module(self.path, module, arguments) as own:
            self.execute(own)
            yield vars(own)

    @contextmanager
    def first_loop(self, arguments: Sequence[str]) -> Iterator[Any]:
        """Run the program as in a shell up to its first loop.

        Return a context with the loop's iterator or feeder.

        The iterator is closed at the end of the context.

        Args:
            arguments: command line arguments of the program.

        Raises:
            ProgramError: the program fails before, or has no loop over a loader.
        """
        loops: list[Any] = []

        def begins(loop: Any) -> None:
            loops.append(loop)
            raise FirstLoop

        try:
            with listening(begins), self.run("__main__", arguments):
                pass
        except (FirstLoop, ProgramError):
            if not loops:
                raise
        if not loops:
            raise ProgramError(
                f"{self.path} ended without taking a batch from a loader of headrace. Leave --run "
                "out, and name a loader of the program, or a function that returns one: "
                f"{self.path}:name."
            )
        try:
            yield loops[0]
        finally:
            loops[0].close()

    def execute(self, own: ModuleType) -> None:
        """Run the program in a module that was made for it.

        Args:
            own: the module, which is empty.

        Raises:
            ProgramError: the file cannot be read, or the program fails.
        """
        with program_errors(self.path):
            try:
                code = compile(self.path.read_bytes(), str(self.path), "exec", dont_inherit=True)
            except FileNotFoundError:
                raise ProgramError(
                    f"there is no file {self.path}. Pass the path of a program, PROGRAM.py, or "
                    "PROGRAM.py:name."
                ) from None
            except OSError as error:
                remedy = remedy_for(error, "Pass the path of a Python file that you may read")
                raise ProgramError(
                    f"{self.path} cannot be read: {error.strerror or error}. {remedy}."
                ) from error
            exec(code, vars(own))

    def _found(self, names: Mapping[str, Any]) -> Any:
        known = loaders_in(names)
        advice = f"Name one of its loaders, {first_few(known, 8)}" if known else _NAME_A_LOADER
        remedy = f"{advice}: {self.path}:{known[-1] if known else 'name'}."
        if self.name is None:
            if len(known) != 1:
                raise ProgramError(
                    f"{self.path} has {len(known) or 'no'} loaders at its top level. {remedy}"
                )
            return names[known[0]]
        if self.name not in names:
            raise ProgramError(f"{self.path} has no name {self.name} at its top level. {remedy}")
        found, verb = names[self.name], "is"
        if callable(found) and not isinstance(found, LOADERS):
            with suppress(ValueError):  # it does not tell what it takes
                try:
                    inspect.signature(found).bind()
                except TypeError as error:
                    raise ProgramError(
                        f"{self.path}:{self.name} needs arguments ({shorten(error)}). Name a "
                        "loader, or a function without arguments that returns one."
                    ) from None
            with program_errors(self.path):
                found, verb = found(), "returns"
        if not isinstance(found, LOADERS):
            raise ProgramError(
                f"{self.path}:{self.name} {verb} {a_kind_of(found)}, which is not a loader. "
                f"{remedy}"
            )
        return found


def loaders_in(names: Mapping[str, Any]) -> list[str]:
    """Return the names of all loaders in a dict from names to values.

    A loader with several names is listed once.
    """
    found: dict[int, str] = {}
    for name, value in names.items():
        if isinstance(value, LOADERS):
            found.setdefault(id(value), name)
    return list(found.values())


@contextmanager
def as_module(path: Path, name: str, arguments: Sequence[str]) -> Iterator[ModuleType]:
    """Return a context with an empty module for a program.

    In it `sys.argv` and `sys.path` are as in a shell.

    Worker processes receive the module's definitions by value, as for every program.

    Args:
        path: path of the program.
        name: name of the module.
        arguments: command line arguments of the program.
    """
    own = ModuleType(name)
    own.__file__ = str(path)
    before = sys.argv, sys.path[:], sys.modules.get(name)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = own
    # of another program of this name, which is there, too
    known = name in cloudpickle.list_registry_pickle_by_value()
    cloudpickle.register_pickle_by_value(own)
    try:
        yield own
    finally:
        if not known:
            cloudpickle.unregister_pickle_by_value(own)
        sys.argv, sys.path[:], module = before
        sys.modules.pop(name) if module is None else sys.modules.__setitem__(name, module)


@contextmanager
def program_errors(path: Path) -> Iterator[None]:
    """Return a context in which an exception of the program at `path` becomes an error.

    The error names the program's line, if it is known.

    If the program exits with status 0, the context ends without an error.

    Raises:
        ProgramError: the program raised an exception, or exited with a status other than 0.
    """
    try:
        yield
    except ProgramError:
        raise
    except SystemExit as end:
        if end.code not in (None, 0):
            exit_status = (
                f"the exit status {end.code}" if isinstance(end.code, int) else short_repr(end.code)
            )
            raise ProgramError(
                f"run {path} by itself first, because it ends with {exit_status}."
            ) from end
    except Exception as error:
        lines = [
            each.lineno
            for each in traceback.extract_tb(error.__traceback__)
            if each.filename == str(path)
        ]
        at_line = f" at line {lines[-1]}" if lines else ""
        # where in the pipeline it was
        ours = [note for note in notes_of(error) if note.startswith(_OURS)]
        in_operation = "".join(f" ({note.removeprefix(_OURS).rstrip('.')})" for note in ours[:1])
        raise ProgramError(
            f"run {path} by itself first, because it fails{at_line}: {type(error).__name__}: "
            f"{shorten(error)}{in_operation}."
        ) from error


_OURS = "headrace: "
