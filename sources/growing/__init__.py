"""Sources whose number of files grows, in numbered generations that are recorded beside the data."""
