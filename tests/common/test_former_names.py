"""What was written under the package's former name is read under the present one, and nothing else keeps the old word.

`former/` holds what the package wrote under its former name; `former_things.py` is the program that had it written.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import chain, islice
from pathlib import Path

import former_things
import numpy as np
import orbax.checkpoint as ocp
import pytest
import remote_store
from former_things import MADE, RECORDS, SHARED, STEP, begun, lines_in, taken
from orbax.checkpoint.experimental import v1
from pipelines import loader, plain, stream

import headrace
from headrace import IndexSampler, JsonLinesDataSource, TokenSource
from headrace.checkpoint import CheckpointRestore, StateFile
from headrace.common.former_names import FORMER, PRESENT, formerly
from headrace.conversion.steps import identity_of
from headrace.errors import ConversionError
from headrace.files.remote.hot import HOT
from headrace.files.storage_options import CACHE_BYTES, storage_options_of
from headrace.formats import index
from headrace.loader.epochs import Epochs

ROOT = Path(__file__).parent.parent.parent
KEPT = Path(__file__).parent.parent / "former"
STATES = json.loads((KEPT / "states.json").read_text())


def as_given(state):
    """A state as `get_state` gave it: bytes, or a dict."""
    return state.encode() if isinstance(state, str) else state


def rest_of(iterator, count=60):
    """What comes, also of a loop per epoch; the first ones if it is endless."""
    elements = chain.from_iterable(iterator) if isinstance(iterator, Epochs) else iterator
    return [plain(element) for element in islice(elements, count)]


def test_what_is_kept_has_the_former_name():
    """States, a checkpoint of Orbax, an index and a manifest: else the tests below hold for nothing."""
    named = ("states.json", "state_file.json", "index", "converted/manifest.json", "orbax/1/_CHECKPOINT_METADATA")
    assert all(FORMER.encode() in (KEPT / name).read_bytes() for name in named)
    assert set(STATES["alone"]) <= set(MADE)


@pytest.mark.parametrize("name", STATES["alone"])
@pytest.mark.filterwarnings("ignore:leaf .* as np.stack makes them")
def test_a_state_goes_on_where_it_stood(name):
    """Of every kind of pipeline: source, order and operations are held to be the same ones."""
    iterator = begun(name)
    iterator.set_state(as_given(STATES["alone"][name]))
    assert rest_of(iterator) == rest_of(begun(name), 60 + STEP)[STEP:]


def test_a_state_that_is_a_dict_goes_on_where_it_stood():
    """What `state_dict` gave is what `load_state_dict` takes."""
    iterator = begun("batch")
    iterator.load_state_dict(STATES["as dicts"])
    assert rest_of(iterator) == rest_of(taken(begun("batch"), STEP))


@pytest.mark.parametrize("name", SHARED)
def test_states_of_shards_go_on(name):
    """Of two that had gone on after three: on the two, and on one, as those of the present name do."""
    states = [as_given(state) for state in STATES["elastic"][name]]
    two = former_things.shards(name, 2)
    for iterator, state in zip(two, states):
        iterator.set_state(state)
    now = former_things.after_others(name)
    assert [iterator.get_state() for iterator in two] == [iterator.get_state() for iterator in now]
    (one,), (same,) = former_things.shards(name, 1), former_things.shards(name, 1)
    one.set_states(states)
    same.set_states([iterator.get_state() for iterator in now])
    assert stream(one) == stream(same)
    assert list(map(stream, two)) == list(map(stream, now))


def test_a_state_that_is_written_has_the_present_name_alone():
    """Also one that goes on after a state with the former name."""
    iterator = begun("batch")
    iterator.set_state(as_given(STATES["alone"]["batch"]))
    assert iterator.get_state() == taken(begun("batch"), STEP).get_state()
    assert f'"algorithm":"{PRESENT}"'.encode() in iterator.get_state()


def test_traces_and_differences_of_states_know_both_names():
    """A state of the former name is traced as that of a loader of now, and does not differ from it."""
    state = as_given(STATES["alone"]["batch"])
    found, same = (headrace.trace(loader("batch"), 3, checkpoint) for checkpoint in (state, None))
    assert found.records == same.records
    assert not headrace.diff(state, taken(begun("batch"), STEP).get_state())


def test_a_folder_of_orbax_is_restored(tmp_path):
    """Although the class that wrote it is told there by its former name; and one of the newer Orbax."""
    shutil.copytree(KEPT / "orbax", tmp_path / "orbax")
    shutil.copytree(KEPT / "orbax_v1", tmp_path / "orbax_v1")
    expected = rest_of(taken(begun("batch"), STEP))
    restored = begun("batch")
    with ocp.CheckpointManager(tmp_path / "orbax") as manager:
        manager.restore(1, args=ocp.args.Composite(loader=CheckpointRestore(restored)))
    assert rest_of(restored) == expected
    loaded = begun("batch")
    v1.load_checkpointables(tmp_path / "orbax_v1", {"loader": loaded})
    assert rest_of(loaded) == expected


def test_a_state_file_is_restored(tmp_path):
    """And is written on, with the present name."""
    path = Path(shutil.copy(KEPT / "state_file.json", tmp_path))
    iterator = begun("batch")
    with StateFile(path) as file:
        assert file.restore(iterator)
        file.save(iterator)
    assert path.read_bytes().rstrip() == taken(begun("batch"), STEP).get_state()
    assert rest_of(iterator) == rest_of(taken(begun("batch"), STEP))


def test_the_order_has_two_names():
    """`algorithm=` takes the former one, which is the same sampler with the same fingerprint."""
    one, same = (IndexSampler(40, shuffle=True, seed=3, algorithm=name) for name in (FORMER, PRESENT))
    assert one == same == IndexSampler(40, shuffle=True, seed=3)
    assert one.fingerprint == same.fingerprint
    assert one.record_keys(np.arange(80)).tolist() == same.record_keys(np.arange(80)).tolist()


@pytest.fixture
def never_made(monkeypatch):
    """No index may be made."""

    def made(*arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr(index, "_made", made)


@pytest.mark.parametrize("where", ["beside", "cache", "index_dir"])
def test_an_index_is_read(where, tmp_path, monkeypatch, never_made):
    """One that is kept beside its file, in the user's cache folder, or in a folder of the user's choice."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = lines_in(tmp_path / "data")
    own = str(tmp_path / "own") if where == "index_dir" else None
    places = index.places_of(str(path), own, formerly(index.SUFFIX), formerly(index.CACHE_FOLDER))
    place = Path(places[1 if where == "cache" else 0])
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(KEPT / "index", place)
    with JsonLinesDataSource(str(path), index_dir=own) as source:
        assert [source[number]["number"] for number in range(20)] == list(range(20))
    found = {found for found in tmp_path.rglob("*") if found.is_file()}
    assert found == {path, place}


