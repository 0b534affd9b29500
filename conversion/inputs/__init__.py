"""Inputs of a conversion: files of several formats, and sources."""
