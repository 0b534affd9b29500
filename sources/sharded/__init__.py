"""Sources of shards that other loaders have written, read without their libraries."""
