"""Judge measurements by pure functions: what is waited for, what would change it, and by how much."""
