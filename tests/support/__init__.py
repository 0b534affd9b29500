"""Helpers that tests of several folders share: programs, sources, plain models, and checks."""
