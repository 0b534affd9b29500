"""Batches of records of like length: the shapes that they have, and their arrays."""
