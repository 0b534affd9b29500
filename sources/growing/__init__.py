"""Sources to which files may be added. Each list of files is a numbered generation, recorded beside the data."""
