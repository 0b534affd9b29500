"""Read records before the work needs them."""
