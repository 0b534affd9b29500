"""Formats of the shards of other loaders: an index in JSON, and files of samples.

It uses only paths and bytes, no sources.
"""
