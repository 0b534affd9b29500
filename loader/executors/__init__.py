"""Run tasks in the calling thread, on threads, or in other processes. Each module is imported when it is needed."""
