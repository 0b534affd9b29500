"""A source that grows: its records are their keys, and a file tells how many there are in each
generation.
"""

from __future__ import annotations

import json
from pathlib import Path

from headrace import SourceFacts
from headrace.errors import SourceError


class GrowingKeys:
    """Generations are the numbers in a JSON file; a number below zero at the end says that a writer
    is still at work.

    Its records are their keys, and `first` more.
    """

    def __init__(self, path, generation=None, writable=True, first=0):
        self.path, self.writable, self.first = Path(path), writable, first
        self.growing = generation is None
        self.generation = len(self._sizes()) - 1 if generation is None else generation
        self._records = self._sizes()[self.generation]

    @property
    def facts(self):
        return SourceFacts(generations=self)

    def _sizes(self):
        return [size for size in json.loads(self.path.read_text()) if size >= 0]

    @property
    def complete(self):
        return json.loads(self.path.read_text())[-1] >= 0

    @property
    def generation_folder(self):
        return str(self.path.parent) if self.writable else None

    def generation_records(self, generation):
        return self._sizes()[generation]

    def generation_complete(self, generation):
        return True

    def newest_generation(self):
        sizes = self._sizes()
        if sizes != sorted(sizes):
            raise SourceError(f"{self.path}: a generation has fewer records than the one before.")
        return len(sizes) - 1

    def at_generation(self, generation):
        other = GrowingKeys(self.path, generation, self.writable, self.first)
        other.growing = self.growing
        return other

    def __len__(self):
        return self._records

    def __getitem__(self, key):
        return self.first + key

    @property
    def fingerprint(self):
        return {"kind": "GrowingKeys", "records": self._records}


def append(path, records):
    """One more generation, with so many more records; the first one where there is none."""
    sizes = [size for size in json.loads(path.read_text()) if size >= 0] if path.exists() else []
    write(path, [*sizes, (sizes[-1] if sizes else 0) + records])


def begin_writing(path):
    """A writer is at work."""
    write(path, [*json.loads(path.read_text()), -1])


def write(path, sizes):
    """Tell the records of all generations."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(sizes))
    new.replace(path)
