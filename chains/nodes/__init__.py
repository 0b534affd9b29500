"""Nodes of the tree behind a `MapDataset` chain. There is one for each method call; it makes the element at any index."""
