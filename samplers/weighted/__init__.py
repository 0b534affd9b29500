"""Samplers that draw records by weights or by classes."""
