"""Source of image files in one folder per class.

A record has the bytes of a file and the index of its class.

The folders are listed when the source is made. A worker process lists them again, because millions
of names would take long to send, and checks the result with a digest. A file is open only while it
is read.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from ..common.messages import first_few, remedy_for, short_repr, shorten
from ..errors import SourceError
from ..files.opened import open_file, stamp_of
from ..files.paths import Paths, file_system_of, find_files, path_list, text_of
from ..files.patterns import is_hidden
from ..files.stamps import Stamp
from ..files.storage_options import StorageOptions, StorageOptionsLike, storage_options_of
from ..files.urls import is_remote
from .facts import SourceFacts
from .keys import Keys, check_key, check_keys
from .provenance import FilePlace

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
"""Default suffixes of image files, in lower case."""


class _Image(NamedTuple):
    path: str
    class_name: str
    place: str
    """Path relative to the folder that contains the class folders."""
    stamp: Stamp | None
    """Size and modification time; None for a file in a store: requests would take too long."""


class _Listing:
    """Compact list of all images: paths in one byte string, labels and stamps in arrays.

    Args:
        images: the images, in the order of their keys.
        classes: names of the classes, in the order of their labels; None: the names of all images'
            classes, sorted.
    """

    def __init__(self, images: Sequence[_Image], classes: tuple[str, ...] | None) -> None:
        self.classes = (
            tuple(sorted({image.class_name for image in images})) if classes is None else classes
        )
        numbers = {name: number for number, name in enumerate(self.classes)}
        self.labels = np.array([numbers[image.class_name] for image in images], np.int32)
        names = [os.fsencode(image.path) for image in images]
        self._names = b"".join(names)
        self._starts = np.cumsum([0, *map(len, names)], dtype=np.int64)
        # A store tells no stamps here: -1.
        self._stamps = np.array([image.stamp or (-1, -1) for image in images], np.int64)
        places = "".join(f"{image.place}\0{image.stamp and image.stamp.size}\0" for image in images)
        self.digest = hashlib.sha256(places.encode(errors="surrogateescape")).hexdigest()[:16]
        changed = hashlib.sha256(self._names + self._stamps.tobytes()).hexdigest()[:16]
        self.state = f"{self.digest} {changed}"

    def __len__(self) -> int:
        return len(self.labels)

    def path(self, key: int) -> str:
        start, stop = self._starts[key : key + 2].tolist()
        return os.fsdecode(self._names[start:stop])

    def stamp(self, key: int) -> Stamp | None:
        size, modified = self._stamps[key].tolist()
        return None if size < 0 else Stamp(size, modified)


class ImageFolderDataSource:
    """Image files in folders, one folder for each class. Thread-safe, picklable, safe to fork.

    A record is a dict: `{"image": bytes of the file, "label": index of the class}`. `DecodeImage`
    decodes the bytes.

    Args:
        paths: a folder that contains one folder for each class, with images at any depth; or a list
            of such folders, where classes of the same name are merged. A glob, or the path of a
            file, selects files; then the class is the name of the folder that contains the file.
            Files are sorted by path in each folder; a list keeps its order. Names that begin with a
            dot (`.ipynb_checkpoints`, `._1.png`), and `__MACOSX`, are ignored, unless the path
            itself names them.
        classes: names of the classes, in the order of their labels. Default: all names that are
            found, sorted. Pass this if some folders lack a class.
        extensions: suffixes of image files, in lower or upper case. Other files are ignored.
        storage_options: how files in a store (`s3://…`) are reached and cached; see
            `docs/how-to/remote-files.md`.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: there are no images; an image lies beside the class folders; or its class is
            not in `classes`.
        ValueError: `paths` is an empty list, or a class or an extension is named twice.
        TypeError: a path is neither a string nor a `pathlib.Path`; or `classes` or `extensions` is
            not a list of strings.

    Attributes:
        classes: names of the classes. A label is an index into it.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat/1.jpg", "dog/1.jpg", "dog/old/2.PNG"):
    ...         pathlib.Path(folder, name).parent.mkdir(exist_ok=True)
    ...         _ = pathlib.Path(folder, name).write_bytes(name.encode())
    ...     source = ImageFolderDataSource(folder)
    ...     print(source.classes, source[2])
    ('cat', 'dog') {'image': b'dog/old/2.PNG', 'label': 1}
    """

    def __init__(
        self,
        paths: Paths,
        *,
        classes: Sequence[str] | None = None,
        extensions: Sequence[str] = EXTENSIONS,
        storage_options: StorageOptionsLike = None,
    ) -> None:
        self._paths = tuple(text_of(path) for path in path_list(paths))
        self._wanted = None if classes is None else _names("classes", classes)
        self._extensions = tuple(
            extension.lower() for extension in _names("extensions", extensions)
        )
        self._storage = storage_options_of(storage_options)
        self._list()

    def _list(self) -> None:
        images = [
            image
            for path in self._paths
            for image in _images(path, self._extensions, self._storage)
        ]
        if not images:
            raise SourceError(
                f"there are no images ({first_few(self._extensions)}) in {first_few(self._paths)}. "
                "Pass another folder, or pass extensions=, the endings of the names of your files."
            )
        known = (
            {image.class_name for image in images} if self._wanted is None else set(self._wanted)
        )
        odd = next((image for image in images if image.class_name not in known), None)
        if odd is not None:
            raise SourceError(
                f"{shorten(odd.path)} is of the class {short_repr(odd.class_name)}, which is not "
                f"in classes={short_repr(self._wanted)}. Add the class to classes=, or pass paths "
                "without its folder."
            )
        self._listing = _Listing(images, self._wanted)
        self.classes = self._listing.classes

    def __len__(self) -> int:
        return len(self._listing)

    @property
    def facts(self) -> SourceFacts:
        # Opening and reading a file is nearly all waiting, so threads share a batch.
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            reads_singly=True,
            classes=self.classes,
            file_place=self.file_place,
            file_count=self.__len__,
        )

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        return self._read(check_key(key, len(self), "ImageFolderDataSource"))

    def __getitems__(self, keys: Keys) -> list[dict[str, Any]]:
        """Return the records of `keys`, in order: dicts with the bytes of the file and its label.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a file cannot be read, or was modified. The message names the file and the
                key.
        """
        return [
            self._read(key) for key in check_keys(keys, len(self), "ImageFolderDataSource").tolist()
        ]

    def _read(self, key: int) -> dict[str, Any]:
        try:
            with closing(
                open_file(self._listing.path(key), self._storage, self._listing.stamp(key))
            ) as file:
                image = file.read(0, file.size)
        except SourceError as error:
            raise type(error)(f"record key {key} cannot be read: {error}") from error
        return {"image": image, "label": int(self._listing.labels[key])}

    def file_place(self, key: int) -> FilePlace:
        return FilePlace(
            self._listing.path(key), 0, f"class {self.classes[self._listing.labels[key]]}"
        )

    @functools.cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Number of records, and digests of relative paths, sizes and class names.

        It does not depend on where the folders are.
        """
        classes = hashlib.sha256(repr(self.classes).encode(errors="surrogateescape")).hexdigest()[
            :12
        ]
        return {
            "kind": "ImageFolderDataSource",
            "records": len(self),
            "files": self._listing.digest,
            "classes": classes,
        }

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_paths", "_wanted", "_extensions", "_storage")
        return {**{name: vars(self)[name] for name in kept}, "listed": self._listing.state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        listed = state.pop("listed")
        self.__dict__.update(state)
        self._list()
        if self._listing.state != listed:
            raise SourceError(
                f"{first_few(self._paths)}: files were added, removed or changed after the source "
                "was made. Make the source again."
            )

    def __repr__(self) -> str:
        return (
            f"ImageFolderDataSource({len(self)} images of {len(self.classes)} classes in "
            f"{first_few(self._paths)})"
        )


def _names(argument: str, given: Any) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"{argument}={short_repr(given)} is not a list of strings. Pass a list of strings."
        )
    if len(set(names)) < len(names):
        raise ValueError(f"{argument}={short_repr(given)} contains a name twice. Name each once.")
    return names


