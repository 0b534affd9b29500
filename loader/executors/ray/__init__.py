"""Run tasks in Ray actors, on this machine or others. Blocks are in Ray's object store."""
