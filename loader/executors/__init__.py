"""Run tasks: in the calling thread, on threads, in processes. Each module is imported where it is used."""
