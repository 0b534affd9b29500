"""Judges what was measured, purely: what is waited for, what would change it, and by how much."""
