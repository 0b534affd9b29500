"""Judge measurements by pure functions: what the user waits for, what would change that, and by how much."""
