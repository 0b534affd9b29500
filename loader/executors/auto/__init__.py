"""Finds out how many workers a pipeline is best done with, while it runs."""
