"""Random generators: seeded by a key, global ones of a process, and attributes of operations."""
