"""Convert one shard: read its input, write its files, and store a receipt."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

from ..common.messages import shorten
from .job import Chunk, ConversionJob, InputPart, Receipt, Report, Shard, ShardWriter
from .steps import raised_at
from .target import Target, target_at

REASONS = 3
"""Number of skipped records of which a receipt keeps the errors."""


def convert_shard(job: ConversionJob, shard: Shard, report: Report) -> None:
    """Write one shard.

    It may run again, and in several processes at the same time: all write the same bytes.

    Args:
        job: settings of the conversion.
        shard: the shard to write.
        report: function that receives progress.

    Raises:
        SourceError: a record is damaged, and damaged records are not skipped.
        ConversionError: a record cannot be written as requested, or the file cannot be written.
        Exception: whatever a user's function raises.
    """
    target = target_at(job.target, job.storage)
    with ExitStack() as stack:
        with target.writes(shard.name):
            folder = stack.enter_context(target.scratch())
        writing = _Writing(job, target, shard, report)
        writing.run(os.path.join(folder, os.path.basename(shard.name)))
        receipt = Receipt(shard.name, writing.records, writing.left_out, tuple(writing.damage), ())
        with target.writes(shard.name):
            target.publish(folder, job.output.files_of(shard.name), receipt)


class _Writing:
    """Shard that is being written."""

    def __init__(self, job: ConversionJob, target: Target, shard: Shard, report: Report) -> None:
        self._job, self._target, self._shard, self._report = job, target, shard, report
        self.records = self.left_out = 0
        self.damage: list[str] = []

    def run(self, path: str) -> None:
        with self._target.writes(self._shard.name):
            writer = self._job.output.open(path)
        try:
            for part in self._shard.parts:
                self._copy(part, writer)
            with self._target.writes(self._shard.name):
                writer.close()
        except BaseException:
            writer.discard()
            raise

    def _copy(self, part: InputPart, writer: ShardWriter) -> None:
        done = 0.0
        for chunk in self._job.input.read(part, self._leave_out if self._job.skips else None):
            encoded, count = self._encoded(chunk, part)
            with self._target.writes(self._shard.name):
                writer.extend(encoded)
            self.records += count
            self._report(count, chunk.done - done)
            done = chunk.done

    def _leave_out(self, why: object) -> None:
        self.left_out += 1
        if len(self.damage) < REASONS:
            self.damage.append(shorten(why, 300))

    def _encoded(self, chunk: Chunk, part: InputPart) -> tuple[Any, int]:
        """Return encoded records and their number.

        If encoding fails, the records are encoded one by one. A wrong one is skipped, or its error
        is raised.
        """
        try:
            return self._prepare([record for _, record in chunk.records]), len(chunk.records)
        except Exception:
            kept = [
                record
                for place, record in chunk.records
                if self._can_be_written(part, place, record)
            ]
            return self._prepare(kept), len(kept)

    def _prepare(self, records: list[Any]) -> Any:
        for step in self._job.steps:
            records = [step(record) for record in records]
        return self._job.output.encode(records)

    def _can_be_written(self, part: InputPart, place: int, record: Any) -> bool:
        try:
            self._prepare([record])
        except Exception as error:
            where = self._job.input.place(part, place)
            if self._job.skips:
                self._leave_out(f"{where}: {shorten(error)}")
                return False
            raised_at(error, where)
        return True
