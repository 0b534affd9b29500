"""Tar files in memory, and their samples."""

from __future__ import annotations

import io
import tarfile

from headrace.formats.tar import read_records


def tar_of(files, form=tarfile.PAX_FORMAT):
    """The bytes of a tar file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        link = tarfile.TarInfo("a/link")
        link.type, link.linkname = tarfile.SYMTYPE, "1.jpg"
        tar.addfile(link)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def samples_of(data, on_damage=None):
    """The samples of these bytes."""
    return [sample for _, sample in read_records(io.BytesIO(data), "x.tar", on_damage)]
