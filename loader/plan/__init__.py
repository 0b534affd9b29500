"""A pipeline, checked and taken apart. Pure: no I/O, no thread, no clock."""
