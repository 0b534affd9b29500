"""Grain's classes, built on headrace's samplers, operations, datasets and loader."""
