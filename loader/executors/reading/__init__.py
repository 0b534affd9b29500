"""Read records before workers need them."""
