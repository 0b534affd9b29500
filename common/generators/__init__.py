"""Random generators: seeded by a key, global in a process, or held by operations."""
