"""TFDS datasets, written here with a builder of our own: what `tfds.data_source` gives, and the
short form.
"""

import gc
import tempfile
import warnings

import fsspec
import numpy as np
import pytest
from support.source_conformance import SourceConformance, assert_same

import headrace
from headrace.errors import SourceError
from headrace.sources import TfdsDataSource, as_source, fingerprint_of, reader_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # What tfds and what it imports say at import is not ours.
    import tensorflow_datasets as tfds

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def folders_of_tfds(tmp_path, monkeypatch):
    """TFDS makes an empty temporary folder for each builder whose dataset it does not find, and
    leaves it.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def prepare(folder, count, file_format="array_record"):
    """Writes the dataset `tiny_digits` with `count` training examples, in the order of
    their keys.
    """

    class TinyDigits(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = {
                "image": tfds.features.Tensor(shape=(2, 2), dtype=np.uint8),
                "label": tfds.features.Scalar(np.int64),
                "name": tfds.features.Text(),
            }
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True
            )

        def _split_generators(self, manager):
            return {"train": self._generate_examples(count), "test": self._generate_examples(5)}

        def _generate_examples(self, number):
            for key in range(number):
                yield (
                    key,
                    {"image": np.full((2, 2), key, np.uint8), "label": key, "name": f"name {key}"},
                )

    TinyDigits(data_dir=folder, file_format=file_format).download_and_prepare()


def test_conversion_keeps_examples_as_they_are(tmp_path):
    """`--from tfds`: to ArrayRecord as the bytes in the files, which TFDS decodes; to Parquet as
    columns.
    """
    prepare(tmp_path / "data", 10)
    options = {"source_format": "tfds", "split": "train", "workers": 0, "progress": False}
    headrace.convert(tmp_path / "data" / "tiny_digits", tmp_path / "bytes", **options)
    source = TfdsDataSource("tiny_digits", "train", data_dir=tmp_path / "data")
    assert list(headrace.ArrayRecordDataSource(tmp_path / "bytes")) == list(source.serialized)
    headrace.convert(tmp_path / "data" / "tiny_digits", tmp_path / "rows", "parquet", **options)
    row = headrace.ParquetDataSource(tmp_path / "rows")[7]
    assert (row["image"], row["label"], row["name"]) == ([[7, 7], [7, 7]], 7, b"name 7")


class TestShortForm(SourceConformance):
    on_files = True

    def write(self, folder, count):
        prepare(folder, count)

    def open(self, folder, count):
        source = TfdsDataSource("tiny_digits", "train", data_dir=folder)
        # TFDS leaves an exception in a reference cycle, whose traceback refers to the source
        gc.collect()
        return source

    def expected_record(self, key):
        return {"image": np.full((2, 2), key, np.uint8), "label": key, "name": b"name %d" % key}


class TestDataSource(TestShortForm):
    """What `tfds.data_source` returns, as it is."""

    own = False

    def open(self, folder, count):
        return tfds.data_source("tiny_digits", split="train", data_dir=folder, download=False)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A data folder with the dataset of 20 training and 5 test examples."""
    folder = tmp_path_factory.mktemp("tfds")
    prepare(folder, 20)
    return folder


def test_both_forms_give_the_same_records(prepared):
    """The short form and `tfds.data_source` agree on every split and part of one."""
    for split in ("train", "test", "train[5:12]", "train[50%:]", "train+test"):
        short = TfdsDataSource("tiny_digits", split, data_dir=str(prepared))
        whole = as_source(
            tfds.data_source("tiny_digits", split=split, data_dir=prepared, download=False)
        )
        assert len(short) == len(whole)
        keys = np.arange(len(short))[::-1]
        assert_same(reader_of(short)(keys), reader_of(whole)(keys))


def test_decoders_are_passed_on(prepared):
    """`decoders` reach the features, as in `tfds.data_source`."""
    decoders = {"name": tfds.decode.SkipDecoding()}
    source = TfdsDataSource("tiny_digits", "train", data_dir=prepared, decoders=decoders)
    record = tfds.data_source(
        "tiny_digits", split="train", data_dir=prepared, download=False, decoders=decoders
    )
    assert_same(source[3], record[3])


def test_splits_have_fingerprints_of_their_own(prepared):
    """The split belongs to the identity of the source, its folder does not."""
    train, test = (
        TfdsDataSource("tiny_digits", split, data_dir=prepared) for split in ("train", "test")
    )
    assert fingerprint_of(train) == {
        "kind": "TfdsDataSource",
        "name": "tiny_digits/1.0.0",
        "split": "train",
        "records": 20,
    }
    assert fingerprint_of(test) != fingerprint_of(train)


