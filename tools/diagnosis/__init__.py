"""Measures a loop, judges what its steps wait for, and proposes what would change that."""
