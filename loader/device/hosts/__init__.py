"""Feeders in several processes: find each process's shard, and agree on each step.

A feeder makes batches ahead of the user's loop. By their agreement, all processes have equally many
batches.
"""
