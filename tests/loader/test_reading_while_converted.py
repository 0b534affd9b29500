"""Loaders that read what `headrace convert` is still writing."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from support.conversions import content, convert

import headrace
from headrace import ArrayRecordDataSource, TokenSource, load
from headrace.sources.growing.conversion_folder import (
    KIND,
    MANIFEST,
    PLAN,
    VERSION,
    WORKPLACE,
    receipt_name,
)

SHARDS, DOCUMENTS = 5, 6

CONVERTER = """
import pathlib, sys, time
import headrace

folder = pathlib.Path({folder!r})

def held(record):
    while not (folder / f"go {{record['shard']}}").exists():
        time.sleep(0.01)
    return record

headrace.convert(str(folder / "in"), folder / "out", **{options!r}, transform=held, workers={workers}, progress=False)
"""
"""A shard is converted when a file says so."""


FORMATS = {
    "tokens": (TokenSource, lambda record: int(record["tokens"][0])),
    "array_record": (ArrayRecordDataSource, lambda record: json.loads(record)["number"]),
}
"""Sources on what is converted, and the number of a record."""


class Converter:
    """A conversion in a process of its own, which is told when to make which shard, and can be
    killed.
    """

    def __init__(self, folder, to, workers):
        self.folder, self.out = folder, folder / "out"
        self.options = {"to": to, "source_format": "json_lines"}
        if to == "tokens":
            self.options |= {"tokenizer": _tokenizer(folder)}
        (folder / "in").mkdir()
        for shard in range(SHARDS):
            rows = [
                {
                    "shard": shard,
                    "text": f"w{shard * DOCUMENTS + n}",
                    "number": shard * DOCUMENTS + n,
                }
                for n in range(DOCUMENTS)
            ]
            (folder / "in" / f"{shard}.jsonl").write_text(
                "".join(json.dumps(row) + "\n" for row in rows)
            )
        self._program = CONVERTER.format(folder=str(folder), options=self.options, workers=workers)
        self._process = None

    def __enter__(self):
        self.begin()
        return self

    def __exit__(self, *_):
        self.kill()

    def begin(self):
        """Begin, or begin again; returns when it is at work."""
        self._process = subprocess.Popen([sys.executable, "-c", self._program])
        _until(lambda: (self.out / ".conversion" / "plan.json").exists())

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def make(self, *shards):
        for shard in shards:
            (self.folder / f"go {shard}").touch()


def _tokenizer(folder):
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({f"w{n}": n for n in range(SHARDS * DOCUMENTS)}, "w0")).save(
        str(folder / "tokenizer.json")
    )
    return str(folder / "tokenizer.json")


def _until(is_so):
    while not is_so():
        time.sleep(0.01)


def _waits(caplog):
    return [
        record.message for record in caplog.records if "waiting for more records" in record.message
    ]


@pytest.mark.parametrize(
    ("to", "workers"),
    [("tokens", 0), ("tokens", 2), pytest.param("array_record", 2, marks=pytest.mark.long)],
)
@pytest.mark.one_in(2)
def test_a_conversion_is_read_while_it_goes_on(tmp_path, to, workers, caplog):
    """Shards finished out of order, waits, a kill and a new start: the stream is that of the
    finished folder.
    """
    caplog.set_level(logging.INFO, "headrace")
    source, number_of = FORMATS[to]

    def loader(growing):
        records = source(tmp_path / "out", growing=growing)
        return load(
            records, transformations=[number_of], batch_size=4, num_epochs=2, worker_count=workers
        )

    with Converter(tmp_path, to, workers) as converter:
        converter.make(0)

        def go_on():
            """Once the loader waits, and shard 2 is there: end it in shard 1, and begin again."""
            if workers:
                converter.make(2)
            _until(lambda: _waits(caplog))
            if workers:
                _until(lambda: len([*converter.out.glob(".conversion/receipt-*")]) == 2)
            converter.kill()
            converter.make(1)
            converter.begin()

        helper = threading.Thread(target=go_on)
        with iter(loader(growing=True)) as iterator:
            batches = [next(iterator)]
            helper.start()
            batches += [next(iterator) for _ in range(2)]
            helper.join()
            converter.make(2, 3, 4)
            batches += list(iterator)
    assert np.concatenate(batches).tolist() == [*range(SHARDS * DOCUMENTS)] * 2
    assert len(_waits(caplog)) == 1
    assert all(map(np.array_equal, batches, finished := list(loader(growing=False))))
    assert len(batches) == len(finished)
    assert headrace.verify(converter.out) == []
    convert(tmp_path / "in", tmp_path / "at once", **converter.options)
    files = {
        name: data
        for name, data in content(tmp_path / "at once").items()
        if name != "manifest.json"
    }
    assert files.items() <= content(converter.out).items()


class Shards:
    """A folder as a conversion leaves it after each shard: files, receipts, and the manifest at the
    end.
    """

    def __init__(self, folder, count):
        self.folder, self.names = folder, [f"{number}.npy" for number in range(count)]
        _write_json(folder / PLAN, {"shards": [{"name": name} for name in self.names]})
        self._done = 0

    def make(self, count=1):
        for _ in range(count):
            with headrace.TokenWriter(
                self.folder / self.names[self._done], dtype=np.uint16
            ) as writer:
                writer.extend([[self._done * 10 + number] for number in range(4)])
            _write_json(self.folder / WORKPLACE / receipt_name(self.names[self._done]), {})
            self._done += 1

    def end(self):
        """Make all that is left, and end the conversion."""
        self.make(len(self.names) - self._done)
        _write_json(
            self.folder / MANIFEST,
            {"kind": KIND, "version": VERSION, "shards": [{"name": name} for name in self.names]},
        )
        shutil.rmtree(self.folder / WORKPLACE)


def _write_json(path, values):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values))


def _loader(folder, epochs=1):
    source = TokenSource(folder, name=None, growing=True)
    return load(
        source, transformations=[lambda record: int(record[0])], batch_size=4, num_epochs=epochs
    )


ALL = [shard * 10 + number for shard in range(4) for number in range(4)]


@pytest.mark.parametrize("made", [1, 2])
def test_a_conversion_that_ends_between_two_looks_belongs_to_the_epoch_in_which_it_was_read(
    tmp_path, made
):
    """The last shards come in the epoch under way, also if the loader did not look between one of
    them and the end.
    """
    shards = Shards(tmp_path, 4)
    shards.make()
    with iter(_loader(tmp_path, 2)) as iterator:
        keys = next(iterator).tolist()
        for _ in range(made - 1):
            shards.make()
            keys += next(iterator).tolist()
        shards.end()
        keys += [key for batch in iterator for key in batch.tolist()]
    assert keys == ALL * 2


@pytest.mark.parametrize("made", [1, 2])
def test_a_conversion_that_ended_while_the_run_was_down_belongs_to_the_epoch_in_which_it_was_read(
    tmp_path, made
):
    """A run with one epoch that is stopped, and goes on when the conversion is over, reads all
    records.
    """
    shards = Shards(tmp_path, 4)
    shards.make()
    with iter(_loader(tmp_path)) as iterator:
        keys = next(iterator).tolist()
        for _ in range(made - 1):
            shards.make()
            keys += next(iterator).tolist()
        state = iterator.get_state()
    shards.end()
    with iter(_loader(tmp_path)) as iterator:
        iterator.set_state(state)
        keys += [key for batch in iterator for key in batch.tolist()]
    assert keys == ALL


def test_what_comes_after_a_conversion_comes_with_the_next_epoch(tmp_path):
    """A file that is added in an epoch after that in which the conversion ended does not join this
    epoch.
    """
    shards = Shards(tmp_path, 4)
    shards.make()
    with iter(_loader(tmp_path, 3)) as iterator:
        keys = next(iterator).tolist()
        shards.make(3)
        keys += next(iterator).tolist()
        shards.end()
        keys += [key for _ in range(3) for key in next(iterator).tolist()]
        with headrace.TokenWriter(tmp_path / "later.npy", dtype=np.uint16) as writer:
            writer.extend([[100], [101], [102], [103]])
        keys += [key for batch in iterator for key in batch.tolist()]
    assert keys == [*ALL, *ALL, *ALL, 100, 101, 102, 103]
