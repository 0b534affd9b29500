"""Nodes of the tree behind a `MapDataset` chain, one per method call: each returns an element at any index."""
