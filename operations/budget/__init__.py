"""Batches of records of similar length within a budget of tokens: their shapes and their arrays."""
