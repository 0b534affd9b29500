"""Identities of values and functions: descriptions and digests, compared to notice changes."""
