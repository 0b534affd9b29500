"""Formats of the shards of other loaders: an index in JSON, and files of samples. Only functions of paths and bytes."""
