"""Identities of values and functions: descriptions and digests, which are compared to notice changes."""
