"""Grain's MapDataset and IterDataset over ours."""
