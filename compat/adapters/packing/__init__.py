"""Grain's packings."""
