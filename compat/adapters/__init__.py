"""Adapters of Grain's classes over our samplers, operations, datasets and loader."""
