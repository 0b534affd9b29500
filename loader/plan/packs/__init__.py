"""Rows of packed documents as the records of a leaf: their order on shards, and their making."""
