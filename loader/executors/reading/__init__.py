"""Records that are read before the work needs them."""