def _images(path: str, extensions: tuple[str, ...], storage: StorageOptions) -> Iterator[_Image]:
    files = file_system_of(path, storage)
    if not files.is_directory(path):
        for found in find_files(path, (), storage):
            if found.lower().endswith(extensions):
                folder, name = found.rstrip("/").split("/")[-2:] if "/" in found else (".", found)
                yield _image(found, folder, f"{folder}/{name}")
        return
    root = path.rstrip("/") + "/"
    for found in sorted(files.glob(f"{root}**/*") if is_remote(path) else _below(root)):
        place = found[len(root) :]
        if place.lower().endswith(extensions) and not any(map(is_hidden, place.split("/"))):
            class_name, slash, _ = place.partition("/")
            if not slash:
                raise SourceError(
                    f"{shorten(found)} is not in a folder named after its class, so its class is "
                    "unknown. Move it into such a folder, or pass a pattern that does not match "
                    f"it, such as {short_repr(root + '*/*')}."
                )
            yield _image(found, class_name, place)


def _image(path: str, class_name: str, place: str) -> _Image:
    try:
        return _Image(path, class_name, place, None if is_remote(path) else stamp_of(path))
    except OSError as error:
        raise _unreadable(error) from error


def _below(folder: str, inside: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """Yield the paths of all local files below a folder, without hidden ones.

    Symbolic links are followed, except a link to a folder that contains the link.

    Args:
        folder: path of the folder.
        inside: device and inode of each folder that the search has entered on its way to `folder`.

    Raises:
        SourceError: a folder cannot be listed.
    """
    try:
        found = os.stat(folder)
        entries = [entry for entry in os.scandir(folder) if not is_hidden(entry.name)]
    except OSError as error:
        raise _unreadable(error) from error
    here = found.st_dev, found.st_ino
    if here in inside:
        return
    for entry in entries:
        if os.path.isdir(entry) if entry.is_symlink() else entry.is_dir():
            yield from _below(entry.path, inside | {here})
        else:
            yield entry.path


def _unreadable(error: OSError) -> SourceError:
    return SourceError(
        f"{shorten(error.filename)} cannot be read: {shorten(error.strerror)}. "
        f"{remedy_for(error, 'Check its permissions, or remove it')}."
    )
