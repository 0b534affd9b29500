"""Source of the examples of a prepared TFDS dataset, decoded to NumPy arrays by its features.

The result of `tfds.data_source(...)` is a source, too; `TfdsDataSource` is a shorter way to write
it. It reads ArrayRecord files through `ArrayRecordDataSource`. A dataset that is not prepared is
not downloaded.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsIndex

from ..common.lazy_exports import optional_library
from ..common.messages import first_few, short_repr, shorten
from ..errors import SourceError
from ..files.opened import open_file
from ..files.paths import file_system_of, text_of
from ..files.storage_options import StorageOptions, StorageOptionsLike, storage_options_of
from ..files.urls import is_remote, stays_inside
from .array_record.source import ArrayRecordDataSource
from .facts import SourceFacts
from .keys import Keys, check_key, check_keys
from .provenance import FilePlace

_DATA = re.compile(r"-\d{5,}-of-\d{5,}")
"""Pattern in the names of files that contain examples, such as "-00000-of-00008"."""


class TfdsDataSource:
    """Examples of one split of a TFDS dataset that is prepared on disk.

    Thread-safe, picklable, safe to fork.

    Args:
        name: name of the dataset, as in `tfds.data_source`: `"mnist"`, `"my_data/config:1.0.0"`.
        split: a split or a part of one: `"train"`, `"train[:80%]"`.
        data_dir: folder or URL (`s3://…`) of the datasets. Default: `$TFDS_DATA_DIR`, or TFDS's own
            folder.
        decoders: decoders for features that are not decoded as usual, such as
            `tfds.decode.SkipDecoding()`.
        storage_options: how files in a store are reached and cached; see
            `docs/how-to/remote-files.md`.

    Raises:
        SourceError: the dataset or split does not exist, or is not prepared in a format with random
            access.
        TypeError: `split` is not a string.
        MissingExtraError: tensorflow_datasets is not installed.

    Example (needs a prepared dataset):
        `TfdsDataSource("mnist", "train")[0]["label"]` is an integer.
    """

    def __init__(
        self,
        name: str,
        split: str,
        data_dir: str | os.PathLike[str] | None = None,
        decoders: Any = None,
        *,
        storage_options: StorageOptionsLike = None,
    ) -> None:
        self._name = f"{name}, split {split!r}"
        self._decoders = decoders
        storage = storage_options_of(storage_options)
        where = text_of(
            data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
        ).rstrip("/")
        if is_remote(where):
            opened, instructions = _open_in_store(name, split, where, decoders, storage)
        else:
            opened = _open(name, split, where, None if data_dir is None else where, decoders)
            instructions = list(opened.dataset_info.splits[split].file_instructions)
        self._identity = {
            "kind": "TfdsDataSource",
            "name": opened.dataset_info.full_name,
            "split": str(split),
        }
        self._features = opened.dataset_info.features
        self._files: ArrayRecordDataSource | None = None
        self._other: Any = None
        if type(opened.data_source).__module__.startswith("array_record."):
            # 2 µs per record; TFDS's own reader takes 7, decoding 30 to 50.
            self._files = ArrayRecordDataSource(instructions, storage_options=storage)
        elif is_remote(where):
            raise SourceError(
                f"{shorten(self._name)} in {shorten(where)}: only datasets in ArrayRecord format "
                "can be read from an object "
                'store. Prepare the dataset in another folder with file_format="array_record".'
            )
        else:
            self._other = opened

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            announce=None if self._files is None else self._files.facts.announce,
            file_place=self.file_place,
        )

    def __len__(self) -> int:
        return len(self._files if self._files is not None else self._other)

    def __getitem__(self, key: SupportsIndex) -> Any:
        return self.__getitems__([check_key(key, len(self), "TfdsDataSource")])[0]

    def __getitems__(self, keys: Keys) -> list[Any]:
        """Return the examples of `keys`, in order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: an ArrayRecord file cannot be read, or was modified. The message names the
                file.
        """
        checked = check_keys(keys, len(self), "TfdsDataSource")
        if self._files is None:
            return list(self._other.__getitems__(checked.tolist()))
        decode: Callable[..., Any] = self._features.deserialize_example_np
        return [
            decode(record, decoders=self._decoders) for record in self._files.__getitems__(checked)
        ]

    def file_place(self, key: int) -> FilePlace | None:
        """Return the file of the example `key`, and the example's index in it.

        Return None if the files are not ArrayRecord.
        """
        return None if self._files is None else self._files.file_place(key)

    @property
    def serialized(self) -> ArrayRecordDataSource:
        """Source of the examples as bytes (serialised `tf.train.Example`).

        Raises:
            SourceError: the files are not ArrayRecord.
        """
        if self._files is None:
            raise SourceError(
                f"{shorten(self._name)}: the files are not in ArrayRecord format, so the examples "
                "cannot be returned as bytes. Prepare the dataset in another folder with "
                'file_format="array_record".'
            )
        return self._files

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Full name of the dataset with its version, the split, and the number of examples."""
        return {**self._identity, "records": len(self)}

    def close(self) -> None:
        if self._files is not None:
            self._files.close()

    def __repr__(self) -> str:
        return f"TfdsDataSource({self._name}, {len(self)} examples)"


