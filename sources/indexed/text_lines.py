"""Source of the lines of text files."""

from __future__ import annotations

from typing import ClassVar

from ...common.messages import short_repr, shorten
from ...errors import SourceError
from ...formats.index import IndexKind
from .lines import LinesSource, index_of_lines


class TextLinesSource(LinesSource[str]):
    r"""Lines of uncompressed text files, with random access. Thread-safe, picklable, safe to fork.

    A record is the text of one line, decoded as UTF-8, without the line break (`\n` or `\r\n`).
    Blank lines are records, too: in a single file, record i is line i, counted from 0. Unlike
    `tf.data.TextLineDataset`, it reads the lines in any order. Each file is read once to find its
    lines. Their places are stored beside the file, as `<file>.headrace-index`; or in the user's
    cache folder, if the file is in a store or its folder is read-only. A file that is also read by
    a `JsonLinesDataSource` is read whole again each time, because only one list of places is
    stored.

    For a CSV file without line breaks inside fields, split each line in a map. The header is line
    0, which `omit=[0]` of a loader leaves out.

    Args:
        paths: a path, a glob, a directory (its files `*.txt`, at any depth), or a list of these.
            Files of a glob or directory are sorted by path; a list keeps its order. Names in a
            directory that begin with `.` or `_` are left out.
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
            it is read, a line is not UTF-8.
        ValueError: `paths` is an empty list, or `max_open_files` is less than 1.
        TypeError: a path is neither a string nor a `pathlib.Path`, or `max_open_files` is not an
            integer.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("one\n\nthree\n")
    ...     with TextLinesSource(path) as source:
    ...         print(len(source), source[1], source[2])
    3  three
    """

    index_kind: ClassVar[IndexKind] = index_of_lines("text lines", keep_blank=True)
    patterns: ClassVar[tuple[str, ...]] = ("*.txt",)

    def _value(self, line: bytes, path: str, offset: int) -> str:
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{shorten(path)}: the line at byte {offset} is not UTF-8: {shorten(error)}. It "
                f"begins with {short_repr(line)}. Convert the file to UTF-8, for example with "
                "iconv."
            ) from error
        return text.removeprefix("\ufeff") if offset == 0 else text
