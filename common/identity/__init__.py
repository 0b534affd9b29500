"""Identities of values and functions: descriptions and digests, which change when the value or function changes."""