def _open_in_store(
    name: str, split: str, url: str, decoders: Any, storage: StorageOptions
) -> tuple[Any, list[Any]]:
    """Open a dataset in a store, through a temporary local copy of its metadata.

    Args:
        name: name of the dataset, with configuration and version or without:
            `"my_data/config:1.0.0"`.
        split: a split or a part of one.
        url: URL of the folder of datasets.
        decoders: the user's `decoders=`.
        storage: how the store is reached.

    Returns:
        The opened dataset, and the file instructions of the split, with the URLs of the files.

    Raises:
        SourceError: the dataset or split does not exist; or a file name leads out of its folder.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-") as temporary:
        folder = os.path.realpath(temporary)
        for file in file_system_of(url, storage).glob(
            f"{url}/{re.split('[/:]', str(name))[0]}/**/*"
        ):
            if not _DATA.search(file):
                if not stays_inside(file[len(url) + 1 :]):
                    raise SourceError(
                        f"{shorten(file)}: a file name in an object store must not lead out of its "
                        "folder. Rename the file."
                    )
                copy = Path(folder + file[len(url) :])
                copy.parent.mkdir(parents=True, exist_ok=True)
                found = open_file(file, storage)
                copy.write_bytes(found.read(0, found.size))
        opened = _open(name, split, url, folder, decoders)
        parts = opened.dataset_info.splits[split].file_instructions
        return opened, [
            replace(part, filename=url + part.filename[len(folder) :]) for part in parts
        ]


def _open(name: str, split: str, where: str, folder: str | None, decoders: Any) -> Any:
    tfds = optional_library(
        "tensorflow_datasets", "TfdsDataSource needs tensorflow_datasets", "tfds"
    )
    if not isinstance(split, str):
        raise TypeError(
            f"split={short_repr(split)} is of type {type(split).__name__}, not a string. Pass a "
            "string, such as 'train' or 'train[:80%]'."
        )
    try:
        return tfds.data_source(
            name, split=split, data_dir=folder, decoders=decoders, download=False
        )
    except tfds.core.DatasetNotFoundError as error:
        raise SourceError(
            f"there is no TFDS dataset {short_repr(name)}. Datasets under {shorten(where)}: "
            f"{_prepared(folder or where)}. Pass one of these, pass another data_dir=, or prepare "
            "the dataset with TFDS and "
            'file_format="array_record".'
        ) from error
    except NotImplementedError as error:
        if found := _prepared_format(tfds, name, folder):
            raise SourceError(
                f"the TFDS dataset {short_repr(name)} is prepared under {shorten(where)} as "
                f"{found}, which has no random access. Prepare it in another folder: "
                f"tfds.builder({short_repr(name)}, file_format='array_record', "
                "data_dir=FOLDER).download_and_prepare(). Then pass data_dir=FOLDER."
            ) from error
        raise SourceError(
            f"the TFDS dataset {short_repr(name)} is not prepared in ArrayRecord format under "
            f"{shorten(where)}. The datasets there: {_prepared(folder or where)}. Run "
            f"tfds.builder({short_repr(name)}, file_format='array_record', "
            f"data_dir={short_repr(where)}).download_and_prepare()."
        ) from error
    except ValueError as error:
        raise SourceError(
            f"split {short_repr(split)} of the TFDS dataset {short_repr(name)} cannot be read: "
            f"{shorten(error)}. Pass the name of a split of this dataset, and decoders= that fit "
            "its features."
        ) from error


def _prepared_format(tfds: Any, name: str, folder: str | None) -> str | None:
    """Return the file format, such as "tfrecord", in which a dataset is prepared in a folder.

    Return None if it is not prepared.

    Args:
        tfds: the module `tensorflow_datasets`.
        name: name of the dataset, with configuration and version or without.
        folder: folder of the datasets; None: TFDS's own folder.
    """
    builder = tfds.builder(name, data_dir=folder)
    is_prepared = os.path.isfile(os.path.join(builder.data_dir, "dataset_info.json"))
    return str(builder.info.file_format.value) if is_prepared else None


def _prepared(data_dir: str) -> str:
    """Return the names of the datasets in the folder `data_dir`, as `name/config:version`.

    Error messages list them.

    They are one text, with at most three names. A folder in which no dataset was prepared is named
    as such. The text is "none (no such folder)" if `data_dir` does not exist, and "none" if it is
    empty.
    """
    root = Path(data_dir)
    if not os.path.isdir(root):  # in place of Path's own, which raises for names that are too long
        return "none (no such folder)"
    infos = [info for depth in ("*/*", "*/*/*") for info in root.glob(f"{depth}/dataset_info.json")]
    places = sorted(info.parent.relative_to(root) for info in infos)
    names = [f"{place.parent.as_posix()}:{place.name}" for place in places]
    full = {place.parts[0] for place in places} | {"downloads"}
    empty = sorted(
        entry.name for entry in root.iterdir() if entry.is_dir() and entry.name not in full
    )
    return (
        first_few([*names, *(f"{name} (a folder without a prepared dataset)" for name in empty)])
        or "none"
    )
