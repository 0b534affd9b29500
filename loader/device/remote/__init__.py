"""Loaders that run on the hosts of the devices while one process controls all of them, as on Pathways."""
