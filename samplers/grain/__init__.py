"""Orders in which each shard shuffles its own part of the records, as in Grain."""
