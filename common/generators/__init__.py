"""Random generators: keyed generators, the global generators of a process, and generators that operations hold."""
