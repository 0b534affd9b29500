"""Folders of images: classes, order, and folders that change."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from support.source_conformance import SourceConformance

from headrace.errors import SourceError, SourceNotFoundError
from headrace.sources import ImageFolderDataSource


def place(key):
    """Three classes in blocks, one of them with folders of its own; sorted by path."""
    folder = "ant" if key < 30 else "bee/x" if key < 60 else "cat"
    return f"{folder}/{key:03}.{'JPG' if key % 2 else 'png'}"


class TestImageFolder(SourceConformance):
    on_files = True

    def write(self, folder, count):
        for key in range(count):
            path = folder / place(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"image %d" % key)
        (folder / "README.txt").write_text("no image")

    def open(self, folder, count):
        return ImageFolderDataSource(folder)

    def expected_record(self, key):
        return {"image": b"image %d" % key, "label": 0 if key < 30 else 1 if key < 60 else 2}


@pytest.fixture
def folder(tmp_path):
    """Two folders of classes."""
    for name in ("train/a/1.jpg", "train/b/1.jpg", "more/b/2.jpg", "more/c/é.jpg"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path


def told(source):
    """Classes, and what is in each image with its label."""
    return source.classes, [(record["image"].decode(), record["label"]) for record in source]


def test_several_folders_have_their_classes_together(folder):
    """Of one name they are one; a glob and a path take the class from the folder that a file lies
    in.
    """
    both = [("train/a/1.jpg", 0), ("train/b/1.jpg", 1), ("more/b/2.jpg", 1), ("more/c/é.jpg", 2)]
    assert told(ImageFolderDataSource([folder / "train", folder / "more"])) == (
        ("a", "b", "c"),
        both,
    )
    assert (
        told(ImageFolderDataSource([f"{folder}/train/*/*", folder / "more/b/2.jpg"]))[1] == both[:3]
    )


def test_classes_may_be_given(folder):
    """For folders that lack some: labels are those of the whole."""
    source = ImageFolderDataSource(f"{folder}/more", classes=["c", "a", "b"])
    assert told(source) == (("c", "a", "b"), [("more/b/2.jpg", 2), ("more/c/é.jpg", 0)])
    with pytest.raises(
        SourceError, match=r"is of the class 'c', which is not in classes=\('a', 'b'\)"
    ):
        ImageFolderDataSource(folder / "more", classes=["a", "b"])


def test_labels_are_part_of_the_fingerprint(folder):
    """The same files with other labels are another source."""
    found = ImageFolderDataSource(folder / "more").fingerprint
    given = ImageFolderDataSource(folder / "more", classes=["a", "b", "c"]).fingerprint
    assert (found["files"] == given["files"], found == given) == (True, False)


def test_an_image_without_a_class_is_an_error(folder):
    """It is not left out in silence."""
    (folder / "train/lost.png").write_bytes(b"")
    with pytest.raises(SourceError, match="is not in a folder named after its class"):
        ImageFolderDataSource(folder / "train")


def test_folders_without_images_are_an_error(folder):
    """And so are folders that are not there."""
    with pytest.raises(SourceError, match=r"no images \(\.tiff\) in .*train"):
        ImageFolderDataSource(folder / "train", extensions=[".tiff"])
    with pytest.raises(SourceNotFoundError, match="nope"):
        ImageFolderDataSource(folder / "nope")


def test_files_that_change_are_an_error(folder):
    """Changed or gone ones when they are read; others when the source reaches another process."""
    source = ImageFolderDataSource(folder / "train")
    data = pickle.dumps(source)
    (folder / "train/a/1.jpg").write_bytes(b"another")
    with pytest.raises(
        SourceError, match=r"record key 0 cannot be read: .*the file changed after the source was"
    ):
        _ = source[0]
    (folder / "train/b/1.jpg").unlink()
    with pytest.raises(SourceNotFoundError, match="record key 1 cannot be read: there is no file"):
        _ = source[1]
    with pytest.raises(
        SourceError, match=r"train: files were added, removed or changed after the source was made"
    ):
        pickle.loads(data)


def test_a_folder_in_a_store_is_read_like_a_local_one(folder, tmp_path):
    """Its labels and records are the same."""
    import fsspec

    store = fsspec.filesystem("memory")
    store.put(f"{folder}/train", "/images", recursive=True)
    try:
        source = ImageFolderDataSource(
            "memory://images", storage_options={"cache_dir": str(tmp_path / "blocks")}
        )
        assert told(source) == told(ImageFolderDataSource(folder / "train"))
    finally:
        store.rm("/images", recursive=True)


def test_hidden_names_are_no_images_and_no_classes(folder, tmp_path):
    """What notebooks and macOS leave is skipped at any depth, here, in a store, and by globs."""
    import fsspec

    before = told(ImageFolderDataSource(folder / "train"))
    odd = (
        ".ipynb_checkpoints/1-checkpoint.jpg",
        "a/.ipynb_checkpoints/1-checkpoint.jpg",
        "a/._1.jpg",
        "._1.jpg",
    )
    for name in (*odd, "__MACOSX/a/1.jpg", "a/__MACOSX/1.jpg"):
        path = folder / "train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no image")
    assert told(ImageFolderDataSource(folder / "train")) == before
    for pattern in ("*/*.jpg", "**/*.jpg"):
        assert told(ImageFolderDataSource(f"{folder}/train/{pattern}")) == before
    store = fsspec.filesystem("memory")
    store.put(f"{folder}/train", "/images", recursive=True)
    try:
        for path in ("memory://images", "memory://images/*/*.jpg", "memory://images/**/*.jpg"):
            remote = ImageFolderDataSource(
                path, storage_options={"cache_dir": str(tmp_path / "blocks")}
            )
            assert told(remote) == before
    finally:
        store.rm("/images", recursive=True)
    named = ImageFolderDataSource([f"{folder}/train/a/._1.jpg", f"{folder}/train/__MACOSX/a/*.jpg"])
    assert [record["image"] for record in named] == [b"no image"] * 2


def test_links_are_followed_but_not_in_circles(folder):
    """Images of a folder that a link leads to count once for each way that ends."""
    train = folder / "train"
    (train / "a" / "back").symlink_to(train)
    (train / "a" / "here").symlink_to(train / "a")
    (train / "d").symlink_to(folder / "more")
    images = ["train/a/1.jpg", "train/b/1.jpg", "more/b/2.jpg", "more/c/é.jpg"]
    assert told(ImageFolderDataSource(train)) == (("a", "b", "d"), list(zip(images, (0, 1, 2, 2))))


WITHOUT_PRIVILEGES = """
import sys, headrace
try:
    headrace.ImageFolderDataSource(sys.argv[1])
