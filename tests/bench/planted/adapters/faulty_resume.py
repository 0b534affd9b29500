"""An adapter for `resume.py` without a library: a right loader, into which `BENCH_FAULT` plants a
fault.
"""

import os
import random
import time

from resuming.cases import MAPPED

FAULT = os.environ.get("BENCH_FAULT", "")


PACKAGES = ("numpy",)


def unclaimed(pipeline, event):
    """A sentence, for one of the faults."""
    return "“It cannot.”" if FAULT == "claims nothing" else ""


def write(records, folder):
    """Text files."""
    for source, files in enumerate(records):
        for number, file in enumerate(files):
            (folder / f"{source}-{number}").write_text(" ".join(map(str, file)))


def stream(run):
    """The stream of a leg."""
    return Stream(run)


class Stream:
    def __init__(self, run):
        self.run = run
        self.place = run.states[0]["place"] if run.states else 0
        self.resumed = bool(run.states)
        self.files = {file.name: file.stat().st_mtime_ns for file in sorted(run.folder.glob("0-*"))}
        if self.resumed and not run.states[0]["files"].items() <= self.files.items():
            raise ValueError("a file has changed")
        if FAULT == "refuses states" and self.resumed:
            raise ValueError("this state is of another program")
        self.elements = self.all_elements()

    def all_elements(self):
        records = [
            int(word)
            for file in sorted(self.run.folder.glob("0-*"))
            for word in file.read_text().split()
        ]
        if FAULT == "added records come first":
            records.sort(reverse=True)
        if self.run.pipeline.has("shuffle"):
            random.Random(random.random() if FAULT == "another shuffle each time" else 1).shuffle(
                records
            )
        if FAULT == "forgets a shard":
            records = [record for record in records if record >= 48]
        count = self.run.leg.hosts
        if self.run.event.alike and FAULT != "a host has more":
            records = records[: len(records) - len(records) % count]
        return records if FAULT == "both hosts read the same" else records[self.run.host :: count]

    def __next__(self):
        if FAULT == "hangs when resumed" and self.resumed:
            time.sleep(1000)
        records = self.elements[self.place : self.place + self.run.leg.batch]
        if FAULT == "doubles one after resume" and self.resumed:
            records = self.elements[self.place - 1 : self.place - 1 + self.run.leg.batch]
            self.place -= 1
        if FAULT == "skips one after resume" and self.resumed:
            self.place += 1
            records = self.elements[self.place : self.place + self.run.leg.batch]
        if FAULT == "swaps two after resume" and self.resumed:
            records[:2] = records[1::-1]
        self.resumed = False
        if not records or (
            FAULT == "drops the last batch" and self.place + 8 >= len(self.elements)
        ):
            raise StopIteration
        if FAULT == "swallows errors":
            records = [self.quietly(record) for record in records]
        else:
            records = [self.run.touch(record) for record in records]
        self.place += len(records)
        return [
            record + MAPPED * self.run.pipeline.has("map")
            for record in records
            if record is not None
        ]

    def quietly(self, record):
        try:
            return self.run.touch(record)
        except ValueError:
            return None

    def state(self):
        return {
            "place": self.place - (8 if FAULT == "state is a batch late" else 0),
            "files": self.files,
        }
