"""Nodes of the tree behind a `MapDataset` chain, one for each method call.

A node makes the element at any index of the dataset that the method returns.
"""
