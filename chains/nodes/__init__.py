"""Nodes of the tree behind a `MapDataset` chain: one node for each method call, which makes the element at any index."""
