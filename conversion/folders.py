"""Folders that files appear in when they are whole: of this machine, or in a store. In: names. Out: files."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

from ..common.messages import shorten
from ..errors import ConversionError, SourceNotFoundError
from ..files.opened import stamp_of
from ..files.paths import file_system_of
from ..files.remote.retries import ask
from ..files.storage_options import StorageOptions
from ..files.streams import open_stream
from ..files.urls import is_remote, local_path
from ..files.whole_files import put_whole
from ..sources.parts import of_each

WORKPLACE = ".conversion"
"""What is there only while a conversion is not done."""

_LOCK, _SCRATCH = "lock", "writing-"


class Folder(Protocol):
    """A folder that is written to. Names have `/` between their parts."""

    path: str
    index_dir: str
    """A folder of this machine for indices of input files."""

    def place(self, name: str) -> str:
        """The path of a file."""
        ...

    def size(self, name: str) -> int:
        """The bytes of a file; -1 if there is none."""
        ...

    def read(self, name: str) -> bytes | None:
        """All of a small file; None if there is none."""
        ...

    def digest(self, name: str) -> str:
        """The SHA-256 of a file."""
        ...

    def names_in(self, folder: str) -> list[str]:
        """The base names of the files in a folder of this one, or in itself, ""; sorted."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a small file; it appears when it is whole."""
        ...

    def put(self, path: str, name: str) -> None:
        """Have a file of `scratch` appear under its name."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; it may be gone already."""
        ...

    def scratch(self) -> AbstractContextManager[str]:
        """A folder of this machine for files that are being written; it is gone afterwards."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """No other process converts to this folder, as far as that can be told."""
        ...

    def clean(self) -> None:
        """Remove what is there only while a conversion is not done."""
        ...

    def undo(self) -> None:
        """Remove what a conversion left that made no file."""
        ...


def folder_at(path: str, storage: StorageOptions) -> Folder:
    """The folder of a path or URL."""
    return StoreFolder(path.rstrip("/"), storage) if is_remote(path) else LocalFolder(os.path.abspath(local_path(path)))


class LocalFolder:
    """On this machine; `Folder` says what it does."""

    def __init__(self, path: str) -> None:
        _check_folder(path)
        self.path = path
        self._work = os.path.join(path, WORKPLACE)
        self.index_dir = os.path.join(self._work, "indices")

    def place(self, name: str) -> str:
        return os.path.join(self.path, *name.split("/"))

    def size(self, name: str) -> int:
        try:
            return os.path.getsize(self.place(name))
        except (FileNotFoundError, NotADirectoryError):
            return -1

    def read(self, name: str) -> bytes | None:
        try:
            with open(self.place(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def digest(self, name: str) -> str:
        return digest_of(self.place(name))

    def names_in(self, folder: str) -> list[str]:
        """None for a folder that is not there."""
        try:
            return sorted(entry.name for entry in os.scandir(self.place(folder)) if entry.is_file())
        except FileNotFoundError:
            return []

    def write(self, name: str, data: bytes) -> None:
        with self.scratch() as folder:
            path = os.path.join(folder, "data")
            with open(path, "wb") as file:
                file.write(data)
            self.put(path, name)

    def put(self, path: str, name: str) -> None:
        put_whole(path, self.place(name))

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.remove(self.place(name))

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """In the folder itself, as only there a file can get a name at once."""
        folder = os.path.join(self._work, _SCRATCH + secrets.token_hex(8))
        os.makedirs(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """By a lock that goes with its process; what killed ones were writing is removed."""
        lock = self._opened_lock()
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConversionError(
                    f"another process converts to {shorten(self.path)} now; wait for it, or pass another target."
                ) from None
            self._clear()
            try:
                yield
            finally:
                self._clear()
        finally:
            os.close(lock)

    def _opened_lock(self) -> int:
        try:
            os.makedirs(self._work, exist_ok=True)
            return os.open(os.path.join(self._work, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        except OSError as error:
            raise _not_writable(self.path, error) from error

    def _clear(self) -> None:
        with suppress(FileNotFoundError):
            for name in os.listdir(self._work):
                if name.startswith(_SCRATCH):
                    shutil.rmtree(os.path.join(self._work, name), ignore_errors=True)

    def clean(self) -> None:
        shutil.rmtree(self._work, ignore_errors=True)

    def undo(self) -> None:
        """The folder itself goes, too, if it is empty."""
        self.clean()
        with suppress(OSError):
            os.rmdir(self.path)


class StoreFolder:
    """In a store, where a file appears when all of it was sent; `Folder` says what it does. There are no locks."""

    def __init__(self, path: str, storage: StorageOptions) -> None:
        self.path, self._storage = path, storage
        self.index_dir = os.path.join(storage.cache_dir, "indices")

    def place(self, name: str) -> str:
        return f"{self.path}/{name}" if name else self.path

    def size(self, name: str) -> int:
        try:
            return stamp_of(self.place(name), self._storage).size
        except SourceNotFoundError:
            return -1

    def read(self, name: str) -> bytes | None:
        try:
            with open_stream(self.place(name), None, self._storage) as stream:
                return stream.read()
        except SourceNotFoundError:
            return None

    def digest(self, name: str) -> str:
        """All of it is brought here for that."""
        digest = hashlib.sha256()
        with open_stream(self.place(name), None, self._storage) as stream:
            while data := stream.read(1 << 20):
                digest.update(data)
        return digest.hexdigest()

    def names_in(self, folder: str) -> list[str]:
        return sorted(file_system_of(self.path, self._storage).names_in(self.place(folder)))

    def write(self, name: str, data: bytes) -> None:
        ask(self.place(name), self._storage, lambda store, key: store.put_bytes(key, data))

    def put(self, path: str, name: str) -> None:
        ask(self.place(name), self._storage, lambda store, key: store.put_file(key, path))

    def remove(self, name: str) -> None:
        ask(self.place(name), self._storage, lambda store, key: store.remove(key))

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """In the system's folder for temporary files, which must have room for the shards that are being written."""
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            yield folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nothing is locked: two that convert the same write the same bytes."""
        yield

    def clean(self) -> None:
        of_each(lambda name: self.remove(f"{WORKPLACE}/{name}"), self.names_in(WORKPLACE))

    def undo(self) -> None:
        self.clean()


def digest_of(path: str) -> str:
    """The SHA-256 of a file of this machine."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_folder(path: str) -> None:
    """A folder may be there, or nothing yet."""
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _not_writable(path, error) from error
    if not is_folder:
        raise ConversionError(f"{shorten(path)} is no folder; pass one as the target, or a new name.")


def _not_writable(path: str, error: OSError) -> ConversionError:
    return ConversionError(
        f"the folder {shorten(path)} cannot be made, or not be written to: {shorten(error)}; pass a target where you may write."
    )
