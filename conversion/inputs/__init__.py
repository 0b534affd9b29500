"""Inputs of a conversion: files of many formats, and sources."""
