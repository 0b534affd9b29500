"""Helpers that several packages use: argument checks, messages, identities, random numbers."""
