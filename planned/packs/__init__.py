"""Packed rows planned from the lengths of documents: their order on shards, and their source."""
