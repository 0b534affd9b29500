"""The folder that a conversion writes to. In: finished files. Out: the same under their names, with receipts.

    TARGET/train-0.array_record …      shards appear here when they are whole
    TARGET/manifest.json               appears last: the conversion is done
    TARGET/.conversion/                while it is not: plan.json, a receipt for each shard that is done, files being written

A shard's files get their names first, and then its receipt is written. So one that was killed between the two is converted
again, to the same bytes. All may be done twice at the same time, as Beam does.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, TypeVar

from ..common.messages import shorten
from ..errors import ConversionError, HeadraceError
from ..files.storage_options import StorageOptions, storage_options_of
from ..sources.parts import of_each
from .folders import WORKPLACE, Folder, digest_of, folder_at
from .job import InputPart, Receipt, WrittenFile, check_names

ReadT = TypeVar("ReadT")

MANIFEST = "manifest.json"
_PLAN = f"{WORKPLACE}/plan.json"


class Target:
    """A folder, by its path or URL.

    Attributes:
        folder: the files in it.
    """

    folder: Folder

    def __init__(self, path: str, storage: StorageOptions | None = None) -> None:
        self.folder = folder_at(path, storage or storage_options_of(None))
        self.path = self.folder.path

    def manifest(self) -> dict[str, Any] | None:
        """The content of `manifest.json`, if there is one.

        Raises:
            ConversionError: it cannot be read.
        """
        return self._read(MANIFEST, dict)

    def plan(self) -> dict[str, Any] | None:
        """The plan of a conversion that is not done, if there is one."""
        return self._read(_PLAN, _plan_of)

    def receipts(self) -> dict[str, Receipt]:
        """The receipts of shards that are done and whose files are there."""
        told = of_each(lambda name: self._read(name, Receipt.from_json), self._receipt_names())
        return self.held([receipt for receipt in told if receipt is not None])

    def _receipt_names(self) -> list[str]:
        names = self.folder.names_in(WORKPLACE)
        return [f"{WORKPLACE}/{name}" for name in names if name.startswith("receipt-")]

    def held(self, receipts: Sequence[Receipt]) -> dict[str, Receipt]:
        """Those whose files are there, by their sizes."""
        found = of_each(self._holds, receipts)
        return {receipt.name: receipt for receipt, is_there in zip(receipts, found) if is_there}

    def _holds(self, receipt: Receipt) -> bool:
        return all(self.folder.size(file.name) == file.bytes for file in receipt.files)

    def there(self, names: Sequence[str]) -> list[str]:
        """Those of some files that are there."""
        return [name for name, size in zip(names, of_each(self.folder.size, names)) if size >= 0]

    def forget(self) -> None:
        for name in self._receipt_names():
            self.folder.remove(name)

    def keep(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan of a conversion that is not done."""
        self._write(_PLAN, plan)

    def end(self, manifest: Mapping[str, Any]) -> None:
        self._write(MANIFEST, manifest)
        self.folder.clean()

    def publish(self, folder: str, files: Sequence[str], receipt: Receipt) -> Receipt:
        """Give whole files their names, in this order, and write their receipt.

        Args:
            folder: where they were written, under the last parts of their names.
            files: their names in the target.
            receipt: what it is to say, without the files.
        """
        paths = [os.path.join(folder, os.path.basename(file)) for file in files]
        written = [WrittenFile(file, os.path.getsize(path), digest_of(path)) for file, path in zip(files, paths)]
        for file, path in zip(files, paths):
            self.folder.put(path, file)
        receipt = replace(receipt, files=tuple(written))
        name = hashlib.sha256(receipt.name.encode()).hexdigest()[:32]
        self._write(f"{WORKPLACE}/receipt-{name}.json", receipt.to_json())
        return receipt

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        with writes_to(self, name):
            self.folder.write(name, json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n")

    def _read(self, name: str, parse: Callable[[Any], ReadT]) -> ReadT | None:
        try:
            data = self.folder.read(name)
            return None if data is None else parse(json.loads(data))
        except OSError as error:
            raise ConversionError(
                f"{shorten(self.folder.place(name))} cannot be read: {shorten(error)}; mend that, or pass another target."
            ) from error
        except (ValueError, TypeError, KeyError) as error:
            raise ConversionError(
                f"{shorten(self.folder.place(name))} cannot be read: {shorten(error)}; remove it, and convert anew."
            ) from error


def _plan_of(values: Any) -> dict[str, Any]:
    """The plan that these plain values are; raises as Python does if they are none."""
    check_names([str(shard["name"]) for shard in values["shards"]])
    shards = [
        {"name": str(shard["name"]), "parts": [asdict(InputPart(**part)) for part in shard["parts"]]}
        for shard in values["shards"]
    ]
    identity = {part: dict(values["identity"][part]) for part in ("source", "options")}
    return {"identity": identity, "shards": shards}


@contextmanager
def writes_to(target: Target, name: str) -> Iterator[None]:
    """Turn errors of the system while a file is written into one that names the file, and what to do.

    Raises:
        ConversionError: it cannot be written.
    """
    try:
        yield
    except HeadraceError:
        raise
    except OSError as error:
        raise ConversionError(
            f"{shorten(target.folder.place(name))} cannot be written: {shorten(error)}. Nothing of it is left, and what was "
            "whole stays: run the same again when that is mended."
        ) from error
