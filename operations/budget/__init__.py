"""Batches of records of similar length: their shapes and their arrays."""
