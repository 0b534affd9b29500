"""Where tasks run: in the calling thread, on threads, in processes. Each is imported where it is used."""
