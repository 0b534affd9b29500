"""Random generators: generators seeded by a key, the global ones of a process, and attributes of operations."""
