"""Grain's `DataLoader`, built on headrace's."""
