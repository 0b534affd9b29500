"""Growing sources, to which files may be added while they are in use.

New files become part of the source as a new generation (numbered list of files). Generations are
recorded beside the data.
"""
