"""Run tasks in the calling thread, on threads, or in other processes.

Each module is imported only when it is needed.
"""
