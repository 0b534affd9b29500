"""`headrace.convert`: plan shards, convert missing ones, write the manifest at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from typing import Any, Literal

from ..common.messages import first_few, short_repr, shorten
from ..common.system import has_processes, usable_processors
from ..common.validation import whole_number
from ..errors import ConversionError, MissingExtraError
from ..files.paths import PathLike, text_of
from ..files.storage_options import StorageOptionsLike
from ..files.streams import MAX_EXPANSION
from ..sources.growing.conversion_folder import WORKPLACE
from ..sources.omission.keys import Omit
from ..sources.protocol import SourceLike
from .inputs.without import WithoutRecords
from .job import ConversionJob, InputPart, Report, Shard
from .labels import labelled
from .manifest import Manifest, manifest_in
from .plan import divided, shard_for_shard
from .prepare import Wanted, prepared
from .processes import run
from .progress import ConversionProgress
from .shards import convert_shard
from .target import Target, target_at


def convert(
    source: SourceLike | PathLike,
    target: PathLike,
    to: Literal["array_record", "bytes", "parquet", "tokens"] = "array_record",
    *,
    source_format: str | None = None,
    split: str | None = None,
    shards: int | None = None,
    workers: int | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    decode: Literal["bytes", "example", "json"] | None = None,
    transform: Callable[[Any], Any] | None = None,
    encode: Literal["example", "json"] | Callable[[Any], bytes] | None = None,
    options: Mapping[str, Any] | None = None,
    tokenizer: PathLike | None = None,
    column: str | None = None,
    omit: Omit | None = None,
    storage_options: StorageOptionsLike = None,
    max_expansion: int = MAX_EXPANSION,
    runner: str | None = None,
    runner_options: Sequence[str] = (),
    progress: bool = True,
) -> Manifest:
    """Convert data to files with random access.

    Each input file becomes one file, named like it, unless `shards` is passed.

    A file appears when it is complete; `manifest.json` appears last. If a conversion is killed, run
    it again to resume. The number of workers does not change the bytes that are written.

    Args:
        source: a path, a glob, a folder or a list of these; a folder of images or of a Hugging Face
            dataset; or any source, but no list of texts, which are paths.
        target: a folder. It may contain files of an earlier run of the same conversion.
        to: "array_record" (default), "bytes" for `BytesSource`, "parquet", or "tokens" for
            `TokenSource`.
        source_format: "tfrecord", "tar", "json_lines", "csv", "parquet", "array_record", "npy",
            "images", "huggingface" or "tfds". Default: determined from the names of the files.
        split: split of a TFDS or Hugging Face dataset.
        shards: number of output files, with about the same number of records each. Default: one for
            each input file, or one for a source.
        workers: number of processes, default one for each core. 0 converts in the calling thread.
        on_error: "raise" (default), or "skip" to skip damaged records; the manifest has their
            number.
        decode: how records of bytes are decoded: "example" (`tf.train.Example`), "json", or "bytes"
            (not at all). Default: TFRecord files contain examples, which are decoded for Parquet
            and tokens, and copied for ArrayRecord and bytes; other bytes are not decoded.
        transform: function that is applied to each record after decoding.
        encode: how records that are not bytes are encoded for ArrayRecord and bytes: "example"
            (default, except for JSON lines), "json", or a function, which is then applied to all
            records.
        options: options of the writer. ArrayRecord: options that are added to `{"group_size": 1}`;
            Parquet: `row_group_size`, `compression` and so on; tokens: `dtype`,
            `add_special_tokens`, `end_of_text`, and `document_length` for `.npy` files of tokens.
        tokenizer: path of a tokenizer file of the library tokenizers. Default: records are tokens
            already.
        column: field of a dict record that has its text, default "text", or its tokens, default
            "tokens".
        omit: records to omit, as in a `DataLoader`: their keys in the source, in the order of its
            files; the path of a file of keys; or a predicate of file and row. A run on the source
            can resume on the new files. Default: none.
        storage_options: how files in a store (`s3://…`) are reached and cached; see
            `docs/how-to/remote-files.md`.
        max_expansion: maximum ratio of unpacked to compressed size, for files that unpack to more
            than 1 GiB; default 200. It protects against small files that would fill the memory.
        runner: name of a runner of Apache Beam, such as "DirectRunner". Default: processes on this
            machine.
        runner_options: options for Beam, as on its command line.
        progress: True (default): show progress on standard error.

    Returns:
        The manifest: number of records and list of files.

    Raises:
        SourceError: the source cannot be read, or a record is damaged. The message names the place.
        ExpansionError: a compressed file unpacks to more than `max_expansion` allows, also with
            `on_error="skip"`.
        ConversionError: the target contains other files, is in use by another conversion, or cannot
            be written; or the arguments do not fit together; or a record cannot be written in this
            format. Complete files are kept.
        MissingExtraError: a library is not installed.
        WorkerCrashedError: a worker process ended.
        PicklingError: the source or a function cannot be sent to worker processes.
        TypeError, ValueError: an argument has a wrong type, or is not one of its choices.
        Exception: an error of `transform` or `encode`, with a note that names the record.

    >>> import tempfile, headrace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = convert([b"one", b"two"], folder, workers=0, progress=False)
    ...     print(made.records, [shard.name.partition("-")[2] for shard in made.shards])
    ...     headrace.ArrayRecordDataSource(folder)[1]
    2 ['00000-of-00001.array_record']
    b'two'
    """
    if runner is not None and not isinstance(runner, str):
        raise TypeError(
            f"runner={short_repr(runner)} is not a runner. Pass the name of a Beam runner, such as "
            '"DirectRunner".'
        )
    if runner is None and runner_options:
        raise ConversionError(
            f"the options {first_few(list(runner_options))} belong to a Beam runner, but no runner "
            "was passed. Pass runner= (--runner), the name of a Beam runner, or leave the options "
            "out."
        )
    if workers is None:
        count = usable_processors() if has_processes() else 0
    else:
        count = whole_number("workers", workers, 0, None, "a number of processes, or 0 for none")
    wanted = Wanted(
        source,
        to,
        source_format,
        split,
        shards,
        on_error,
        decode,
        transform,
        encode,
        options or {},
        None if tokenizer is None else text_of(tokenizer),
        column,
        storage_options,
        max_expansion,
        omit,
    )
    job, identity = prepared(wanted, text_of(target))
    folder = target_at(job.target, job.storage)
    done = manifest_in(folder)
    if done is not None:
        _check_same(folder, {"source": done.source, "options": done.options}, identity)
        if len(folder.held(done.shards)) == len(done.shards):
            folder.clean()
            return done
    with folder.locked(), _or_nothing(folder, job):
        plan = _plan(folder, job, identity, shards, count, anew=done is None)
        receipts = folder.held(done.shards) if done is not None else {}
        receipts.update(folder.receipts())
        missing = [shard for shard in plan if shard.name not in receipts]
        if missing:
            total = sum(job.input.weight(part) for shard in missing for part in shard.parts)
            with ConversionProgress(
                (len(missing), len(plan)), total, job.input.unit, progress
            ) as shown:
                if runner is None:
                    made = run(convert_shard, job, missing, count, shown.advance)
                else:
                    from .beam import run_on_beam

                    made = run_on_beam(job, missing, runner, tuple(runner_options), shown.advance)
                with closing(made):
                    for _ in made:
                        shown.shard_done()
            receipts.update(folder.receipts())
        lost = [shard.name for shard in plan if shard.name not in receipts]
        if lost:
            raise ConversionError(
                f"{len(lost)} shards of the conversion are missing: {first_few(lost)}. Run the "
                "same conversion again to make them."
            )
        omitted = (
            folder.keep_omitted(job.input.former) if isinstance(job.input, WithoutRecords) else ()
        )
        shards_made = tuple(receipts[shard.name] for shard in plan)
        manifest = Manifest(identity["source"], identity["options"], shards_made, omitted)
        folder.end(manifest.to_json())
    return manifest


@contextmanager
def _or_nothing(target: Target, job: ConversionJob) -> Iterator[None]:
    """Context manager that undoes a conversion that wrote no file.

    It does so on ConversionError and MissingExtraError.
    """
    try:
        yield
    except (ConversionError, MissingExtraError):
        shards = (target.plan() or {"shards": []})["shards"]
        if not target.there(
            [file for shard in shards for file in job.output.files_of(shard["name"])]
        ):
            target.undo()
        raise


def _plan(
    target: Target,
    job: ConversionJob,
    identity: dict[str, Any],
    shards: int | None,
    workers: int,
    anew: bool,
) -> list[Shard]:
    """Return the stored plan of an earlier run of this conversion.

    Without one, make a plan and store it.

    Args:
        target: target folder.
        job: settings of the conversion.
        identity: JSON values that identify the conversion.
        shards: the user's `shards=`.
        workers: number of processes that count records.
        anew: True: the target has no manifest, so existing files of the same names are an error.

    Raises:
        ConversionError: the target contains another conversion, or other files that would be
            overwritten.
    """
    kept = target.plan()
    if kept is not None and (
        kept["identity"] == identity or target.there([shard["name"] for shard in kept["shards"]])
    ):
        _check_same(target, kept["identity"], identity)
        if kept["identity"] != identity:
            target.keep({**kept, "identity": identity})
        return _with_names(target, job, kept)
    plan = _planned(target, job, shards, workers)
    there = (
        target.there([file for shard in plan for file in job.output.files_of(shard.name)])
        if anew
        else []
    )
    if there:
        raise ConversionError(
            f"{shorten(target.path)} already contains {first_few(there)}, which the conversion "
            "would overwrite. Remove these files, or pass another target."
        )
    target.forget()
    labels = {name: label for label, name in labelled(job.input.names()).items()}
    kept_plan = [
        replace(shard, parts=tuple(replace(part, name=labels[part.name]) for part in shard.parts))
        for shard in plan
    ]
    target.keep({"identity": identity, "shards": [asdict(shard) for shard in kept_plan]})
    return plan


def _with_names(target: Target, job: ConversionJob, kept: Mapping[str, Any]) -> list[Shard]:
    """Return the shards of a stored plan, with the input files of this run.

    Args:
        target: target folder, for the message.
        job: settings of the conversion.
        kept: the stored plan.

    Raises:
        ConversionError: the plan has an input file that this run does not have.
    """
    names = list(job.input.names())
    known = labelled(names)
    foreign: list[str] = []

    def part_of(part: Mapping[str, Any]) -> InputPart:
        name = known.get(part["name"])
        if name is None:
            foreign.append(part["name"])
        return InputPart(**{**part, "name": name})

    shards = [Shard(shard["name"], tuple(map(part_of, shard["parts"]))) for shard in kept["shards"]]
    if foreign:
        raise ConversionError(
            f"{shorten(target.path)} contains an unfinished conversion of {first_few(foreign)}, "
            "but the source does not have these files. Remove the folder "
            f"{shorten(target.place(WORKPLACE))} and the shards beside it, or pass another target."
        )
    return shards


def _planned(target: Target, job: ConversionJob, shards: int | None, workers: int) -> list[Shard]:
    names = list(job.input.names())
    if shards is None and job.input.unit == "B":
        return shard_for_shard(names, job.output.suffix)
    counting = run(
        count_records, job, names, workers if len(names) > 1 else 0, lambda records, weight: None
    )
    with closing(counting) as counted:
        counts = dict(counted)
    in_order = {name: counts[name] for name in names}
    return divided(
        in_order, shards or 1, os.path.basename(target.path) or "data", job.output.suffix
    )


def count_records(job: ConversionJob, name: str, report: Report) -> tuple[str, int]:
    """Return the name of an input file and its number of records, from `RecordInput.count`.

    This is a `Work` function, which runs in any process.

    Args:
        job: settings of the conversion.
        name: name of the input file.
        report: not used.
    """
    return name, job.input.count(name, (lambda error: None) if job.skips else None)


def _check_same(target: Target, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise ConversionError if an earlier run had another source or other options.

    Args:
        target: target folder, for the message.
        before: identity of the earlier conversion: `{"source": …, "options": …}`.
        now: identity of this conversion.
    """
    different = [
        name
        for part in ("source", "options")
        for name in sorted({*before[part], *now[part]})
        if before[part].get(name) != now[part].get(name)
        and (name, before[part].get(name)) != _STRICTER
    ]
    if different:
        raise ConversionError(
            f"{shorten(target.path)} contains another conversion, which differs in: "
            f"{', '.join(different)}. Pass the same source and arguments as before, or remove this "
            "folder, or pass another target."
        )


_STRICTER = ("on_error", "raise")
"""Difference between an earlier and this run that is allowed: (option, earlier value).

With "raise", the earlier run wrote only files without damaged records. They are also right if this
run skips damaged ones.
"""
