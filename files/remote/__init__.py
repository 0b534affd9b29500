"""Files in stores on the network, with retries, and a cache of blocks on the local disk."""
