"""Grain's packing datasets and operation."""
