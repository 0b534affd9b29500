"""Identities of values and functions: descriptions and digests that change with the original."""
