"""Random generators: by key, of a process, and those that operations hold."""
