"""Counts and times of the work: when each task was done and by whom, and what its operations took."""
