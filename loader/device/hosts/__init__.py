"""Device feeders in several processes.

The modules find the shard that each process loads, and let the processes agree on each step.
"""
