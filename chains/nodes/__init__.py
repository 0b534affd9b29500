"""Nodes, i.e. the datasets of a `MapDataset` chain: each can return an element at any index."""
