"""Files of records of several formats, written with plain libraries."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np

import headrace
from headrace.formats.tfrecord import framed


def in_three(folder, ending, count, write):
    """Three files of one source, the second of them with one record."""
    keys = np.arange(count)
    for name, some in zip("abc", (keys[:40], keys[40:41], keys[41:])):
        (folder / f"{name}{ending}").write_bytes(write(some.tolist()))


def tfrecords(keys):
    """Bytes of a TFRecord file."""
    return b"".join(framed(content(key)) for key in keys)


def examples(keys):
    """Bytes of a TFRecord file of examples."""
    return b"".join(
        framed(headrace.encode_example({"image": content(key), "label": key})) for key in keys
    )


def json_lines(keys):
    """Bytes of a file of JSON lines, some of them blank."""
    return b"".join(
        json.dumps({"key": key, "text": "é" * key}).encode() + b"\n" * (1 + key % 2) for key in keys
    )


def tar(keys):
    """Bytes of a tar file, of two members for each key."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for key in keys:
            for extension, data in (("txt", content(key)), ("cls", str(key).encode())):
                info = tarfile.TarInfo(f"folder/{key:05}.{extension}")
                info.size = len(data)
                file.addfile(info, io.BytesIO(data))
    return out.getvalue()


def content(key):
    """Of record `key`; lengths differ, and some are empty."""
    return b"record %d " % key * (key % 7)
