"""Sources whose reads are coroutines: in one event loop of the process."""
