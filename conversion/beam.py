"""Run a conversion as a pipeline of Apache Beam.

Each shard is one element. It is converted by the function that worker processes run, so the files
have the same bytes. Beam may convert a shard twice.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import cloudpickle

from ..common.messages import first_few, short_repr, shorten
from ..errors import ConversionError, MissingExtraError, PicklingError
from .job import ConversionJob, Report, Shard
from .shards import convert_shard
from .target import target_at


def run_on_beam(
    job: ConversionJob, shards: Sequence[Shard], runner: str, options: Sequence[str], report: Report
) -> Generator[None, None, None]:
    """Convert shards on a runner of Beam, as `processes.run` does in processes.

    Yield None for each shard.

    Progress is reported only at the end.

    Args:
        job: settings of the conversion.
        shards: shards to convert.
        runner: name of a runner of Beam.
        options: options for Beam, as on its command line.
        report: function that receives progress.

    Raises:
        MissingExtraError: apache_beam is not installed.
        ConversionError: Beam does not know the runner.
        PicklingError: the job cannot be sent to Beam's workers.
        Exception: whatever a shard raised, as Beam passes it on.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise MissingExtraError(
            'runner= needs apache-beam: pip install "headrace[beam]"'
        ) from error
    try:
        pipeline = beam.Pipeline(options=PipelineOptions([f"--runner={runner}", *options]))
    except (ValueError, ImportError, AttributeError) as error:
        runner_and_options = ", ".join(
            [f"runner={short_repr(runner)}", *([first_few(list(options))] if options else [])]
        )
        raise ConversionError(
            f"Beam does not accept {runner_and_options}: {shorten(error)}. Pass the name of a "
            "runner of Beam, and options of this runner."
        ) from error
    convert = beam.Map(_convert, _pickled(job))
    (
        pipeline
        | "Shards" >> beam.Create([_pickled(shard) for shard in shards])
        | beam.Reshuffle()
        | "Convert" >> convert
    )
    pipeline.run().wait_until_finish()
    receipts = target_at(job.target, job.storage).receipts()
    for shard in shards:
        if shard.name in receipts:
            report(receipts[shard.name].records, sum(map(job.input.weight, shard.parts)))
            yield


def _pickled(value: Any) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise PicklingError(
            "The source or a function cannot be pickled, so it cannot be sent to Beam's workers: "
            f"{shorten(error)}. Use only functions and objects that pickle can write, or convert "
            "without runner=."
        ) from error
    return data


def _convert(shard: bytes, job: bytes) -> None:
    convert_shard(cloudpickle.loads(job), cloudpickle.loads(shard), lambda records, weight: None)
