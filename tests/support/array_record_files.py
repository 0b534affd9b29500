"""Files of ArrayRecord, written by its own library."""

from __future__ import annotations

from array_record.python import array_record_module


def write_file(path, records, group_size=1):
    """Writes one ArrayRecord file."""
    writer = array_record_module.ArrayRecordWriter(str(path), f"group_size:{group_size}")
    for record in records:
        writer.write(record)
    writer.close()


def record(key):
    """The content of record `key`; lengths differ."""
    return b"record %d " % key * (1 + key % 5)
