"""Grain's DataLoader over ours."""
