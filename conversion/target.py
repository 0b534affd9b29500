"""Target folder of a conversion: its files, receipts, plan and manifest.

    TARGET/train-0.array_record …      shards, when they are complete
    TARGET/manifest.json               appears last: the conversion is done
    TARGET/.conversion/                during it: plan.json, receipts of shards, unfinished files

The files of a shard are renamed before its receipt is written. If the process is killed in between,
the shard is converted again, to the same bytes. A shard may be converted twice at the same time, as
Beam does.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from ..common.messages import shorten
from ..errors import ConversionError, HeadraceError
from ..files.descriptors import TO_CHANGE, lock
from ..files.opened import stamp_of
from ..files.paths import file_system_of
from ..files.remote.store import ask
from ..files.storage_options import StorageOptions, storage_options_of
from ..files.streams import open_stream
from ..files.urls import is_remote, local_path
from ..files.whole_files import put_whole
from ..sources.growing.conversion_folder import MANIFEST, PLAN, RECEIPT, WORKPLACE, receipt_name
from ..sources.omission.rewritten import FormerSource
from ..sources.parts import of_each
from .job import InputPart, Receipt, WrittenFile, check_names

ReadT = TypeVar("ReadT")

_SCRATCH = "writing-"


def target_at(path: str, storage: StorageOptions | None = None) -> Target:
    """Return the target at a path or URL.

    Raises:
        ConversionError: the path is a file, or this process may not look it up.
    """
    options = storage or storage_options_of(None)
    return StoreTarget(path, options) if is_remote(path) else LocalTarget(path, options)


class Target(ABC):
    """Target folder of a conversion. Names of files in it use `/` between folders.

    Attributes:
        path: path or URL of the folder.
        index_dir: local folder for indices of input files.
    """

    path: str
    index_dir: str
    _storage: StorageOptions

    @abstractmethod
    def opened(self, name: str) -> io.BufferedReader[Any]:
        """Open a file for reading.

        Raises:
            FileNotFoundError: the file does not exist.
        """

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a small file. It appears when it is complete."""

    @abstractmethod
    def put(self, path: str, name: str) -> None:
        """Move or upload a file from the folder of `scratch` to a name in the target."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file. It may be missing."""

    @abstractmethod
    def scratch(self) -> AbstractContextManager[str]:
        """Yield a local folder for files that are being written; it is removed afterwards."""

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Prevent other processes from converting to this folder, if the storage has locks."""

    @abstractmethod
    def clean(self) -> None:
        """Remove the files that are only needed during a conversion."""

    def undo(self) -> None:
        """Remove all traces of a conversion that wrote no file."""
        self.clean()

    def place(self, name: str) -> str:
        """Return the path or URL of the file with this name in the target."""
        return os.path.join(self.path, name)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, or -1 if it does not exist."""
        try:
            return stamp_of(self.place(name), self._storage).size
        except (FileNotFoundError, NotADirectoryError):
            return -1

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a file in hexadecimal. A remote file is downloaded for it."""
        with self.opened(name) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def names_in(self, folder: str) -> list[str]:
        """Return the sorted names of the files in a subfolder; "" is the target folder itself."""
        try:
            return sorted(file_system_of(self.path, self._storage).names_in(self.place(folder)))
        except FileNotFoundError:
            return []

    def manifest(self) -> dict[str, Any] | None:
        """Return the content of `manifest.json`, or None if it does not exist.

        Raises:
            ConversionError: it cannot be read.
        """
        return self._read(MANIFEST, dict)

    def plan(self) -> dict[str, Any] | None:
        """Return the plan of an unfinished conversion, or None if there is none."""
        return self._read(PLAN, _plan_of)

    def receipts(self) -> dict[str, Receipt]:
        """Return the receipts of all complete shards, by the names of the shards.

        A shard is complete if its files exist with the sizes in its receipt.
        """
        found = of_each(lambda name: self._read(name, Receipt.from_json), self._receipt_names())
        return self.held([receipt for receipt in found if receipt is not None])

    def _receipt_names(self) -> list[str]:
        names = self.names_in(WORKPLACE)
        return [f"{WORKPLACE}/{name}" for name in names if name.startswith(RECEIPT)]

    def held(self, receipts: Sequence[Receipt]) -> dict[str, Receipt]:
        """Return the receipts whose files exist with the stated sizes, by the names of shards."""
        found = of_each(
            lambda each: all(self.size(file.name) == file.bytes for file in each.files), receipts
        )
        return {receipt.name: receipt for receipt, is_there in zip(receipts, found) if is_there}

    def there(self, names: Sequence[str]) -> list[str]:
        """Return the names that exist as files in the target."""
        return [name for name, size in zip(names, of_each(self.size, names)) if size >= 0]

    def forget(self) -> None:
        for name in self._receipt_names():
            self.remove(name)

    def keep(self, plan: Mapping[str, Any]) -> None:
        """Store the plan of an unfinished conversion."""
        self._write(PLAN, plan)

    def keep_omitted(self, former: Sequence[FormerSource]) -> tuple[dict[str, Any], ...]:
        """Write the files of omitted keys, and return the entries about them for the manifest."""
        entries = []
        for number, source in enumerate(former):
            entry, name, data = source.to_files(number)
            with self.writes(name):
                self.write(name, data)
            entries.append(entry)
        return tuple(entries)

    def end(self, manifest: Mapping[str, Any]) -> None:
        self._write(MANIFEST, manifest)
        self.clean()

    def publish(self, folder: str, files: Sequence[str], receipt: Receipt) -> None:
        """Move the complete files of a shard to their names, in order, and write its receipt.

        Args:
            folder: folder that contains the files, under their base names.
            files: their names in the target.
            receipt: receipt, still without the list of files.
        """
        paths = [os.path.join(folder, os.path.basename(file)) for file in files]
        written = [
            WrittenFile(file, os.path.getsize(path), _digest_of(path))
            for file, path in zip(files, paths)
        ]
        for file, path in zip(files, paths):
            self.put(path, file)
        complete = replace(receipt, files=tuple(written))
        self._write(f"{WORKPLACE}/{receipt_name(receipt.name)}", complete.to_json())

    @contextmanager
    def writes(self, name: str) -> Iterator[None]:
        """Context manager that makes a ConversionError of system errors.

        Raises:
            ConversionError: the file cannot be written. It names the file and the remedy.
        """
        try:
            yield
        except HeadraceError:
            raise
        except OSError as error:
            raise ConversionError(
                f"{shorten(self.place(name))} cannot be written: {shorten(error)}. Correct this, "
                "and run the same conversion again. Finished shards are kept."
            ) from error

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        with self.writes(name):
            self.write(name, json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n")

    def _read(self, name: str, parse: Callable[[Any], ReadT]) -> ReadT | None:
        remedy = (
            f"Remove the folder {shorten(self.path)}, and convert again, or pass another target."
        )
        if name.startswith(f"{WORKPLACE}/{RECEIPT}"):
            remedy = "Remove it, and convert again."  # only its shard is written again
        try:
            with self.opened(name) as file:
                return parse(json.loads(file.read()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            if isinstance(error, OSError):
                remedy = "Correct this, or pass another target."
            raise ConversionError(
                f"{shorten(self.place(name))} cannot be read: {shorten(error)}. {remedy}"
            ) from error


class LocalTarget(Target):
    """Target folder on this machine."""

    def __init__(self, path: str, storage: StorageOptions) -> None:
        self.path, self._storage = os.path.abspath(local_path(path)), storage
        self.index_dir = self.place(f"{WORKPLACE}/indices")
        try:
            is_folder = stat.S_ISDIR(os.stat(self.path).st_mode)
        except FileNotFoundError:  # nothing yet
            return
        except OSError as error:
            raise self._not_writable(error) from error
        if not is_folder:
            raise ConversionError(
                f"the target {shorten(self.path)} exists and is not a folder. Pass a folder, or a "
                "name that does not exist yet."
            )

    def opened(self, name: str) -> io.BufferedReader[Any]:
        return open(self.place(name), "rb")

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
        """Yield a folder inside the target; files can only be renamed within one file system."""
        folder = self.place(f"{WORKPLACE}/{_SCRATCH}{secrets.token_hex(8)}")
        os.makedirs(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock, and remove unfinished files that killed processes left.

        The lock ends with the process.

        Raises:
            ConversionError: another process converts to this folder, or the folder cannot be
                written.
        """
        try:
            os.makedirs(self.place(WORKPLACE), exist_ok=True)
            file = os.open(self.place(f"{WORKPLACE}/lock"), TO_CHANGE)
        except OSError as error:
            raise self._not_writable(error) from error
        try:
            if not lock(file, wait=False):
                raise ConversionError(
                    f"another process is converting to {shorten(self.path)}. Wait until it is "
                    "done, or pass another target."
                )
            self._clear()
            try:
                yield
            finally:
                self._clear()
        finally:
            os.close(file)

    def _clear(self) -> None:
        with suppress(FileNotFoundError):
            for name in os.listdir(self.place(WORKPLACE)):
                if name.startswith(_SCRATCH):
                    shutil.rmtree(self.place(f"{WORKPLACE}/{name}"), ignore_errors=True)

    def clean(self) -> None:
        shutil.rmtree(self.place(WORKPLACE), ignore_errors=True)

    def undo(self) -> None:
        """Remove all traces of a conversion that wrote no file, and the folder if it is empty."""
        self.clean()
        with suppress(OSError):
            os.rmdir(self.path)

    def _not_writable(self, error: OSError) -> ConversionError:
        return ConversionError(
            f"the target folder {shorten(self.path)} cannot be created or written to: "
            f"{shorten(error.strerror or error)}. Pass a target in a folder that you may write to."
        )


