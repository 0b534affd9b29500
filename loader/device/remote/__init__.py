"""Loaders that run on the hosts of devices while one process controls all hosts, as on Pathways."""
