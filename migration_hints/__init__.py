"""Hints for names of other libraries that people try: package names, arguments and methods, with replacements."""
