"""Names of other libraries that people try: names of the package, arguments, methods. Each has what to write instead."""
