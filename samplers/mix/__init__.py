"""Mixes: several orders, read in proportion to weights."""
