"""The folder that a conversion writes to. In: finished files. Out: the same under their names, whole, with receipts.

    TARGET/train-0.array_record …      shards appear here when they are whole
    TARGET/manifest.json               appears last: the conversion is done
    TARGET/.conversion/                while it is not: plan.json, a receipt for each shard that is done, files being written

A shard's files get their names first, and then its receipt is written. So one that was killed between the two is converted
again, to the same bytes. All may be done twice at the same time, as Beam does: files are written in folders of random names.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from ..errors import ConversionError
from ..files.streams import written_whole
from ..wording import brief
from .job import Receipt, WrittenFile

MANIFEST = "manifest.json"
_WORKPLACE, _PLAN, _LOCK, _WRITING = ".conversion", "plan.json", "lock", "writing-"


class Target:
    """A folder, by its path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.path, *name.split("/"))

    @property
    def index_dir(self) -> str:
        """Where indices of input files are kept while they are read."""
        return self._work("indices")

    def manifest(self) -> dict[str, Any] | None:
        """What `manifest.json` says, if there is one.

        Raises:
            ConversionError: it cannot be read.
        """
        return _read(self.file(MANIFEST))

    def plan(self) -> dict[str, Any] | None:
        """The plan of a conversion that is not done, if there is one."""
        return _read(self._work(_PLAN))

    def receipts(self) -> dict[str, Receipt]:
        """Of the shards that are done, if their files are there."""
        found = {}
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._work())):
                if name.startswith("receipt-") and name.endswith(".json"):
                    receipt = Receipt.from_json(_read(self._work(name)))
                    found[receipt.name] = receipt
        return {name: receipt for name, receipt in found.items() if self.holds(receipt)}

    def has_any(self, shards: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a file of a kept plan is there; its receipt may not be."""
        return any(os.path.lexists(self.file(shard["name"])) for shard in shards)

    def holds(self, receipt: Receipt) -> bool:
        """Whether the files of a receipt are there, by their sizes."""
        return all(_size(self.file(file.name)) == file.bytes for file in receipt.files)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other process converts to this folder; what killed ones were writing is removed.

        Raises:
            ConversionError: another process does.
        """
        os.makedirs(self._work(), exist_ok=True)
        lock = os.open(self._work(_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConversionError(
                    f"another process converts to {brief(self.path)} now; wait for it, or pass another target."
                ) from None
            self._clear()
            yield
        finally:
            self._clear()
            os.close(lock)

    def _clear(self) -> None:
        """Remove what nobody writes any more."""
        with suppress(FileNotFoundError):
            for name in os.listdir(self._work()):
                if name.startswith(_WRITING):
                    shutil.rmtree(self._work(name), ignore_errors=True)

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan."""
        self._write(self._work(_PLAN), plan)

    def end(self, manifest: Mapping[str, Any]) -> None:
        """All shards are there: the manifest appears, and what was only for the way goes."""
        self._write(self._work(MANIFEST), manifest)
        os.replace(self._work(MANIFEST), self.file(MANIFEST))
        _sync_folder(self.path)
        self.clean()

    def clean(self) -> None:
        """Remove what was only for the way."""
        shutil.rmtree(self._work(), ignore_errors=True)

    @contextmanager
    def writing(self) -> Iterator[str]:
        """A folder for the files of one shard while they are written; it is gone afterwards."""
        folder = self._work(_WRITING + secrets.token_hex(8))
        os.makedirs(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, folder: str, files: Sequence[str], receipt: Receipt) -> Receipt:
        """Give whole files their names, in this order, and write their receipt.

        Args:
            folder: where they were written, under the last parts of their names.
            files: their names in the target.
            receipt: what it is to say, without the files.
        """
        written = tuple(_on_disk(os.path.join(folder, os.path.basename(file)), file) for file in files)
        for file in files:
            path = self.file(file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.replace(os.path.join(folder, os.path.basename(file)), path)
            _sync_folder(os.path.dirname(path))
        receipt = replace(receipt, files=written)
        self._write(
            self._work(f"receipt-{hashlib.sha256(receipt.name.encode()).hexdigest()[:32]}.json"), receipt.to_json()
        )
        return receipt

    def _work(self, name: str = "") -> str:
        return os.path.join(self.path, _WORKPLACE, name)

    def _write(self, path: str, values: Mapping[str, Any]) -> None:
        with written_whole(path) as file:
            file.write(json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n")


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ConversionError(f"{brief(path)} cannot be read: {brief(error)}; remove it, and convert anew.") from error


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return -1


def _on_disk(path: str, name: str) -> WrittenFile:
    """A file that was written, once all of it is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return WrittenFile(name, os.path.getsize(path), digest_of(path))


def digest_of(path: str) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
