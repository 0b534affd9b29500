"""Source of the lines of JSON lines files."""

from __future__ import annotations

from typing import Any, ClassVar

from ...formats.index import IndexKind
from ...formats.json_lines import parsed
from .lines import LinesSource, index_of_lines


class JsonLinesDataSource(LinesSource[Any]):
    r"""Lines of uncompressed JSON lines files, with random access.

    Thread-safe, picklable, safe to fork.

    A record is the result of `json.loads` for one line, most often a dict. Blank lines are ignored.
    Each file is read once to find its lines. Their places are stored beside the file, as
    `<file>.headrace-index`; or in the user's cache folder, if the file is in a store or its folder
    is read-only.

    Args:
        paths: a path, a glob, a directory (its files `*.jsonl` and `*.ndjson`, at any depth), or a
            list of these. Files of a glob or directory are sorted by path; a list keeps its order.
            Names in a directory that begin with `.` or `_` are left out.
        index_dir: folder for the indices. Default: beside the files.
        max_open_files: maximum number of open files of this source. Default: all sources of a
            process together keep a quarter of the process's limit open (16 to 256).
        storage_options: how files in a store (`s3://…`) are reached and cached; see
            `docs/how-to/remote-files.md`.
        growing: False (default), True, or a folder. If not False, more files may be added later.
            Each list of files is a numbered generation, which is recorded in
            `.headrace-generations` beside the data, or in this folder if one is passed; see
            `docs/how-to/data-that-changes.md`.
        generation: number of the generation to read, from 0. The source then does not look for
            newer files.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: a file cannot be read, or is compressed with gzip; there are no lines; or, when
            it is read, a line is not JSON.
        ValueError: `paths` is an empty list, or `max_open_files` is less than 1.
        TypeError: a path is neither a string nor a `pathlib.Path`, or `max_open_files` is not an
            integer.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.jsonl")
    ...     _ = path.write_text('{"text": "one"}\n{"text": "two"}\n')
    ...     with JsonLinesDataSource(path) as source:
    ...         print(len(source), source[1])
    2 {'text': 'two'}
    """

    index_kind: ClassVar[IndexKind] = index_of_lines("json lines", keep_blank=False)
    patterns: ClassVar[tuple[str, ...]] = ("*.jsonl", "*.ndjson")

    def _value(self, line: bytes, path: str, offset: int) -> Any:
        return parsed(line, path, offset)
