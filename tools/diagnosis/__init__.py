"""Measure a loop, judge what its steps wait for, and propose changes."""
