"""What Grain's names stand for: adapters over our samplers, operations, datasets and loader."""
