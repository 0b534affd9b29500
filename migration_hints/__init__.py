"""Hints for users of other libraries: what to write in headrace for a name, argument or method."""
