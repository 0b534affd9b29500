"""Grain's `MapDataset` and `IterDataset`, built on headrace's datasets."""
