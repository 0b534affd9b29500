"""Sources whose reads are coroutines, which run in one event loop of the process."""
