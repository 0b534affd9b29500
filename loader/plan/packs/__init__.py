"""Rows of packed documents as the records of a leaf: their order on any number of shards, and their making from records."""