except headrace.errors.SourceError as error:
    print(error)
"""


def test_what_cannot_be_listed_is_an_error(folder):
    """An image that is a link to nowhere, and a folder that one may not read, whose images were
    left out.
    """
    link = folder / "train" / "a" / "nowhere.png"
    link.symlink_to("missing")
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        ImageFolderDataSource(folder / "train")
    link.unlink()
    (folder / "more" / "b").chmod(0)
    command = (
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    )
    said = subprocess.check_output(
        [*command, sys.executable, "-c", WITHOUT_PRIVILEGES, folder / "more"], text=True
    )
    (folder / "more" / "b").chmod(0o700)
    assert "more/b cannot be read: Permission denied" in said


def test_names_come_in_a_list_each_once(folder):
    """A string of one extension was one of each of its letters."""
    for argument in ("classes", "extensions"):
        with pytest.raises(TypeError, match=f"{argument}=5 is not a list of strings"):
            ImageFolderDataSource(folder, **{argument: 5})
        with pytest.raises(TypeError, match=f"{argument}='.jpg' is not a list of strings"):
            ImageFolderDataSource(folder, **{argument: ".jpg"})
    with pytest.raises(ValueError, match=r"twice\. Name each"):
        ImageFolderDataSource(folder, classes=["a", "b", "a"])