@pytest.mark.parametrize(
    ("name", "split", "text"),
    [
        (
            "no_such_dataset",
            "train",
            "no TFDS dataset 'no_such_dataset'. Datasets under .*: tiny_digits:1.0.0",
        ),
        (
            "tiny_digits",
            "valid",
            "split 'valid' of the TFDS dataset 'tiny_digits' .*'train', 'test'",
        ),
        ("tiny_digits", "train[", r"split 'train\['"),
        ("tiny_digits", "train[30:40]", r"split 'train\[30:40\]'.*20 examples"),
        (
            "tiny_digits:9.9.9",
            "train",
            "no TFDS dataset 'tiny_digits:9.9.9'. .*: tiny_digits:1.0.0. Pass one of these, pass another data_dir=, or ",
        ),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(prepared, name, split, text):
    """An unknown dataset, version or split is an error that names what was given and
    what there is.
    """
    with pytest.raises(SourceError, match=f"(?s){text}"):
        TfdsDataSource(name, split, data_dir=prepared)


def test_a_name_or_folder_that_is_too_long_is_told_briefly(prepared):
    """As one that does not exist."""
    for name, folder in (("x", f"{prepared}/{'a' * 5000}"), ("x" * 5000, prepared)):
        with pytest.raises(SourceError, match="no TFDS dataset 'x") as caught:
            TfdsDataSource(name, "train", data_dir=folder)
        assert len(str(caught.value)) < 500


def test_a_folder_without_a_dataset_is_told_as_such(tmp_path):
    """A dataset whose making was broken off is not listed as one that there is."""
    (tmp_path / "tiny" / "incomplete.ABC_1.0.0").mkdir(parents=True)
    (tmp_path / "downloads").mkdir()
    with pytest.raises(
        SourceError,
        match=(
            r"no TFDS dataset 'tiny'\. Datasets under .*tiny \(a folder without a prepared "
            r"dataset\)"
        ),
    ):
        TfdsDataSource("tiny", "train", data_dir=tmp_path)


def test_a_dataset_that_is_not_prepared_is_an_error_that_says_how(prepared):
    """Nothing is downloaded: a dataset that TFDS knows but that is not on disk is an error with the
    remedy.
    """
    with pytest.raises(SourceError, match=r"'mnist' is not prepared .*download_and_prepare\(\)"):
        TfdsDataSource("mnist", "train", data_dir=prepared)


def test_a_dataset_that_is_prepared_in_another_format_is_an_error_that_says_how(tmp_path):
    """Where it is prepared, TFDS refuses another format; so the message names another folder."""
    prepare(tmp_path, 3)
    info = tmp_path / "tiny_digits" / "1.0.0" / "dataset_info.json"
    info.write_text(info.read_text().replace('"array_record"', '"tfrecord"'))
    with pytest.raises(
        SourceError,
        match=r"prepared under .* as tfrecord, .* Prepare it in another folder: tfds\.builder",
    ):
        TfdsDataSource("tiny_digits:1.0.0", "train", data_dir=tmp_path)


class AdvisedDigits(tfds.core.GeneratorBasedBuilder):
    """A dataset of three numbers that TFDS knows by its name, `advised_digits`."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict({"label": tfds.features.Scalar(np.int64)})
        return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

    def _split_generators(self, manager):
        return {"train": ((key, {"label": key}) for key in range(3))}

    def _generate_examples(self):
        """Only here because the class is abstract without it."""


def test_a_dataset_that_is_prepared_as_the_error_says_can_be_read(tmp_path):
    """In the folder that the source reads, whichever it is."""
    with pytest.raises(SourceError, match="is not prepared") as caught:
        TfdsDataSource("advised_digits", "train", data_dir=tmp_path)
    exec(str(caught.value).partition("Run ")[2].removesuffix("."), {"tfds": tfds})
    assert [
        each["label"] for each in TfdsDataSource("advised_digits", "train", data_dir=tmp_path)
    ] == [0, 1, 2]


def test_the_split_must_be_one_name(prepared):
    """A list of splits, or none, makes no source."""
    for split in (None, ["train", "test"]):
        with pytest.raises(TypeError, match=r"split=.* is of type .*Pass a string"):
            TfdsDataSource("tiny_digits", split, data_dir=prepared)


def test_a_dataset_in_a_store_is_that_of_the_folder(prepared, tmp_path):
    """Records, fingerprint and errors; what is read is what TFDS says of it, and the files of the
    split.
    """
    store = fsspec.filesystem("memory")
    store.put(str(prepared), "/tfds", recursive=True)
    options = {"cache_dir": str(tmp_path / "cache")}
    for split in ("train[5:12]+test", "train"):
        local = TfdsDataSource("tiny_digits", split, data_dir=prepared)
        remote = TfdsDataSource(
            "tiny_digits", split, data_dir="memory://tfds/", storage_options=options
        )
        assert_same(
            reader_of(remote)(np.arange(len(local))), reader_of(local)(np.arange(len(local)))
        )
        assert fingerprint_of(remote) == fingerprint_of(local)
    with pytest.raises(
        SourceError, match=r"no TFDS dataset 'other'\. Datasets under memory://tfds: none"
    ):
        TfdsDataSource("other", "train", data_dir="memory://tfds", storage_options=options)


def test_examples_lie_in_files(prepared):
    """Where their number is that in the file, also of a part of a split."""
    whole = headrace.ArrayRecordDataSource(prepared / "tiny_digits" / "1.0.0" / "*train*")
    part = TfdsDataSource("tiny_digits", "train[5:12]", data_dir=prepared)
    place = part.file_place(2)
    assert (place.file, place.record) == (whole.file_place(7).file, 7)


@pytest.mark.parametrize("name", ["../../escaped.json", "1.0.0/../../../escaped.json"])
def test_a_name_in_a_store_does_not_lead_out_of_its_folder(name, tmp_path, monkeypatch):
    """A file that would be copied to a place outside of the temporary folder is an error, and is
    not written.
    """
    store = fsspec.filesystem("memory")
    store.pipe_file("/datasets/tiny_digits/1.0.0/dataset_info.json", b"{}")
    found = f"memory://datasets/tiny_digits/{name}"
    monkeypatch.setattr(
        "headrace.sources.tfds.file_system_of",
        lambda *_: type("Names", (), {"glob": lambda self, _: [found]})(),
    )
    try:
        with pytest.raises(
            SourceError, match="name in an object store must not lead out of its folder"
        ):
            TfdsDataSource("tiny_digits", "train", "memory://datasets")
    finally:
        store.rm("/datasets", recursive=True)
    assert not list(tmp_path.rglob("escaped.json"))
