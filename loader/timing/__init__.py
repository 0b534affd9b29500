"""Counts and times of the work: when and by which worker tasks were done; times of operations."""
