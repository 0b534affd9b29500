"""What a feeder knows of the other processes: which shard each loads, and what they agree on for a step."""