def test_an_index_is_no_data(tmp_path, never_made):
    """A folder whose files have indexes of the former name is read as one whose have those of now."""
    path = lines_in(tmp_path / "data")
    shutil.copy(KEPT / "index", str(path) + formerly(index.SUFFIX))
    with JsonLinesDataSource(str(path.parent / "*")) as source:
        assert len(source) == 20
    made = headrace.convert(str(path.parent / "*"), tmp_path / "out", "parquet", workers=0, progress=False)
    assert made.records == 20


def test_an_index_of_another_version_of_its_file_is_made_anew(tmp_path):
    """Under the present name."""
    path = lines_in(tmp_path / "data")
    shutil.copy(KEPT / "index", str(path) + formerly(index.SUFFIX))
    path.write_bytes(former_things.LINES[:-1] + b" \n")
    JsonLinesDataSource(str(path)).close()
    assert Path(str(path) + index.SUFFIX).read_bytes().startswith(index.MAGIC)


def test_a_conversion_that_was_begun_goes_on(tmp_path):
    """What was whole is kept, and the rest is made; the result is that of one that was done."""
    target = Path(shutil.copytree(KEPT / "begun", tmp_path / "begun"))
    (whole,) = target.glob("*.npy")
    before = whole.stat().st_ino
    assert former_things.convert(target).records == len(RECORDS)
    assert whole.stat().st_ino == before
    assert headrace.verify(target) == []
    with TokenSource(str(target)) as source:
        assert [source[number]["tokens"].tolist() for number in range(len(RECORDS))] == RECORDS


def test_a_conversion_that_was_done_is_known(tmp_path):
    """It is verified, is not made again, and what was removed of it is."""
    target = Path(shutil.copytree(KEPT / "converted", tmp_path / "converted"))
    assert headrace.verify(target) == []
    manifest = (target / "manifest.json").read_bytes()
    assert former_things.convert(target).records == len(RECORDS)
    assert (target / "manifest.json").read_bytes() == manifest
    lost = min(target.glob("*.npy"))
    lost.unlink()
    former_things.convert(target)
    assert lost.read_bytes() == (KEPT / "converted" / lost.name).read_bytes()
    assert json.loads((target / "manifest.json").read_bytes())["kind"] == f"{PRESENT} conversion"


