"""What a MapDataset is made of: nodes, each with a line of indices and a way to get an item."""
