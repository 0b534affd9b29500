"""Identities of values and functions: plain values and digests that change when the original changes."""