def test_a_manifest_of_another_package_is_none(tmp_path):
    """Only the two names are ours."""
    target = Path(shutil.copytree(KEPT / "converted", tmp_path / "converted"))
    text = (target / "manifest.json").read_text()
    (target / "manifest.json").write_text(text.replace(FORMER, "tailrace"))
    with pytest.raises(ConversionError, match="is of kind"):
        headrace.verify(target)


def test_a_function_of_the_users_that_names_the_package_is_the_same_one():
    """A conversion with it goes on after the name was changed there, too; another function is another one."""

    def told(name, method="upper"):
        names = {}
        exec(f"def f(record):\n    import {name}.formats\n    return {name}.x(record.{method}())", names)
        return identity_of(names["f"])

    assert told(FORMER) == told(PRESENT)
    assert told(FORMER) != told(PRESENT, "lower")


@pytest.fixture
def clean(monkeypatch, tmp_path):
    """Names of environment variables of now, none of which is set; the user's cache folder is a new one."""
    names = [f"{PRESENT.upper()}_CACHE_{what}" for what in ("DIR", "BYTES")]
    for name in names:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(formerly(name), raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return names


def test_environment_variables_hold_until_those_of_now_are_set(clean, monkeypatch, tmp_path):
    """The former ones first, and then both."""
    folder, size = clean
    monkeypatch.setenv(formerly(folder), str(tmp_path / "before"))
    monkeypatch.setenv(formerly(size), "1000")
    found = storage_options_of(None)
    assert (found.cache_dir, found.cache_bytes) == (str(tmp_path / "before"), 1000)
    monkeypatch.setenv(folder, str(tmp_path / "now"))
    monkeypatch.setenv(size, "2000")
    found = storage_options_of(None)
    assert (found.cache_dir, found.cache_bytes) == (str(tmp_path / "now"), 2000)


def test_a_variable_that_is_wrong_is_told_by_its_name(clean, monkeypatch):
    """That which was set."""
    for name in (formerly(clean[1]), clean[1]):
        monkeypatch.setenv(name, "much")
        with pytest.raises(ValueError, match=f"{name}='much' is not a whole number"):
            storage_options_of(None)


def test_a_cache_is_used_on(clean, tmp_path):
    """Where there is only a folder of the former name, it is the cache; where there is none, or one of now, that is."""
    home = tmp_path / "home"
    assert storage_options_of(None) == storage_options_of({"cache_dir": str(home / PRESENT / "files")})
    assert storage_options_of(None).cache_bytes == CACHE_BYTES
    (home / FORMER).mkdir(parents=True)
    assert storage_options_of(None).cache_dir == str(home / FORMER / "files")
    (home / PRESENT).mkdir(exist_ok=True)
    assert storage_options_of(None).cache_dir == str(home / PRESENT / "files")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store that has a file; and its URL."""
    url = f"s3://{remote_store.BUCKET}/lines.jsonl"
    with remote_store.moto_server() as upstream:
        remote_store.put(upstream, "", b"")
        remote_store.put(upstream, "lines.jsonl", former_things.LINES)
        folder = str(tmp_path_factory.mktemp("kept"))
        with remote_store.proxy_to(upstream) as proxy:  # what the library opens once in a process is open now
            kept = {"storage_options": remote_store.options(proxy, cache_dir=folder), "index_dir": folder}
            JsonLinesDataSource(url, **kept).close()
        yield upstream, url


def test_files_in_a_cache_are_not_read_from_the_store_again(stored, clean, tmp_path):
    """Pieces of a remote file that were kept in the folder of the former name."""
    (upstream, url), home = stored, tmp_path / "home"
    with remote_store.proxy_to(upstream) as proxy:
        options = remote_store.options(proxy)
        with JsonLinesDataSource(url, storage_options=options) as source:
            assert source[7]["number"] == 7
        (home / PRESENT).rename(home / FORMER)
        before = proxy.reads
        HOT.clear()
        with JsonLinesDataSource(url, storage_options=options) as source:
            assert source[7]["number"] == 7
        assert before > 0
        assert proxy.reads == before
    assert not (home / PRESENT).exists() or PRESENT == FORMER


BESIDE = (
    "CHANGELOG.md",
    "common/former_names.py",
    "tests/former/",
    "tests/states_of_version_1.json",
    "tests/version_1.json",
)
"""Where the old word may stand: what was, and what is written about it."""


def test_the_old_word_stands_nowhere_else():
    """In no file of the repository, and in no name of one."""
    if not (ROOT / ".git").exists():
        pytest.skip("no clone: what belongs to the repository is not known")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [name for name in listed.split("\0") if name and not name.startswith(BESIDE) and (ROOT / name).is_file()]
    assert len(files) > 500
    old = FORMER.encode()
    assert [name for name in files if old in name.lower().encode() or old in (ROOT / name).read_bytes().lower()] == []
