"""Feeders in several processes: the shard that each process loads, and their agreement on each step."""
