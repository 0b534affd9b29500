"""Growing sources, to which files may be added while they are in use.

Each time that new files are taken in, they get the number of a new generation. The generations are
recorded beside the data.
"""
