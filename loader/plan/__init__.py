"""Check a pipeline, and divide it into leaves and stages. No I/O, no thread, no clock.

A stage is a group of operations that run together in one task. A leaf is a source with its sampler.
"""
