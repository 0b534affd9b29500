"""Run tasks in Ray actors, on this machine or others. Blocks (results) are in Ray's object store.
"""
