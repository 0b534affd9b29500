"""Counts and times of the work: when each task was done and by which worker, and the times of its operations."""
