"""Nodes of the tree behind a `MapDataset` chain.

Each method call has one node, which makes the element at any index.
"""
