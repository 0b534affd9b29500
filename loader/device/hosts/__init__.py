"""Several processes: the shard that each loads, and their agreement on each step."""
