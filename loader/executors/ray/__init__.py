"""Run tasks in Ray actors, on this machine or others; the results are in Ray's object store."""
