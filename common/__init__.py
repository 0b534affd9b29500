"""Helpers that several packages use: argument checks, messages, identities of values, and random numbers by key."""
