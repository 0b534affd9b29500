"""Nodes of the tree behind a `MapDataset` chain.

There is a node for each method call. It makes the element at any index of the dataset that the
method returns.
"""
