"""Device feeders in several processes: the shard that each process loads, and how the processes agree on each step."""
