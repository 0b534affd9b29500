"""Packed rows that are planned from the lengths of documents: their order on shards, and a source that makes them."""