class StoreTarget(Target):
    """Target folder in a store. A file appears when all of it was sent. There are no locks."""

    def __init__(self, path: str, storage: StorageOptions) -> None:
        self.path, self._storage = path.rstrip("/"), storage
        self.index_dir = os.path.join(storage.cache_dir, "indices")

    def opened(self, name: str) -> io.BufferedReader[Any]:
        return open_stream(self.place(name), None, self._storage)

    def write(self, name: str, data: bytes) -> None:
        ask(self.place(name), self._storage, lambda store, key: store.put(key, data))

    def put(self, path: str, name: str) -> None:
        ask(self.place(name), self._storage, lambda store, key: store.put(key, Path(path)))

    def remove(self, name: str) -> None:
        ask(self.place(name), self._storage, lambda store, key: store.remove(key))

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """Yield a temporary folder of the system.

        It must have space for the shards that are being written.
        """
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            yield folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: two processes that convert the same shard write the same bytes."""
        yield

    def clean(self) -> None:
        of_each(lambda name: self.remove(f"{WORKPLACE}/{name}"), self.names_in(WORKPLACE))


def _digest_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plan_of(values: Any) -> dict[str, Any]:
    """Check that `values` are the values of a stored plan, and return them.

    Raises:
        ValueError, TypeError, LookupError: the values are not a plan.
    """
    check_names([str(shard["name"]) for shard in values["shards"]])
    shards = [
        {
            "name": str(shard["name"]),
            "parts": [asdict(InputPart(**part)) for part in shard["parts"]],
        }
        for shard in values["shards"]
    ]
    return {
        "identity": {part: dict(values["identity"][part]) for part in ("source", "options")},
        "shards": shards,
    }
