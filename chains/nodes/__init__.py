"""The nodes of a MapDataset, each with a line of indices and a way to get an item."""
